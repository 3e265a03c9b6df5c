"""CinC 2020 and 2021: cohorts by name, diagnoses by SNOMED CT codes, ages with sentinels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets.physionet2021 import CLASSES, COHORTS, MEANINGS, PHYSIONET2021, SCORED_LABELS
from clocs.store.ingest import ingest
from tests.datasets.wfdb_trees import limb_leads, write_challenge_record

FILES = {
    "A0001": "cpsc_2018/g1",
    "Q0001": "cpsc_2018_extra/g1",
    "I0001": "st_petersburg_incart/g1",
    "S0001": "ptb/g1",
    "HR00001": "ptb-xl/g1",
    "E00001": "georgia/g1",
    "JS00001": "chapman_shaoxing/g1",
    "JS10647": "ningbo/g1",
    "S23074": "ningbo/g13",
}
COMMENTS = "#Age: 85\n#Sex: Male\n#Dx: 164889003,59118001\n#Rx: Unknown\n#Hx: Unknown\n#Sx: Unknown"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, folder in FILES.items():
        write_challenge_record(tmp_path / "training" / folder, name, COMMENTS)
        (tmp_path / "training" / folder / "RECORDS").write_text(f"{name}\n")
    return tmp_path


def load(tree: Path, **options: str) -> dict[str, Recording]:
    source, parsed = open_source(tree), PHYSIONET2021.parse_options(options)
    found = [PHYSIONET2021.load(source, entry, parsed) for entry in PHYSIONET2021.entries(source, parsed)]
    assert len({recording.record_id for recording in found}) == len(found)
    return {recording.record_id: recording for recording in found}


def test_cohorts_are_recognised_by_the_names_of_their_files(tree: Path) -> None:
    found = load(tree, cohorts=",".join(COHORTS))
    cohorts = {name: folder.split("/")[0] for name, folder in FILES.items()}
    cohorts["JS23074"] = cohorts.pop("S23074")
    assert {name: recording.site for name, recording in found.items()} == cohorts
    assert all(recording.patient_id == name for name, recording in found.items())


def test_the_copy_of_incart_is_read_only_if_it_is_named(tree: Path) -> None:
    assert "I0001" not in load(tree)
    assert set(load(tree, cohorts="st_petersburg_incart")) == {"I0001"}
    assert set(load(tree, cohorts="georgia, ptb")) == {"E00001", "S0001"}
    with pytest.raises(ConfigError, match="cohorts"):
        load(tree, cohorts="georgian")


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("age", "years"), [("85", 85.0), ("NaN", None), ("-1", None), ("300", 90.0), ("Unknown", None), ("0", 0.0)]
)
def test_ages_and_diagnoses_are_read_with_any_spacing(
    tmp_path: Path, blank: str, age: str, years: float | None
) -> None:
    text = f"#{blank}Age: {age}\n#{blank}Sex: Female\n#{blank}Dx: 426177001,164934002,55930002"
    write_challenge_record(tmp_path, "E00001", text)
    recording = load(tmp_path)["E00001"]
    assert (recording.age, recording.sex) == (years, "female")
    assert recording.labels == ("SB", "TAb", "55930002")


def test_signals_are_millivolts_whatever_the_spelling_and_the_rate(tmp_path: Path) -> None:
    write_challenge_record(tmp_path, "S0001", COMMENTS, sampling_rate=1000, unit="mv", num_samples=38400)
    recording = load(tmp_path)["S0001"]
    assert (recording.unit, recording.sampling_rate, recording.num_samples) == ("mV", 1000.0, 38400)
    expected = limb_leads(38400, seed=5 + sum(b"S0001")) / 1000
    np.testing.assert_allclose(recording.signal, expected, atol=1e-6)


def test_the_table_of_ptbxl_gives_patients(tree: Path) -> None:
    (tree / "ptbxl_database.csv").write_text("ecg_id,patient_id,age\n1,15709.0,56\n")
    found = load(tree)
    assert found["HR00001"].patient_id == "ptb-xl-15709"
    assert found["E00001"].patient_id == "E00001"


def test_pairs_are_one_class_of_the_scored_task() -> None:
    assert len(SCORED_LABELS) == len(set(SCORED_LABELS.values())) == 30
    assert len(CLASSES) == 26
    assert sorted(label for labels in CLASSES.values() for label in labels) == sorted(SCORED_LABELS.values())
    assert {name for name, labels in CLASSES.items() if len(labels) == 2} == {"LBBB", "RBBB", "PAC", "PVC"}
    assert set(MEANINGS) == set(CLASSES)
    assert PHYSIONET2021.tasks["scored"].classes == PHYSIONET2021.classes


def test_an_ingest_stores_what_is_whole_and_lists_the_rest(tree: Path, tmp_path: Path) -> None:
    """A header whose first two lines are joined, as two files of the release are."""
    broken = tree / "training/georgia/g1/E00002.hea"
    write_challenge_record(broken.parent, "E00002", COMMENTS)
    broken.write_text(broken.read_text().replace(" 11:39:16\n", " 11:39:16", 1))
    store = ingest(PHYSIONET2021, tree, tmp_path.parent / f"{tmp_path.name}-store")
    assert (len(store), store.manifest.quarantined) == (8, {"unreadable": 1})
    assert store.manifest.signals is not None
    assert store.manifest.signals.orders == {"as declared": 8}
