"""PhysioNet 2017: the third revision of the labels is preferred."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import pytest

from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry, Options
from clocs.datasets.physionet2017 import PHYSIONET2017

PUBLISHED = {"N": 5076, "A": 758, "O": 2415, "~": 279}
"""Counts of the third revision, from the page of the challenge."""


def entries(path: Path) -> list[Entry]:
    return list(PHYSIONET2017.entries(open_source(path), Options()))


def test_labels_are_those_of_the_third_revision(real_data: Path) -> None:
    found = {Path(entry.file).stem: entry.labels for entry in entries(real_data / "cinc2017.zip")}
    raw = open_source(real_data / "cinc2017.zip").read("REFERENCE-v3.csv").decode()
    assert found == {record: (label,) for record, label in csv.reader(io.StringIO(raw))}
    assert Counter(label for (label,) in found.values()) == PUBLISHED
    assert len(found) == PHYSIONET2017.expected["in"]


def test_a_revised_label_is_used(originals: Path) -> None:
    """A00005 was revised from O to A."""
    source = open_source(originals / "cinc2017")
    labels = {entry.file.rsplit("/", 1)[-1]: entry.labels for entry in entries(originals / "cinc2017")}
    assert b"A00005,O" in source.read("REFERENCE-original.csv")
    assert labels["A00005.hea"] == ("A",)


@pytest.mark.parametrize(
    ("tables", "label"),
    [
        (["REFERENCE-original.csv", "REFERENCE.csv", "REFERENCE-v3.csv"], "REFERENCE-v3.csv"),
        (["REFERENCE-original.csv", "REFERENCE.csv"], "REFERENCE.csv"),
        (["REFERENCE-original.csv"], "REFERENCE-original.csv"),
        ([], None),
    ],
)
def test_older_labels_are_used_only_without_newer_ones(tmp_path: Path, tables: list[str], label: str | None) -> None:
    (tmp_path / "training2017").mkdir()
    (tmp_path / "training2017" / "A00001.hea").touch()
    for name in tables:
        (tmp_path / name).write_text(f"A00001,{name}\r\n")
    assert entries(tmp_path) == [Entry("training2017/A00001.hea", labels=(label,) if label else ())]


def test_every_label_has_a_class() -> None:
    assert {label for labels in PHYSIONET2017.classes.values() for label in labels} == set(PUBLISHED)
