"""Parse XML from hospitals safely: no DTD is fetched, no entity is expanded, size and depth are limited."""

from __future__ import annotations

import codecs
import functools
import re
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element
from xml.parsers.expat import ErrorString

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.sources.source import Source
from clocs.formats.reading import HEAD_BYTES

MAX_BYTES: Final = 256 << 20
MAX_ELEMENTS: Final = 100_000
MAX_DEPTH: Final = 50
MAX_NAME_LENGTH: Final = 64
MAX_NAME_EXPANSION: Final = 16
"""Maximum total length of names with their expanded namespaces, as a multiple of the file size. More is an attack."""
MAX_MARKUP_BYTES: Final = 1 << 20
"""Maximum length of one tag, comment or declaration in bytes."""
FEED_BYTES: Final = 1 << 16
PROLOG_BYTES: Final = 1 << 16
"""Number of bytes in which the first element is searched."""
CHUNK_CHARACTERS: Final = 1 << 16
"""Number of characters of a list of numbers that are converted at once."""

_DECLARED = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:\-]{1,40})["']""")
_ASCII_BASED = re.compile(r"^(utf-8|ascii|iso8859-\d+|cp125\d|cp437|cp85\d|koi8-[ru]|gb\w+|big5|euc_\w+|shift_jis)$")
_ROOT = re.compile(r"<(?:[\w.\-]{1,200}:)?([\w.\-]{1,200})")


def root_name(head: bytes, source: Source, name: str) -> str:
    """Return the name of the first element without its namespace, or an empty text if the file is not XML."""
    text = _decode_prolog(head)
    if not text.startswith("<"):
        return ""
    found = _first_element(text)
    if found is None and len(head) >= HEAD_BYTES:  # Long comments may precede it.
        found = _first_element(_decode_prolog(source.head(name, PROLOG_BYTES)))
    return found or ""


@functools.lru_cache(maxsize=1)  # five formats ask
def _decode_prolog(head: bytes) -> str:
    encoding, skipped = _detect_unicode(head)
    return head[skipped:].decode(encoding or "latin-1", "replace").lstrip()


def _first_element(text: str) -> str | None:
    position = 0
    while position < len(text):
        if text.startswith("<?", position):
            end, closing = text.find("?>", position), 2
        elif text.startswith("<!--", position):
            end, closing = text.find("-->", position), 3
        elif text.startswith("<!", position):
            end, closing = text.find(">", position), 1
            subset = text.find("[", position, end)
            if subset >= 0:
                end, closing = text.find("]", subset), 1
        elif text[position].isspace() or text[position] in "]>":
            end, closing = position, 1
        else:
            match = _ROOT.match(text, position)
            return match.group(1) if match else ""
        if end < 0:
            return None
        position = end + closing
    return None


