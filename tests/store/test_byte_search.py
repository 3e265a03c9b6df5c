"""The search agrees with a plain search, for any size of the blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clocs.store import byte_search
from clocs.store.byte_search import TextSearch


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    data=st.binary(max_size=200),
    texts=st.lists(st.text("abcdeXYZ", min_size=6, max_size=9), min_size=1, max_size=4, unique_by=str.lower),
    places=st.lists(st.integers(0, 200), min_size=4, max_size=4),
    piece=st.integers(16, 64),
)
def test_search_agrees_with_a_plain_search(
    data: bytes, texts: list[str], places: list[int], piece: int, tmp_path: Path
) -> None:
    """The reference is ``bytes.find`` at every position."""
    for text, place in zip(texts, places, strict=False):
        data = data[:place] + text.encode() + data[place:]
    (tmp_path / "f").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_search, "BLOCK_BYTES", piece)
        found = sorted(TextSearch(texts).search_file(tmp_path / "f"))
    low = data.lower()
    slow = [text for text in texts for at in range(len(low)) if low.startswith(text.lower().encode(), at)]
    assert found == sorted(slow)
    assert set(found) >= set(texts[-1:]), "the last one planted was cut by none"


@pytest.mark.parametrize(
    ("text", "data", "found"),
    [
        ("1234", b"sha 51234a", False),
        ("1234", b"id 1234.", True),
        ("1234", b"1234", True),
        ("12345678", b"a12345678", False),
        ("Smithson", b"xSMITHSONx", True),
        ("Smith", b"Blacksmiths", False),
        ("Smith", b"Dr_smith^", True),
        ("Müller", "MÜLLER".encode(), True),
        ("Müller", "Müller".encode("latin-1"), True),
        ("Müller", json.dumps("Müller").encode(), True),
        ("abc", b"abc", False),
    ],
)
def test_numbers_and_short_words_match_only_as_whole_words(text: str, data: bytes, found: bool, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    assert list(TextSearch([text]).search_file(tmp_path / "f")) == ([text] if found else [])
