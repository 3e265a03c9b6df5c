"""Output paths of recordings are unique and never outside their folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.formats.writing import WRITERS, FileNames, safe_path_part

OUT = Path("/out")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.xml", "a.edf"),
        ("in/a.b.xml", "in/a.b.edf"),
        ("set.zip/x/a.hea", "set.zip/x/a.edf"),
        ("1.2.840.113619", "1.2.840.113619.edf"),
        ("../../etc/passwd", "_/_/etc/passwd.edf"),
        ("/etc/a.dcm", "_/etc/a.edf"),
        ("a\nb\0.xml", "a_b_.edf"),
        ("..", "_.edf"),
    ],
)
def test_paths_stay_within_the_folder(name: str, expected: str) -> None:
    assert FileNames(OUT, WRITERS.get("edf")).for_file(name) == OUT / expected


def test_used_name_keeps_its_extension_or_gets_a_number() -> None:
    names = FileNames(OUT, WRITERS.get("edf"))
    given_names = ["a.xml", "a.dcm", "a.dcm", "a.dcm"]
    assert [names.for_file(name).name for name in given_names] == ["a.edf", "a.dcm.edf", "a.dcm-2.edf", "a.dcm-3.edf"]


def test_long_names_of_wide_characters_get_a_number() -> None:
    names = FileNames(OUT, WRITERS.get("edf"))
    assert len({names.for_record("𝄞" * 200) for _ in range(5)}) == 5


def test_names_of_wfdb_files_are_plain() -> None:
    names = FileNames(OUT, WRITERS.get("wfdb"))
    assert names.for_file("ä b/a.b c.xml") == OUT / "ä b" / "a_b_c.hea"
    assert names.for_file("ä b/a_b_c.dcm") == OUT / "ä b" / "a_b_c_dcm.hea"


@given(names=st.lists(st.text(max_size=300), max_size=20), writer=st.sampled_from(WRITERS.names()))
def test_any_ids_have_unique_paths_within_the_folder(names: list[str], writer: str) -> None:
    paths = FileNames(OUT, WRITERS.get(writer))
    found = [paths.for_record(name) for name in names]
    assert len(set(found)) == len(found)
    for path in found:
        assert OUT in path.parents
        assert not {"..", "."} & set(path.parts)
        assert max(len(part.encode()) for part in path.parts) < 255
        assert "\0" not in str(path)


def test_long_name_is_truncated_between_characters() -> None:
    assert safe_path_part("ü" * 200) == "ü" * 90
