"""Real files, and ways to damage them: each case follows from its kind and a number."""

from __future__ import annotations

import random
import re
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from clocs.core.errors import FormatError
from tests.faults.binary_files import BINARY, RESEAL, binary_enlarged, binary_pool, number_bytes

Files = dict[str, bytes]
CSV_ROWS = 400
"""Most CSV cases are cut to so many rows; every tenth is whole."""
CSV_WHOLE = 10


class Memory:
    """A source whose files are in memory."""

    def __init__(self, files: Files) -> None:
        self.path = "memory"
        self._files = files

    def names(self) -> Iterator[str]:
        yield from sorted(self._files)

    def exists(self, name: str) -> bool:
        return name in self._files

    def size(self, name: str) -> int:
        return len(self._files[name])

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FormatError(f"{name}: no such file in {self.path}")
        return self._files[name]

    def head(self, name: str, count: int) -> bytes:
        return self.read(name)[:count]


@dataclass(frozen=True)
class Kind:
    """What is damaged: the file with this ending in records of these pools."""

    pools: tuple[str, ...]
    ending: str
    share: float
    """Of the number of cases that a campaign is asked for."""


KINDS = {
    "header": Kind(("mat", "16", "212", "flac"), ".hea", 0.3),
    "flac": Kind(("flac",), ".dat", 0.2),
    "16": Kind(("16",), ".dat", 0.08),
    "212": Kind(("212",), ".dat", 0.08),
    "mat": Kind(("mat",), ".mat", 0.08),
    "csv": Kind(("csv",), ".csv", 0.1),
    "episodes": Kind(("irhythm",), ".json", 0.1),
    "strip": Kind(("irhythm",), ".ecg", 0.06),
    "xml": Kind(("xml",), ".xml", 0.08),
    "dicom": Kind(("dicom",), BINARY["dicom"], 0.013),
    "scp": Kind(("scp",), BINARY["scp"], 0.03),
    "edf": Kind(("edf",), BINARY["edf"], 0.01),
    "ishne": Kind(("ishne",), BINARY["ishne"], 0.01),
    "mfer": Kind(("mfer",), BINARY["mfer"], 0.01),
    "atc": Kind(("atc",), BINARY["atc"], 0.02),
    "apple": Kind(("apple",), BINARY["apple"], 0.01),
}
"""Of each sample file that is not XML, the full campaign damages at least 300 copies."""
XML = ("muse", "aecg", "philips", "cardiosoft", "schiller")
"""Folders of hospital files that are XML: each is a pool, and ``xml`` is all of them."""
ASKED = (".hea", ".csv", ".ecg", ".xml", *BINARY.values())
"""Endings of the file of a record that is asked for."""


def case(data: Path, kind: str, number: int) -> tuple[Files, str]:
    """The files of a case, and the name to read."""
    choice = random.Random(f"{kind} {number}")
    about = KINDS[kind]
    there = pool(data, choice.choice(about.pools))
    files = dict(there[number % len(there)] if kind in BINARY else choice.choice(there))
    target = next(name for name in files if name.endswith(about.ending))
    if kind == "csv" and number % CSV_WHOLE:
        files[target] = b"\n".join(files[target].split(b"\n")[:CSV_ROWS])
    changed = files[target]
    for _ in range(choice.choice((1, 1, 1, 2, 3, 5))):
        changed = choice.choice(_mutations(kind))(changed, choice)
    files[target] = RESEAL[kind](changed) if kind in RESEAL and choice.random() < 0.5 else changed
    return files, asked(files)


def _mutations(kind: str) -> tuple[Callable[[bytes, random.Random], bytes], ...]:
    return XML_MUTATIONS if kind == "xml" else (*MUTATIONS, *[number_bytes] * 6) if kind in BINARY else MUTATIONS


def asked(files: Files) -> str:
    """The file of a record that stands for it."""
    return next(name for name in files if name.endswith(ASKED))


