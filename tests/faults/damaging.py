"""Ways to damage a file. Each takes its bytes and a random generator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Damage = Callable[[bytes, random.Random], bytes]


def _at(data: bytes, choice: random.Random) -> int:
    """Return a position, in half of the cases within the first bytes, the header."""
    return choice.randrange(min(len(data), 200) if choice.random() < 0.5 else len(data)) if data else 0


def flip_bit(data: bytes, choice: random.Random) -> bytes:
    at = _at(data, choice)
    return data[:at] + bytes([data[at] ^ (1 << choice.randrange(8))]) + data[at + 1 :] if data else data


def insert(data: bytes, choice: random.Random) -> bytes:
    at = _at(data, choice)
    return data[:at] + choice.randbytes(choice.choice((1, 1, 2, 3, 16, 300))) + data[at:]


def delete(data: bytes, choice: random.Random) -> bytes:
    at = _at(data, choice)
    return data[:at] + data[at + choice.choice((1, 1, 2, 3, 16, 300)) :]


def duplicate(data: bytes, choice: random.Random) -> bytes:
    at, length = _at(data, choice), choice.choice((1, 4, 40, 400, 4000))
    return data[:at] + data[at : at + length] * choice.choice((2, 2, 3, 50)) + data[at + length :]


def truncate(data: bytes, choice: random.Random) -> bytes:
    return data[: choice.choice((0, 1, _at(data, choice), len(data) - 1))]


def inflate(data: bytes, choice: random.Random) -> bytes:
    """Replace a number by another one."""
    numbers = list(re.finditer(rb"\d+", data[:4000]))
    if not numbers:
        return insert(data, choice)
    found = choice.choice(numbers)
    return data[: found.start()] + choice.choice(NUMBERS) + data[found.end() :]


def swap_lines(data: bytes, choice: random.Random) -> bytes:
    lines = data.split(b"\n")
    here, there = choice.randrange(len(lines)), choice.randrange(len(lines))
    lines[here], lines[there] = lines[there], lines[here]
    return b"\n".join(lines)


def replace_word(data: bytes, choice: random.Random) -> bytes:
    """Replace a word by another word of these formats, or by an unknown one."""
    words = list(re.finditer(rb"[^\s,:/()]+", data[:4000]))
    if not words:
        return insert(data, choice)
    found = choice.choice(words)
    return data[: found.start()] + choice.choice(WORDS) + data[found.end() :]


def junk(data: bytes, choice: random.Random) -> bytes:
    at = _at(data, choice)
    return data[:at] + choice.choice(TEXTS) + data[at:]


def overwrite(data: bytes, choice: random.Random) -> bytes:
    at, length = _at(data, choice), choice.choice((1, 2, 4, 8, 64))
    fill = choice.choice((b"\0", b"\xff", b"\x7f", b"\x80", b" ", b"\n")) * length
    return data[:at] + fill + data[at + length :]


def change_value(data: bytes, choice: random.Random) -> bytes:
    """Replace the text of an element or an attribute by another number or word."""
    values = list(re.finditer(rb'(?<=>)[^<>]{1,40}(?=<)|(?<=")[^"<>]{1,40}(?=")', data))
    if not values:
        return flip_bit(data, choice)
    found = choice.choice(values)
    return data[: found.start()] + choice.choice((*NUMBERS, *WORDS, b"")) + data[found.end() :]


def repeat_element(data: bytes, choice: random.Random) -> bytes:
    """Remove, double or repeat an element."""
    tags = list(re.finditer(rb"<(\w+)[^<>]*>", data))
    if not tags:
        return flip_bit(data, choice)
    found = choice.choice(tags)
    closing = b"</" + found[1] + b">"
    end = data.find(closing, found.end()) + len(closing)
    if end < found.end() or end - found.start() > 1 << 16:
        end = found.end()
    return data[: found.start()] + data[found.start() : end] * choice.choice((0, 0, 2, 3, 100)) + data[end:]


def markup(data: bytes, choice: random.Random) -> bytes:
    at = _at(data, choice)
    return data[:at] + choice.choice(MARKUP) + data[at:]


NUMBERS = (
    *(b"0", b"-1", b"1", b"2", b"3", b"255", b"256", b"32768", b"65536", b"-32768", b"2147483647", b"-2147483648"),
    *(b"4294967296", b"999999999999", b"9223372036854775807", b"9223372036854775808", b"9" * 40, b"9" * 5000),
    *(b"1e308", b"1e-308", b"5e-324", b"1e400", b"-1e308", b"nan", b"inf", b"-inf", b"0x10", b"1_0", b"1.5", b"0.0"),
)
WORDS = (
    *(b"16", b"24", b"80", b"212", b"32", b"61", b"310", b"508", b"516", b"524", b"8", b"160", b"16x2", b"16:5"),
    *(b"16+24", b"16+999999999", b"mV", b"uV", b"nV", b"V", b"mmHg", b"I", b"II", b"I", b"II", b"III", b"aVR"),
    *(b"NaN", b"..", b"../../etc/passwd", b"/dev/zero", b"a\0b", b"null", b"true", b"[]", b"{}", b'"', b"\\ud800"),
)
TEXTS = (
    *("µV".encode(), "ẞ\u202e\u0000".encode(), b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800"),
    *(b"\x85", b"\x1c", b"\r", b"\r\n", b"#", b"# age: nan\n", b"# Dx: ,,,\n", b'"'),
    *(b"[" * 3000, b'{"a":' * 3000, b"," * 500, b"\n" * 500),
)
MARKUP = (
    *(b"<", b">", b"&", b"&a;", b"&#0;", b"&#x10FFFF;", b"&#xD800;", b"<a>" * 3000, b"<a/>" * 3000, b"</a>", b"<!--"),
    *(b"<![CDATA[", b"]]>", b"<?a", b"<!DOCTYPE a [<!ENTITY a 'b'>]>", b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'>"),
    *(
        b' a="1" a="2"',
        b' xmlns="b"',
        b"<a xmlns:c='d'>",
        b"<a " + b"b='' " * 500,
        b"\0",
        b"\xff\xfe",
        b'encoding="utf-7"',
    ),
)
MUTATIONS: tuple[Damage, ...] = (
    *(flip_bit, flip_bit, insert, delete, duplicate, truncate, inflate, inflate),
    *(swap_lines, replace_word, replace_word, junk, overwrite),
)
XML_MUTATIONS = (*MUTATIONS, *(change_value,) * 8, *(repeat_element,) * 4, markup, markup)
