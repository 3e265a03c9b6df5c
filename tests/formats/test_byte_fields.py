"""Fields of binary files: bounds, texts, and errors of libraries."""

from __future__ import annotations

import pytest

from clocs.core.errors import FormatError, MissingExtraError
from clocs.formats.byte_fields import decode_text, make_identity, unpack, wrap_library_errors


def test_unpack_at_an_offset() -> None:
    assert unpack("<HB", b"\xff\x01\x02\x03", 1, "f") == (0x0201, 3)


@pytest.mark.parametrize("at", [-1, 3, 4, 10**9])
def test_offset_outside_the_data_is_rejected(at: int) -> None:
    with pytest.raises(FormatError, match=r"^f: breaks off; 2 bytes"):
        unpack("<H", b"\0\0\0\0", at, "f")


@pytest.mark.parametrize(
    ("data", "text"),
    [(b" Anna \0rest", "Anna"), ("Jürg".encode(), "Jürg"), ("Jürg".encode("latin-1"), "Jürg"), (b"", ""), (b"\0", "")],
)
def test_texts_are_decoded(data: bytes, text: str) -> None:
    assert decode_text(data) == text


def test_identity_has_no_empty_or_repeated_values() -> None:
    found = make_identity(patient_name=["Anna", "", " Anna ", "Example"], patient_id=["", "  "], order=iter(["1"]))
    assert found == {"patient_name": ("Anna", "Example"), "order": ("1",)}


@pytest.mark.parametrize("error", [ValueError("Anna"), KeyError("Anna"), RecursionError("Anna")])
def test_library_errors_become_format_errors_without_quotes(error: Exception) -> None:
    with pytest.raises(FormatError) as refusal, wrap_library_errors("f", "thing"):
        raise error
    assert str(refusal.value) == f"f: damaged thing ({type(error).__name__})"
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("error", [MemoryError(), FormatError("x"), MissingExtraError("hdf5", "it")])
def test_memory_errors_and_clocs_errors_are_not_wrapped(error: Exception) -> None:
    with pytest.raises(type(error)), wrap_library_errors("f", "thing"):
        raise error
