"""The complete data give exactly the counts of the paper (tables of instances, appendix A.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.datasets import DATASETS
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.splits import make_split
from clocs.store.store import Store
from clocs.store.summary import info, quarantined_rows

ARCHIVES = {"chapman": "chapman", "physionet2020": "cpsc2018", "physionet2017": "cinc2017", "cardiology": "cardiology"}
INSTANCES = {"chapman": 42575, "physionet2020": 80648, "physionet2017": 28661, "cardiology": 7079}
FRAMES = {"chapman": 10646, "physionet2020": 20162, "physionet2017": 28661, "cardiology": 7079}
PATIENTS = {
    "physionet2020": (4402, 1100, 1375),
    "physionet2017": (5459, 1364, 1705),
    "cardiology": (201, 50, 62),
}
DUPLICATES = {"chapman": (7, 7), "physionet2020": (250, 255), "physionet2017": (2, 2), "cardiology": (0, 0)}
"""Groups and redundant recordings, counted by comparing every signal."""
CONSTANT = {"chapman": 40}
"""Recordings that are zero throughout. The paper counts them, and no gate stores them."""
REFUSED = {"chapman": {"flat": 40, "missing": 8, "short": 1}, "physionet2020": {"flat": 3}}


def quick(*names: str) -> list[Any]:
    """Return every dataset, with all but these marked slow."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.slow) for name in ARCHIVES]


def make(name: str, real_data: Path, folder: Path, **options: object) -> Store:
    return ingest(name, real_data / f"{ARCHIVES[name]}.zip", folder / name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", quick("cardiology"))
def test_instances_and_patients_with_the_gate_off(name: str, real_data: Path, tmp_path: Path) -> None:
    store = make(name, real_data, tmp_path, gate=GATE_OFF)
    numbers = info(store)
    constant = CONSTANT.get(name, 0)
    assert numbers["quarantined"] == ({"flat": constant} if constant else {})
    assert numbers["in"] == numbers["stored"] + constant == DATASETS.get(name).expected["in"]
    assert numbers["frames"] + constant == FRAMES[name]
    assert numbers["instances"] + 4 * constant == INSTANCES[name]
    assert DATASETS.get(name).expected["instances"] == INSTANCES[name]
    if not constant:
        split = make_split(store, "paper", allow_duplicates=True)
        assert tuple(split.metadata["patients"][part] for part in ("train", "validation", "test")) == PATIENTS[name]
    if name == "physionet2020":
        assert store.frames("segments").num_frames == 9364
    if name == "cardiology":
        frames = store.frames("evaluation")
        assert (frames.targets(np.arange(len(frames))).sum(axis=0) > 0).sum() == 12


@pytest.mark.parametrize("name", quick("cardiology"))
def test_quarantine_and_duplicates_with_the_gate_on(name: str, real_data: Path, tmp_path: Path) -> None:
    store = make(name, real_data, tmp_path)
    numbers = info(store)
    assert numbers["quarantined"] == REFUSED.get(name, {})
    assert numbers["in"] == numbers["stored"] + sum(numbers["quarantined"].values())
    assert numbers["instances"] == INSTANCES[name] or name in REFUSED
    assert (numbers["duplicates"]["groups"], numbers["duplicates"]["redundant"]) == DUPLICATES[name]
    rows = quarantined_rows(store)
    if name == "physionet2020":
        assert sorted(row["record_id"] for row in rows) == ["A1798", "A3049", "A3545"]
    if name == "physionet2017":
        groups = [{store.recording(int(n)).record_id for n in group} for group in _groups(store)]
        assert groups == [{"A00227", "A01176"}, {"A02656", "A03123"}]
    if name == "chapman":
        missing = [row for row in rows if row["reason"] == "missing"]
        assert all({finding["lead"] for finding in row["findings"]} == {"V2"} for row in missing)
    split = make_split(store)
    store.split()
    assert split.metadata["records"]["unused"] == (15 if name == "cardiology" else 0)


def _groups(store: Store) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    from clocs.store.duplicates import duplicate_groups

    return duplicate_groups(store)
