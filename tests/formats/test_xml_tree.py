"""Safe parsing of XML: encodings of real files, and attacks that must not take memory or time."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.formats.reading import HEAD_BYTES
from clocs.formats.xml_tree import (
    CHUNK_CHARACTERS,
    MAX_DEPTH,
    MAX_ELEMENTS,
    collect_identity,
    find_base64,
    find_count,
    find_integers,
    find_number,
    find_text,
    parse,
    root_name,
)
from clocs.service.parsing.reading import MemorySource

NAME = "Jürgen Groß"
CODED = '<?xml version="1.0" encoding="{}"?>\n<a><b c="1">{}</b></a>'


def parse_name(raw: bytes) -> str:
    return root_name(raw[:HEAD_BYTES], MemorySource({"x": raw}), "x")


@pytest.mark.parametrize(
    ("declared", "held"),
    [
        ("UTF-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("UTF-16", "utf-16"),
        ("utf-16", "utf-16-le"),
        ("utf-16", "utf-16-be"),
        ("UTF-16", "utf-8"),
        ("utf-16", "utf-8-sig"),
        ("UTF-8", "utf-16"),
        ("ISO-8859-1", "latin-1"),
        ("ISO8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("UTF-8", "latin-1"),
        ("UTF-16", "latin-1"),
        ("utf-7", "utf-8"),
        ("rot13", "utf-8"),
        ("no-such-encoding", "utf-8"),
        ("GB2312", "utf-8"),
    ],
)
def test_text_is_read_with_any_declared_encoding(declared: str, held: str) -> None:
    raw = CODED.format(declared, NAME).encode(held)
    assert find_text(parse(raw, "x"), "b") == NAME
    assert parse_name(raw) == "a"


def test_other_alphabets() -> None:
    raw = CODED.format("GB18030", "张伟").encode("gb18030")
    assert find_text(parse(raw, "x"), "b") == "张伟"


def test_character_across_two_chunks() -> None:
    text = "é" * 200_000
    assert find_text(parse(b" " + f"<a>{text}</a>".encode(), "x")) == text


def test_space_before_the_declaration_is_ignored() -> None:
    assert parse(b"\r\n  <?xml version='1.0'?><a/>", "x").tag == "a"


def test_namespaces_are_removed_and_text_around_children_is_joined() -> None:
    root = parse(b"<h:a xmlns:h='urn:h' h:k=' v '>Dr <h:b>Ann</h:b> Lee</h:a>", "x")
    assert (root.tag, root.attrib, root.text) == ("a", {"k": " v "}, "Dr  Lee")
    assert find_text(root, "@k") == "v"
    assert find_text(root, "b") == "Ann"


@pytest.mark.parametrize(
    ("head", "root"),
    [
        (b"<a/>", "a"),
        (b"<n:a.b-c x='1'>", "a.b-c"),
        (b"<?xml version='1.0'?><!-- <b/> --><?p <c/>?>\n<!DOCTYPE d SYSTEM 'd.dtd'><a>", "a"),
        (b"<!DOCTYPE a [ <!ELEMENT a ANY> ]>\n<a>", "a"),
        (b"<!-- " + b"x" * 10_000 + b" --><a/>", "a"),
        (b"<!-- " + b"x" * 100_000 + b" --><a/>", ""),
        (b"< a/>", ""),
        (b"a<b/>", ""),
        (b"<!--", ""),
        (b"", ""),
    ],
)
def test_name_of_the_first_element(head: bytes, root: str) -> None:
    assert parse_name(head) == root


LAUGHS = '<!DOCTYPE a [<!ENTITY l0 "lol">{}]><a>&l9;</a>'.format(
    "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
)
ATTACKS = {
    "billion laughs": (LAUGHS.encode(), "declares entities"),
    "quadratic blow-up": (
        b'<!DOCTYPE a [<!ENTITY l "' + b"l" * 50_000 + b'">]><a>' + b"&l;" * 50_000 + b"</a>",
        "declares entities",
    ),
    "parameter entities": (b"<!DOCTYPE a [<!ENTITY % p SYSTEM 'file:///etc/hostname'> %p;]><a/>", "declares entities"),
    "external entity": (b"<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><a>&e;</a>", "declares entities"),
    "entity of a DTD that is not fetched": (b"<!DOCTYPE a SYSTEM 'http://h/d.dtd'><a>&Smith;</a>", "undefined entity"),
    "deep": (b"<a>" * 1_000_000, f"{MAX_DEPTH} levels"),
    "many attributes": (
        b"<a " + b" ".join(b'a%d=""' % n for n in range(2_000_000)) + b"/>",
        "markup longer than",
    ),
    "a long comment": (b"<a><!--" + b"-c" * 3_000_000 + b"--></a>", "markup longer than"),
    "a long declaration": (b"<!DOCTYPE a [" + b"<!ELEMENT b ANY>" * 300_000 + b"]><a/>", "markup longer than"),
    "a long namespace": (b"<a xmlns='" + b"n" * 900_000 + b"'>" + b"<b/>" * 90_000 + b"</a>", "endless names"),
    "a long name": (b"<" + b"a" * 500_000 + b"/>", "name of 500000 characters"),
    "default attributes": (
        b"<!DOCTYPE a [<!ATTLIST b c CDATA '" + b"d" * 900_000 + b"'>]><a>" + b"<b/>" * 9_000 + b"</a>",
        "",
    ),
    "no element": (b"<?xml version='1.0'?>", "no element found"),
    "nothing": (b"", "no element found"),
    "two roots": (b"<a/><b/>", "junk after document element"),
    "not closed": (b"<a><b></a>", "mismatched tag"),
    "NUL": (b"<a>\0</a>", "not well-formed"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_take_no_memory_or_time(attack: str) -> None:
    raw, message = ATTACKS[attack]
    parse(b"<a/>", "x")  # the library is loaded
    tracemalloc.start()
    started = time.process_time()
    try:
        if message:
            with pytest.raises(FormatError, match=rf"x: .*{message}"):
                parse(raw, "x")
        else:
            assert all(not child.attrib for child in parse(raw, "x"))
        assert tracemalloc.get_traced_memory()[1] < 4 * len(raw) + (64 << 20)
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 15  # tracing makes it about ten times slower


def test_maximum_number_of_elements_fits_64_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clocs.formats.xml_tree.MAX_ELEMENTS", MAX_ELEMENTS // 20)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=rf"over {MAX_ELEMENTS // 20} elements"):
            parse(b"<a>" + b"<b c='d'>e</b>" * (MAX_ELEMENTS // 20) + b"</a>", "x")
        assert 20 * tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_error_message_does_not_quote_the_file() -> None:
    for raw in (b"<a>Smith", b"<a>&Smith;</a>", b"<!DOCTYPE a [<!ENTITY Smith 'Smith'>]><a/>", b"<Smith></smith>"):
        with pytest.raises(FormatError) as refusal:
            parse(raw, "x")
        assert "Smith" not in str(refusal.value)
        assert refusal.value.__cause__ is None


def test_no_dtd_is_fetched(tmp_path: Path) -> None:
    """The file in the DOCTYPE would change the text if it were read."""
    (tmp_path / "d.dtd").write_text("<!ENTITY e 'fetched'><!ATTLIST a k CDATA 'fetched'>")
    root = parse(f"<!DOCTYPE a SYSTEM '{(tmp_path / 'd.dtd').as_uri()}'><a>plain</a>".encode(), "x")
    assert (root.text, root.attrib) == ("plain", {})


def test_large_file_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clocs.formats.xml_tree.MAX_BYTES", 10)
    with pytest.raises(FormatError, match="larger than"):
        parse(b"<a>1234</a>", "x")


def tree(text: str) -> Element:
    root = Element("a")
    SubElement(root, "b").text = text
    return root


@settings(max_examples=50)
@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=1), st.sampled_from([",", None]))
def test_integers_match_python(numbers: list[int], separator: str | None) -> None:
    text = (separator or " \n").join(map(str, numbers))
    assert find_integers(tree(text), "b", "x", separator).tolist() == numbers


@pytest.mark.parametrize("separator", [",", None, "\r\n"])
def test_long_lists_are_read_in_chunks(separator: str | None) -> None:
    numbers = np.random.default_rng(0).integers(-9999, 9999, CHUNK_CHARACTERS)
    text = (separator or " ").join(map(str, numbers.tolist()))
    assert len(text) > 3 * CHUNK_CHARACTERS
    found = find_integers(tree(text), "b", "x", "," if separator == "," else None)
    np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize(
    ("text", "separator"),
    [("1,2", None), ("1 2", ","), ("1,,2", ","), ("1.5", None), ("1_0", None), ("١", None), ("9" * 5000, None)],
)
def test_invalid_lists_are_rejected_with_their_path(text: str, separator: str | None) -> None:
    with pytest.raises(FormatError, match=r"x: no list of whole numbers in <a> b"):
        find_integers(tree(text), "b", "x", separator)


@pytest.mark.parametrize("text", ["2147483648", "-2147483648", str(2**62)])
def test_integers_over_32_bits_are_rejected(text: str) -> None:
    with pytest.raises(FormatError, match="more than 32 bits"):
        find_integers(tree(text), "b", "x")


def test_empty_list_and_trailing_comma() -> None:
    assert find_integers(None, "b", "x").tolist() == []
    assert find_integers(tree("1,2,"), "b", "x", ",").tolist() == [1, 2]


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1e999"])
def test_invalid_numbers_are_rejected_with_their_path(text: str) -> None:
    with pytest.raises(FormatError, match="x: no number in <a> b"):
        find_number(tree(text), "b", "x")


@pytest.mark.parametrize(("text", "count"), [("5", 5), ("-5", None), ("", None), ("5.0", None), ("9" * 30, None)])
def test_count_is_an_integer_or_none(text: str, count: int | None) -> None:
    assert find_count(tree(text), "b") == count


@pytest.mark.parametrize("text", ["AAA", "AA=A", "A*==", "ü"])
def test_broken_base64_is_rejected_with_its_path(text: str) -> None:
    with pytest.raises(FormatError, match="x: broken base64 in <a> b"):
        find_base64(tree(text), "b", "x")


def test_base64_in_several_lines() -> None:
    assert find_base64(tree("AQID\r\n BAUG "), "b", "x") == bytes([1, 2, 3, 4, 5, 6])


def test_identity_fields_by_path_and_first_rule() -> None:
    root = parse(b"<r><p><name>Ann</name><id x=' 7 '/></p><q><name>Bob</name><name>Bob</name><name/></q></r>", "x")
    rules = (("patient_name", "p/name"), ("operator", r"\w/name"), ("patient_id", "id@x"))
    found = collect_identity(root, rules, "2020", {"order": ["3"], "contact": []})
    assert found == {
        "order": ("3",),
        "patient_name": ("Ann",),
        "patient_id": ("7",),
        "operator": ("Bob",),
        "acquired": ("2020",),
    }


NAMES = st.text("abcde", min_size=1, max_size=3)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.builds(lambda tag, text: (tag, text, []), NAMES, st.text("xyz é<&", max_size=5)),
    lambda inner: st.builds(lambda tag, children: (tag, "", children), NAMES, st.lists(inner, max_size=4)),
)


def built(about: tuple[str, str, list[Any]]) -> Element:
    element = Element(about[0])
    element.text = about[1]
    element.extend([built(child) for child in about[2]])
    return element


@settings(max_examples=100)
@given(TREES, st.sampled_from(["utf-8", "utf-16", "us-ascii"]))
def test_trees_match_the_standard_library(about: tuple[str, str, list[Any]], encoding: str) -> None:
    raw = tostring(built(about), encoding=encoding)
    ours, theirs = parse(raw, "x"), fromstring(raw)
    assert [(each.tag, each.text or "") for each in ours.iter()] == [
        (each.tag, (each.text or "").strip()) for each in theirs.iter()
    ]
    assert [len(each) for each in ours.iter()] == [len(each) for each in theirs.iter()]


@settings(max_examples=200)
@given(st.binary(max_size=60), st.text("<>&;/!?[]-= 'aA\"xml\n", max_size=60))
def test_any_data_is_parsed_or_rejected(noise: bytes, text: str) -> None:
    for raw in (noise, text.encode(), b"<a>" + noise + b"</a>", b"<a>" + text.encode() + b"</a>"):
        parse_name(raw)
        try:
            parse(raw, "x")
        except FormatError as refusal:
            str(refusal).encode()
