"""Numbers, texts and identities out of the bytes of a file that may be damaged; for formats to share."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clocs.core.errors import ClocsError, FormatError
from clocs.core.identity import Identity


def unpack(layout: str, data: bytes, at: int, name: str) -> tuple[Any, ...]:
    """The numbers of a ``struct`` layout at a place; a place outside the data is a ``FormatError``."""
    size = struct.calcsize(layout)
    if not 0 <= at <= len(data) - size:
        raise FormatError(f"{name}: breaks off; {size} bytes at {at} are beyond its {len(data)}")
    return struct.unpack_from(layout, data, at)


def decode_text(data: bytes) -> str:
    """A text that ends at a zero byte: UTF-8 where it can be that, else Latin-1."""
    plain = data.partition(b"\0")[0]
    try:
        return plain.decode().strip()
    except UnicodeDecodeError:
        return plain.decode("latin-1").strip()


def make_identity(**found: Iterable[str]) -> Identity:
    """An identity of what was found: empty values left out, repeated ones named once."""
    filled = {field: tuple(dict.fromkeys(filter(None, map(str.strip, values)))) for field, values in found.items()}
    return {field: values for field, values in filled.items() if values}


@contextmanager
def wrap_library_errors(name: str, what: str) -> Iterator[None]:
    """Whatever a library raises at a damaged file becomes a ``FormatError`` that quotes nothing of the file."""
    try:
        yield
    except (ClocsError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(f"{name}: damaged {what} ({type(error).__name__})") from None
