"""Chapman-Shaoxing and Ningbo, 45,152 recordings: acronyms of the publisher's table, and its repeated codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Options
from clocs.datasets.ecg_arrhythmia import ECG_ARRHYTHMIA, FINDINGS, RHYTHMS, TABLE
from tests.datasets.wfdb_trees import write_challenge_record

ROWS = (
    "IDC,Interior differences conduction,698252002\n"
    "IVB,Intraventricular block,698252002\n"
    "MI,myocardial infarction,164865005\n"
    "MIBW,myocardial infraction in back wall,164865005\n"
    "TWC,T wave Change,164934002\n"
    "WAVN,Wandering in the atrioventricalualr node,195101003\n"
    "AF,Atrial Flutter,164890007\n"
    "AFIB,Atrial Fibrillation,164889003\n"
    "SAAWR,Sinus Atrium to Atrial Wandering Rhythm,195101003\n"
)


def make(folder: Path, diagnoses: dict[str, str], header: str = "Acronym Name,Full Name,Snomed_CT\n") -> Path:
    (folder / TABLE).write_text(header + ROWS, encoding="utf-8-sig")
    for name, codes in diagnoses.items():
        where = folder / "WFDBRecords" / name[2:4] / name[2:5]
        write_challenge_record(where, name, f"#Age: 59\n#Sex: Female\n#Dx: {codes}\n#Rx: Unknown")
    return folder


def load(folder: Path) -> dict[str, Recording]:
    source = open_source(folder)
    found = [ECG_ARRHYTHMIA.load(source, entry, Options()) for entry in ECG_ARRHYTHMIA.entries(source, Options())]
    return {recording.record_id: recording for recording in found}


@pytest.mark.parametrize("header", ["Acronym Name,Full Name,Snomed_CT\n", "AcronymName,FullName,Snomed_CT\n"])
def test_codes_become_acronyms_of_the_table(tmp_path: Path, header: str) -> None:
    given = {
        "JS00001": "164889003,164934002,59118001",
        "JS10646": "164890007",
        "JS10647": "195101003,698252002,164865005",
    }
    found = load(make(tmp_path, given, header))
    assert {name: recording.labels for name, recording in found.items()} == {
        "JS00001": ("AFIB", "TWC", "59118001"),
        "JS10646": ("AF",),
        "JS10647": ("SAAWR", "IDC", "MI"),
    }
    assert {name: recording.site for name, recording in found.items()} == {
        "JS00001": "chapman",
        "JS10646": "chapman",
        "JS10647": "ningbo",
    }
    assert found["JS00001"].patient_id == "JS00001"
    assert (found["JS00001"].age, found["JS00001"].sex) == (59.0, "female")


def test_other_files_are_skipped(tmp_path: Path) -> None:
    make(tmp_path, {"JS00001": "164889003"})
    (tmp_path / "WFDBRecords" / "00" / "000" / "xJS00002.hea").touch()
    (tmp_path / "WFDBRecords" / "RECORDS").touch()
    assert set(load(tmp_path)) == {"JS00001"}


def test_a_missing_or_other_table_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"ConditionNames_SNOMED-CT\.csv with the labels is missing"):
        load(tmp_path)
    (tmp_path / TABLE).write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="differs from the published table"):
        load(tmp_path)


def test_rhythms_and_findings_are_disjoint_tasks() -> None:
    assert not set(RHYTHMS) & set(FINDINGS)
    assert len(FINDINGS) == len(set(FINDINGS)) == 44
    assert {label for labels in ECG_ARRHYTHMIA.classes.values() for label in labels} == set(RHYTHMS)
    assert {name: task.kind for name, task in ECG_ARRHYTHMIA.tasks.items()} == {
        "rhythm": "multi-class",
        "findings": "multi-label",
    }
