"""PhysioNet 2020 (CPSC): diagnoses from the headers, by their SNOMED CT codes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Options
from clocs.datasets.physionet2020 import PHYSIONET2020, SNOMED_LABELS

PUBLISHED = {
    "AF": 1221, "I-AVB": 722, "LBBB": 236, "Normal": 918, "PAC": 616, "PVC": 700, "RBBB": 1857, "STD": 869, "STE": 220,
}  # fmt: skip
"""Perez Alday et al. 2020, the challenge's own table of diagnoses, column CPSC."""


def test_codes_of_all_headers_have_the_published_counts(real_data: Path) -> None:
    source = open_source(real_data / "cpsc2018.zip")
    names = [entry.file for entry in PHYSIONET2020.entries(source, Options())]
    assert len(names) == len(set(names)) == PHYSIONET2020.expected["in"]
    codes: Counter[str] = Counter()
    for name in names:
        for line in source.read(name).decode().splitlines():
            if line.startswith("# Dx:"):
                codes.update(code.strip() for code in line.removeprefix("# Dx:").split(","))
    assert {SNOMED_LABELS[code]: count for code, count in codes.items()} == PUBLISHED


def test_codes_are_replaced_by_short_names(originals: Path) -> None:
    source = open_source(originals / "cpsc2018")
    found = {}
    for entry in PHYSIONET2020.entries(source, Options()):
        recording = PHYSIONET2020.load(source, entry, Options())
        found[recording.record_id] = recording
        assert recording.patient_id == recording.record_id
        assert set(recording.labels) <= set(PHYSIONET2020.classes)
        assert recording.labels
    assert found["A0001"].labels == ("RBBB",)
    assert (found["A0001"].age, found["A0001"].sex) == (74.0, "male")


def test_other_codes_stay_codes(originals: Path, tmp_path: Path) -> None:
    source = open_source(originals / "cpsc2018" / "Training_WFDB")
    header = source.read("A0001.hea").replace(b"#Dx: 59118001", b"#Dx: 59118001,10370003")
    (tmp_path / "A0001.hea").write_bytes(header)
    (tmp_path / "A0001.mat").write_bytes(source.read("A0001.mat"))
    there = open_source(tmp_path)
    (entry,) = PHYSIONET2020.entries(there, Options())
    assert PHYSIONET2020.load(there, entry, Options()).labels == ("RBBB", "10370003")


def test_headers_of_other_challenge_parts_are_skipped(tmp_path: Path) -> None:
    for name in ("A0001.hea", "A0001.mat", "Q0001.hea", "A00001.hea", "xA0002.hea", "g1/A0002.hea"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [entry.file for entry in PHYSIONET2020.entries(open_source(tmp_path), Options())]
    assert found == ["A0001.hea", "g1/A0002.hea"]
