"""MIT-BIH: rhythms of the annotations, leads by name, and two recordings of one patient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Episode, Recording
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Options
from clocs.datasets.mitdb import DS1, MITDB, PACED
from tests.formats.test_wfdb_annotations import encode

NUM_SAMPLES = 3600


def pack_212(digital: np.ndarray) -> bytes:
    """Pack two signals of 12 bits, as format 212 does."""
    first, second = digital.astype(np.int64) & 0xFFF
    rows = np.stack([first & 0xFF, first >> 8 | (second >> 8) << 4, second & 0xFF], axis=1)
    return rows.astype(np.uint8).tobytes()


def write_record(folder: Path, name: str, leads: tuple[str, str], comment: str = "# 69 M 1085 1629 x1") -> np.ndarray:
    digital = np.random.default_rng(int(name)).integers(824, 1224, (2, NUM_SAMPLES))
    (folder / f"{name}.dat").write_bytes(pack_212(digital))
    lines = [f"{name} 2 360 {NUM_SAMPLES}", *(f"{name}.dat 212 200 11 1024 995 0 0 {lead}" for lead in leads)]
    (folder / f"{name}.hea").write_text("\n".join([*lines, comment, "# Aldomet, Inderal"]) + "\n")
    rhythms = [(18, 28, "(N"), (77, 1, ""), (1500, 28, "(AFIB"), (1600, 5, ""), (3000, 28, "(N"), (3100, 1, "")]
    (folder / f"{name}.atr").write_bytes(encode(rhythms))
    return digital


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, leads in {
        "100": ("MLII", "V5"),
        "114": ("V5", "MLII"),
        "201": ("MLII", "V1"),
        "202": ("MLII", "V1"),
    }.items():
        write_record(tmp_path, name, leads)
    (tmp_path / "x_mitdb").mkdir()
    (tmp_path / "x_mitdb" / "x_108.hea").touch()
    return tmp_path


def load(tree: Path) -> dict[str, Recording]:
    source = open_source(tree)
    found = [MITDB.load(source, entry, Options()) for entry in MITDB.entries(source, Options())]
    return {recording.record_id: recording for recording in found}


def test_leads_are_chosen_by_name(tree: Path) -> None:
    """Record 114 has its leads in reversed order."""
    digital = write_record(tree, "114", ("V5", "MLII"))
    recording = load(tree)["114"]
    assert recording.leads == ("V5", "MLII")
    np.testing.assert_allclose(recording.select("MLII").signal[0], (digital[1] - 1024) / 200, atol=1e-6)
    assert load(tree)["100"].leads == ("MLII", "V5")


def test_rhythms_are_episodes_and_labels(tree: Path) -> None:
    recording = load(tree)["100"]
    expected = (Episode(18, 1500, "N"), Episode(1500, 3000, "AFIB"), Episode(3000, NUM_SAMPLES, "N"))
    assert recording.episodes == expected
    assert recording.labels == ("AFIB", "N")


def test_two_recordings_are_of_one_patient(tree: Path) -> None:
    found = load(tree)
    assert found["201"].patient_id == found["202"].patient_id == "201"
    assert found["201"].extra == {"subset": "DS1"}
    assert found["202"].extra == {}, "the usual split has the patient of 201 in its test part, too"
    assert found["100"].extra == {"subset": "DS2"}


@pytest.mark.parametrize(
    ("comment", "age", "sex"),
    [("# 69 M 1085 1629 x1", 69.0, "male"), ("# -1 F 742 654 x1", None, "female"), ("# no age", None, None)],
)
def test_age_and_sex_are_in_the_first_comment(tree: Path, comment: str, age: float | None, sex: str | None) -> None:
    write_record(tree, "100", ("MLII", "V5"), comment)
    recording = load(tree)["100"]
    assert (recording.age, recording.sex) == (age, sex)


def test_missing_annotations_raise_an_error(tree: Path) -> None:
    (tree / "100.atr").unlink()
    with pytest.raises(FormatError, match=r"100\.atr: the annotations are missing"):
        load(tree)


def test_the_usual_split_has_22_training_records() -> None:
    assert len(DS1) == len(set(DS1)) == 22
    assert not set(DS1) & set(PACED)
