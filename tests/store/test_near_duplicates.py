"""Near duplicates are found across formats, steps and leads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.recording import Recording, quantize
from clocs.datasets import DATASETS
from clocs.formats.writing import write
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads
from clocs.signals.quality import GATE_OFF
from clocs.store import near_duplicates
from clocs.store.duplicates import duplicate_groups
from clocs.store.ingest import ingest
from clocs.store.near_duplicates import near_duplicate_groups
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.store.conftest import Maker

EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")


def coarser(recording: Recording, gain: float) -> Recording:
    """Return the same signal in other steps."""
    digital = quantize(recording.physical().astype(np.float64), gain)
    return replace(recording, digital=digital, gain=np.full(len(recording.leads), gain))


def grouped(store: Store) -> list[list[str]]:
    return [[store.recording(int(number)).record_id for number in group] for group in near_duplicate_groups(store)]


def test_the_same_ecg_with_other_steps_and_leads_is_found(store_of: Maker) -> None:
    fine = make_recording(EIGHT, seed=1, record_id="fine")
    twelve = replace(add_derived_leads(fine), record_id="twelve")
    twelve = replace(twelve, provenance=replace(twelve.provenance, derived_leads=()))
    assert set(twelve.leads) == set(STANDARD_LEADS)
    coarse = replace(coarser(fine, 1 / 0.00488), record_id="coarse")
    others = [make_recording(EIGHT, seed=seed, record_id=f"other {seed}") for seed in range(2, 9)]
    store = store_of([others[0], fine, *others[1:4], coarse, twelve, *others[4:]])
    assert grouped(store) == [["fine", "coarse", "twelve"]]
    assert duplicate_groups(store) == [], "equal to a microvolt they are not"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda values: values * 1.02, id="scaled"),
        pytest.param(lambda values: np.roll(values, 1, axis=1), id="shifted by a sample"),
        pytest.param(lambda values: values[::-1], id="leads in another order"),
    ],
)
def test_a_difference_of_more_than_a_step_is_another_ecg(store_of: Maker, change: object, tmp_path: Path) -> None:
    one = make_recording(("I", "II"), seed=1, record_id="one")
    values: npt.NDArray[np.float64] = one.physical().astype(np.float64)
    assert callable(change)
    other = replace(one, digital=quantize(change(values)), record_id="other")
    assert grouped(store_of([one, other])) == []


@pytest.mark.parametrize("number", [0, 11])
@pytest.mark.parametrize("changed", [{"unit": "adu", "gain": np.ones(1)}, {"gain": np.full(1, 0.25)}])
def test_a_coarse_file_does_not_compare_fine_files(
    store_of: Maker, monkeypatch: pytest.MonkeyPatch, number: int, changed: dict[str, Any]
) -> None:
    """The tolerance of a pair is its own coarser step, not the coarsest step of the store."""
    recordings = [make_recording(("II",), seed=seed, record_id=f"r{seed}") for seed in range(12)]
    recordings[number] = replace(recordings[number], **changed)
    compared: list[set[str]] = []

    def is_same_ecg(one: Recording, other: Recording) -> bool:
        compared.append({one.record_id, other.record_id})
        return False

    monkeypatch.setattr(near_duplicates, "_is_same_ecg", is_same_ecg)
    assert grouped(store_of(recordings, gate=GATE_OFF)) == []
    assert all(f"r{number}" in pair for pair in compared)
    assert len(compared) < len(recordings)


def test_raw_steps_match_only_raw_steps(store_of: Maker) -> None:
    one = replace(make_recording(("II",), seed=1, record_id="one"), gain=np.ones(1))
    raw = replace(one, unit="adu", record_id="raw")
    again = replace(raw, record_id="again")
    assert grouped(store_of([one, raw, again], gate=GATE_OFF)) == [["raw", "again"]]


def test_groups_are_ordered_by_first_member(store_of: Maker) -> None:
    """The order does not depend on the order of comparisons."""
    fine = [make_recording(("I", "II"), seed=seed, record_id=f"fine {seed}") for seed in range(3)]
    steps = (1 / 0.004, 1 / 0.01, 1 / 0.00488)
    others = [
        replace(coarser(recording, gain), record_id=f"{recording.record_id} at {gain:g}")
        for gain, seeds in zip(steps, ((2, 0), (1, 0), (2, 1)), strict=True)
        for recording in (fine[seed] for seed in seeds)
    ]
    recordings = [*others[:3], *fine, *others[3:]]
    same: dict[str, list[str]] = {}
    for recording in recordings:
        same.setdefault(recording.record_id.split(" at ")[0], []).append(recording.record_id)
    assert grouped(store_of(recordings, gate=GATE_OFF)) == list(same.values())


def test_signals_of_few_steps_are_not_compared(store_of: Maker) -> None:
    """In steps of 0.5 mV different ECGs would match."""
    blurred = [replace(coarser(make_recording(seed=seed), 2.0), record_id=f"r{seed}") for seed in range(4)]
    assert grouped(store_of(blurred)) == []


def test_exports_of_real_recordings_are_found(originals: Path, tmp_path: Path) -> None:
    """The exports are Chapman recordings in DICOM, EDF+ and WFDB."""
    source = tmp_path / "source"
    first = ingest("chapman", originals / "chapman", tmp_path / "chapman")
    for number in range(3):
        recording = first.recording(number)
        for ending in (".csv", ".dcm", ".edf", ".hea"):
            write(recording, source / ending[1:] / f"{number}{ending}")
    store = ingest(DATASETS.get("folder"), source, tmp_path / "store")
    groups = grouped(store)
    assert sorted(len(group) for group in groups) == [4] * 3
    assert all(len({name.split("/")[-1] for name in group}) == 1 for group in groups)


def test_a_recording_in_three_formats_is_one_group(hospital_files: Path, tmp_path: Path) -> None:
    store = ingest("folder", hospital_files, tmp_path / "store")
    same = {"aecg/hl7_example_aecg", "aecg/fda_subject1_0", "dicom/ecgtoolkit_Example", "scp/ecgtoolkit_Example"}
    assert same in [set(group) for group in grouped(store)]
