"""One ECG in several files: found through other steps and stored leads, and no other ECG taken for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.recording import Recording, quantise
from clocs.datasets import DATASETS
from clocs.formats.writing import write
from clocs.signals.leads import STANDARD, derive
from clocs.store.duplicates import duplicate_groups
from clocs.store.ingest import ingest
from clocs.store.same_ecg import same_ecg_groups
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.store.conftest import Maker

EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")


def coarser(recording: Recording, gain: float) -> Recording:
    """The same signal in other steps."""
    digital = quantise(recording.physical().astype(np.float64), gain)
    return replace(recording, digital=digital, gain=np.full(len(recording.leads), gain))


def grouped(store: Store) -> list[list[str]]:
    return [[store.recording(int(number)).record_id for number in group] for group in same_ecg_groups(store)]


def test_other_steps_and_stored_leads_do_not_hide_an_ecg(store_of: Maker) -> None:
    fine = make_recording(EIGHT, seed=1, record_id="fine")
    twelve = replace(derive(fine), record_id="twelve")
    twelve = replace(twelve, provenance=replace(twelve.provenance, derived_leads=()))
    assert set(twelve.leads) == set(STANDARD)
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
def test_what_differs_by_more_than_a_step_is_another_ecg(store_of: Maker, change: object, tmp_path: Path) -> None:
    one = make_recording(("I", "II"), seed=1, record_id="one")
    values: npt.NDArray[np.float64] = one.physical().astype(np.float64)
    assert callable(change)
    other = replace(one, digital=quantise(change(values)), record_id="other")
    assert grouped(store_of([one, other])) == []


def test_signals_of_a_few_steps_are_nobodys(store_of: Maker) -> None:
    """In steps of 0.5 mV many ECGs would look alike."""
    blurred = [replace(coarser(make_recording(seed=seed), 2.0), record_id=f"r{seed}") for seed in range(4)]
    assert grouped(store_of(blurred)) == []


def test_exports_of_real_records_are_found(originals: Path, tmp_path: Path) -> None:
    """Chapman records as published and, by our writers, in DICOM, EDF+ and WFDB."""
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


def test_the_recording_that_exists_in_three_formats_is_one(hospital_files: Path, tmp_path: Path) -> None:
    store = ingest("folder", hospital_files, tmp_path / "store")
    same = {"aecg/hl7_example_aecg", "aecg/fda_subject1_0", "dicom/ecgtoolkit_Example", "scp/ecgtoolkit_Example"}
    assert same in [set(group) for group in grouped(store)]
