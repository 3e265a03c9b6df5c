"""Extract numbers, texts and identities from the bytes of files that may be damaged. Shared by the formats."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clocs.core.errors import ClocsError, FormatError
from clocs.core.privacy.identity import Identity


def unpack(layout: str, data: bytes, offset: int, name: str) -> tuple[Any, ...]:
    """Unpack a ``struct`` layout at an offset in bytes.

    Raises:
        FormatError: If the layout does not fit within the data.
    """
    size = struct.calcsize(layout)
    if not 0 <= offset <= len(data) - size:
        raise FormatError(f"{name}: breaks off; {size} bytes at {offset} are beyond its {len(data)}")
    return struct.unpack_from(layout, data, offset)


def decode_text(data: bytes) -> str:
    """Decode a text up to its first zero byte, as UTF-8 if it is valid, else as Latin-1."""
    plain = data.partition(b"\0")[0]
    try:
        return plain.decode().strip()
    except UnicodeDecodeError:
        return plain.decode("latin-1").strip()


def make_identity(**fields: Iterable[str]) -> Identity:
    """Build an identity from the values of each field, without empty and repeated values."""
    unique = {field: tuple(dict.fromkeys(filter(None, map(str.strip, values)))) for field, values in fields.items()}
    return {field: values for field, values in unique.items() if values}


@contextmanager
def wrap_library_errors(name: str, what: str) -> Iterator[None]:
    """Turn every error of a library into a ``FormatError`` that quotes nothing of the file."""
    try:
        yield
    except (ClocsError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(f"{name}: damaged {what} ({type(error).__name__})") from None