def _detect_unicode(raw: bytes) -> tuple[str, int]:
    """Return the Unicode encoding that the first bytes indicate, and the length of its byte order mark."""
    for mark, encoding in ((codecs.BOM_UTF8, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if raw.startswith(mark):
            return encoding, len(mark)
    return {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(raw[:2], ""), 0


def _utf8_chunks(raw: bytes) -> Iterator[bytes]:
    """Iterate over the file in chunks of UTF-8. The declared encoding is used if the bytes are valid in it.

    Real files declare UTF-16 and are UTF-8, or declare UTF-8 and contain a name in Latin-1.
    """
    encoding, skipped = _detect_unicode(raw)
    if not encoding:
        declared = _DECLARED.match(raw[:1000].lstrip())
        encoding = _codec_name(declared.group(1).decode()) if declared else "utf-8"
        if not _can_decode(raw, encoding):
            encoding = "utf-8" if _can_decode(raw, "utf-8") else "latin-1"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    started = False
    for start in range(skipped, len(raw), FEED_BYTES):
        text = decoder.decode(raw[start : start + FEED_BYTES])
        text = text if started else text.lstrip()
        started = started or bool(text)
        yield text.encode("utf-8", "replace")


def _codec_name(encoding: str) -> str:
    """Return Python's name of a declared encoding, or UTF-8 if it is unknown or not based on ASCII."""
    try:
        found = codecs.lookup(encoding).name
    except LookupError:
        return "utf-8"
    return found if _ASCII_BASED.match(found) else "utf-8"


def _can_decode(raw: bytes, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for start in range(0, len(raw), FEED_BYTES):
            decoder.decode(raw[start : start + FEED_BYTES])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


class _Builder:
    """Builds elements without namespaces. The text of an element is all text directly inside it, stripped."""

    def __init__(self, size: int, name: str) -> None:
        self.root: Element | None = None
        self.events = 0
        self._name = name
        self._elements = 0
        self._name_budget = MAX_NAME_EXPANSION * size + FEED_BYTES
        self._open: list[tuple[Element, list[str]]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.events += 1
        self._elements += 1
        self._name_budget -= len(tag) + sum(map(len, attributes))
        if self._elements > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH or self._name_budget < 0:
            raise FormatError(
                f"{self._name}: XML of over {MAX_ELEMENTS} elements, {MAX_DEPTH} levels or endless names is refused"
            )
        element = Element(self._local(tag), {self._local(key): value for key, value in attributes.items()})
        if self._open:
            self._open[-1][0].append(element)
        else:
            self.root = element
        self._open.append((element, []))

    def data(self, text: str) -> None:
        self.events += 1
        self._open[-1][1].append(text)

    def end(self, _tag: str) -> None:
        self.events += 1
        element, pieces = self._open.pop()
        element.text = "".join(pieces).strip()

    def _local(self, name: str) -> str:
        local = name.rpartition("}")[2]
        if len(local) > MAX_NAME_LENGTH:
            raise FormatError(f"{self._name}: an XML name of {len(local)} characters is refused")
        return local


def parse(raw: bytes, name: str) -> Element:
    """Parse an XML file.

    Raises:
        FormatError: If the file is invalid. The message quotes no content.
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    if len(raw) > MAX_BYTES:
        raise FormatError(f"{name}: XML larger than {MAX_BYTES >> 20} MiB is refused")
    builder = _Builder(len(raw), name)
    parser: Any = DefusedXMLParser(target=builder, encoding="utf-8")
    parser.parser.specified_attributes = True  # A DTD could repeat a default without limit.
    num_markup_bytes, seen = 0, 0
    try:
        for chunk in _utf8_chunks(raw):
            parser.feed(chunk)
            num_markup_bytes = num_markup_bytes + len(chunk) if builder.events == seen else 0
            seen = builder.events
            if num_markup_bytes > MAX_MARKUP_BYTES:
                raise FormatError(f"{name}: XML markup longer than {MAX_MARKUP_BYTES} bytes is refused")
        parser.close()
    except ParseError as error:
        line, column = error.position
        raise FormatError(f"{name}: broken XML at line {line}, column {column}: {ErrorString(error.code)}") from None
    except DefusedXmlException:
        raise FormatError(f"{name}: XML that declares entities is refused") from None
    assert builder.root is not None
    return builder.root


def find_text(element: Element | None, path: str = ".") -> str:
    """Return the text of the first element at a path, or an empty text. ``a/b@c`` is an attribute."""
    element_path, _, attribute = path.partition("@")
    found = element.find(element_path or ".") if element is not None else None
    if found is None:
        return ""
    return found.get(attribute, "").strip() if attribute else found.text or ""


def find_number(element: Element | None, path: str, name: str) -> float:
    """Return the finite number at a path as in ``find_text``, or raise a ``FormatError`` that names the path."""
    value = find_optional_number(element, path)
    if value is None:
        raise FormatError(f"{name}: no number in {_location(element, path)}")
    return value


def find_count(element: Element | None, path: str) -> int | None:
    """Return the integer at a path, or None."""
    text = find_text(element, path)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def find_optional_number(element: Element | None, path: str) -> float | None:
    """Return the finite number at a path, or None."""
    try:
        value = float(find_text(element, path))
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def find_numbers(element: Element | None, paths: Mapping[str, str]) -> dict[str, float | None]:
    """Return the finite number at each path, or None, by name."""
    return {name: find_optional_number(element, path) for name, path in paths.items()}


_INTEGER = "[+-]?[0-9]{1,18}"


def find_integers(element: Element | None, path: str, name: str, separator: str | None = None) -> npt.NDArray[np.int64]:
    """Return the 32-bit integers of a list, separated by white space unless a separator is given.

    The list is converted in chunks, because Python integers take ten times the memory of their text.
    """
    text = find_text(element, path).rstrip(separator)
    separators = re.compile(re.escape(separator) if separator else r"\s+")
    plain = re.compile(rf"(?:{_INTEGER}{separators.pattern})*{_INTEGER}")
    chunks, start = [np.empty(0, np.int64)], 0
    try:
        if not text.isascii() or "_" in text:
            raise ValueError
        while start < len(text):
            found = separators.search(text, start + CHUNK_CHARACTERS)
            stop, following = found.span() if found else (len(text), len(text))
            chunk = text[start:stop]
            if plain.fullmatch(chunk):  # NumPy's parser is faster, but accepts other text as well
                chunks.append(np.fromstring(chunk, np.int64, sep=separator or " "))
            else:
                chunks.append(np.array(list(map(int, chunk.split(separator))), np.int64))
            start = following
    except (ValueError, OverflowError):
        raise FormatError(f"{name}: no list of whole numbers in {_location(element, path)}") from None
    values = np.concatenate(chunks)
    if max(-int(values.min(initial=0)), int(values.max(initial=0))) >= 2**31:
        raise FormatError(f"{name}: numbers of more than 32 bits in {_location(element, path)}")
    return values


def find_base64(element: Element | None, path: str, name: str) -> bytes:
    """Decode the base64 text at a path."""
    try:
        return a2b_base64("".join(find_text(element, path).split()), strict_mode=True)
    except ValueError:
        raise FormatError(f"{name}: broken base64 in {_location(element, path)}") from None


def _location(element: Element | None, path: str) -> str:
    return f"<{element.tag}> {path}" if element is not None else path


Rules = Sequence[tuple[str, str]]
"""Pairs of an identity field and a pattern of its paths: ``patient/name``, or ``a/b@c`` for an attribute."""


def collect_identity(
    root: Element, rules: Rules, acquired: str, extra: Mapping[str, Sequence[str]] | None = None
) -> Identity:
    """Collect the identity fields of a tree.

    Args:
        root: Root of the tree.
        rules: Pairs of a field and a pattern. A pattern must match the last elements of a path. The first rule that
            matches a path applies.
        acquired: Date and time of the recording.
        extra: Further values by field.
    """
    compiled = [(field, re.compile(rf"(?:^|.*/)(?:{pattern})$")) for field, pattern in rules]
    found: dict[str, dict[str, None]] = {field: dict.fromkeys(values) for field, values in (extra or {}).items()}
    fields: dict[str, str | None] = {}
    for location, value in _located_values(root):
        if location not in fields:
            fields[location] = next((field for field, pattern in compiled if pattern.match(location)), None)
        if field := fields[location]:
            found.setdefault(field, {})[value] = None
    if acquired:
        found["acquired"] = {acquired: None}
    return {field: tuple(values) for field, values in found.items() if values}


def _located_values(root: Element) -> Iterator[tuple[str, str]]:
    """Iterate over every text and attribute that is not empty, with its path."""
    pending: list[tuple[str, Element]] = [("", root)]
    while pending:
        parent, element = pending.pop()
        location = "/".join((*parent.split("/")[-3:], element.tag))
        if element.text:
            yield location, element.text
        yield from ((f"{location}@{key}", value.strip()) for key, value in element.items() if value.strip())
        pending += [(location, child) for child in reversed(element)]