def enlarged(data: Path, name: str, size: int) -> tuple[Files, str]:
    """A real record whose signal file is repeated up to a size, with a header that states no length."""
    if name in BINARY:
        files = binary_enlarged(data, name, size)
        return files, asked(files)
    if name in XML:
        ((file, text),) = pool(data, name)[-1].items()
        return {file: _longer_leads(text, size // len(text) + 1)}, file
    files = dict(pool(data, name)[0])
    signal = next(file for file in files if file.endswith((".dat", ".mat", ".csv", ".ecg")))
    body = files[signal].rstrip() + b"\n" if name == "csv" else files[signal][: len(files[signal]) // 24 * 24]
    files[signal] = body * (size // len(body) + 1)
    for file in files:
        if file.endswith(".hea"):
            files[file] = re.sub(rb"^(\S+ \d+ \S+) \d+", rb"\1 0", files[file], count=1)
    return files, asked(files)


def _longer_leads(text: bytes, times: int) -> bytes:
    """An XML file whose leads are repeated; their checksums are left out."""

    def longer(found: re.Match[bytes]) -> bytes:
        inside = found[2].strip()
        if found[1] == b"<WaveFormData>":
            return found[1] + b64encode(b64decode(inside) * times)
        return found[1] + (b"," if b"," in inside else b" ").join([inside] * times)

    text = re.sub(rb"<LeadDataCRC32>\d+", b"<LeadDataCRC32>", text)
    return re.sub(rb"(<(?:digits|WaveFormData|WaveformData[^>]*|data)>)([^<]*)", longer, text)


@cache
def pool(data: Path, name: str) -> list[Files]:
    """Small real records, by what holds their signal."""
    originals = data / "originals.zip"
    if name in BINARY:
        return binary_pool(data, name)
    if name == "xml":
        return [files for folder in XML for files in pool(data, folder)]
    if name in XML:
        return _singles(data / "formats.zip", f"{name}/")
    if name == "csv":
        return _records(originals, "chapman/ECGDataDenoised/", (".csv",), 6)
    if name == "irhythm":
        return _records(data / "cardiology.zip", "CARDIOL_MAY_2017/", (".ecg", "_grp0.episodes.json"), 12)
    if name == "flac":
        archives = {"chapman.zip": "WFDBRecords/", "cpsc2018.zip": "Training_WFDB/", "cinc2017.zip": "training2017/"}
        return [files for zipped, at in archives.items() for files in _records(data / zipped, at, (".hea", ".dat"), 4)]
    if name == "mat":
        at = ("cinc2017/training2017/", "cpsc2018/Training_WFDB/")
        return [files for prefix in at for files in _records(originals, prefix, (".hea", ".mat"), 4)]
    if name == "16":
        at = ("ptbxl/records100/", "ludb/data/")
        return [files for prefix in at for files in _records(originals, prefix, (".hea", ".dat"), 3)]
    return [_as_212(files) for files in _records(originals, "cinc2017/training2017/", (".hea", ".mat"), 6)]


def _records(archive: Path, prefix: str, endings: tuple[str, ...], count: int) -> list[Files]:
    with zipfile.ZipFile(archive) as opened:
        first = endings[0]
        stems = sorted(
            name.removesuffix(first) for name in opened.namelist() if name.startswith(prefix) and name.endswith(first)
        )
        whole = [stem for stem in stems if all(stem + ending in opened.NameToInfo for ending in endings)]
        whole.sort(key=lambda stem: (sum(opened.getinfo(stem + ending).file_size for ending in endings), stem))
        return [
            {(stem + ending).rsplit("/", 1)[-1]: opened.read(stem + ending) for ending in endings}
            for stem in whole[:count]
        ]


def _singles(archive: Path, prefix: str) -> list[Files]:
    """Files that stand alone, by size; the ending in small letters."""
    with zipfile.ZipFile(archive) as opened:
        members = [info for info in opened.infolist() if info.filename.startswith(prefix) and not info.is_dir()]
        members.sort(key=lambda info: (info.file_size, info.filename))
        return [{Path(info.filename).stem + Path(info.filename).suffix.lower(): opened.read(info)} for info in members]


def _as_212(files: Files) -> Files:
    """A real record whose samples are packed into 12 bits, as MIT-BIH has them."""
    header, signal = files.values()
    samples = np.clip(np.frombuffer(signal[24:], "<i2"), -2047, 2047).astype(np.int32)
    pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2) & 0xFFF
    low, high = pairs[:, 0], pairs[:, 1]
    packed = np.stack([low & 0xFF, (low >> 8) | ((high >> 8) << 4), high & 0xFF], axis=1).astype(np.uint8)
    stem = next(iter(files)).removesuffix(".hea")
    text = header.replace(f"{stem}.mat 16+24".encode(), f"{stem}.dat 212".encode())
    assert b" 212 " in text
    return {f"{stem}.hea": text, f"{stem}.dat": packed.tobytes()}


def _at(data: bytes, choice: random.Random) -> int:
    """A place; as often as not within the first bytes, where headers are."""
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
    """Another number in a number's place."""
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
    """Something that stands elsewhere in these formats, or nowhere, in a word's place."""
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
    """Another number or word for the text of an element or an attribute, wherever in the file."""
    values = list(re.finditer(rb'(?<=>)[^<>]{1,40}(?=<)|(?<=")[^"<>]{1,40}(?=")', data))
    if not values:
        return flip_bit(data, choice)
    found = choice.choice(values)
    return data[: found.start()] + choice.choice((*NUMBERS, *WORDS, b"")) + data[found.end() :]


def repeat_element(data: bytes, choice: random.Random) -> bytes:
    """An element left out, doubled or many times."""
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
MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(flip_bit, flip_bit, insert, delete, duplicate, truncate, inflate, inflate),
    *(swap_lines, replace_word, replace_word, junk, overwrite),
)
XML_MUTATIONS = (*MUTATIONS, *(change_value,) * 8, *(repeat_element,) * 4, markup, markup)
