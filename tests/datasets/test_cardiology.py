"""Cardiology (iRhythm): strips, patients and the number of frames in the paper."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from clocs.core.sources.source import open_source
from clocs.datasets.cardiology import CARDIOLOGY
from clocs.datasets.dataset import Options


def test_the_file_name_gives_the_patient(real_data: Path) -> None:
    source = open_source(real_data / "cardiology.zip")
    found = list(CARDIOLOGY.entries(source, Options()))
    assert len(found) == CARDIOLOGY.expected["in"]
    for entry in found:
        patient, _, number = Path(entry.file).stem.rpartition("_")
        assert entry.patient_id == patient
        assert len(patient) == 32
        assert number.isdigit()


def test_classes_and_frame_policy_give_the_frames_of_the_paper(real_data: Path) -> None:
    """Count from the JSON files alone: the paper has 4,584 + 1,109 + 1,386 = 7,079 frames."""
    class_of = {label: name for name, labels in CARDIOLOGY.classes.items() for label in labels}
    window = CARDIOLOGY.frame_policies["evaluation"].num_source_samples
    assert window == 256
    every = kept = 0
    with zipfile.ZipFile(real_data / "cardiology.zip") as archive:
        committees = [name for name in archive.namelist() if "_grp" in name and name.endswith(".episodes.json")]
        for name in committees:
            num_samples = archive.getinfo(name.rsplit("_grp", 1)[0] + ".ecg").file_size // 2
            episodes = json.loads(archive.read(name))["episodes"]
            for start in range(0, num_samples - window + 1, window):
                labels = [e["rhythm_name"] for e in episodes if e["onset"] <= start + 1 <= e["offset"]]
                every += 1
                kept += class_of.keys() >= set(labels)
    assert len(committees) == 328
    assert (every, kept) == (7_544, 4_584 + 1_109 + 1_386)
    assert len(CARDIOLOGY.classes) == CARDIOLOGY.expected["classes"] == 12


def test_a_file_with_an_unusual_name_is_its_own_patient(tmp_path: Path) -> None:
    (tmp_path / "strip.ecg").touch()
    (tmp_path / "a_b_2.ecg").touch()
    found = {entry.file: entry.patient_id for entry in CARDIOLOGY.entries(open_source(tmp_path), Options())}
    assert found == {"strip.ecg": "strip", "a_b_2.ecg": "a_b"}
