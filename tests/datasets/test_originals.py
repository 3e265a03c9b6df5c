"""Every original file passes the quality checks or fails them for the documented reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS
from clocs.signals.quality import REASONS, assess

RECORDS = {"chapman": 16, "cpsc2018": 20, "cinc2017": 40, "ptbxl": 60, "ludb": 20}
DATASET_OF = {"cpsc2018": "physionet2020", "cinc2017": "physionet2017"}
REFUSED = {
    "chapman": {
        "MUSE_20180113_124215_52000": "short",
        "MUSE_20180113_180425_75000": "missing",
        "MUSE_20180113_181145_89000": "missing",
        "MUSE_20181222_204118_08000": "flat",
    },
    "cpsc2018": {"A1798": "flat"},
}
"""Faults that the README of the data lists. The spikes of A6000 (over 10 mV) are real and pass."""


def gate_results(source: Path, dataset: str, **options: str) -> tuple[int, dict[str, str]]:
    """Return the number of recordings, and the first reason of each recording that fails the gate."""
    kind, place = DATASETS.get(dataset), open_source(source)
    chosen = kind.parse_options(options)
    count = 0
    refused: dict[str, str] = {}
    for entry in kind.entries(place, chosen):
        recording = kind.load(place, entry, chosen)
        count += 1
        assert recording.record_id
        assert recording.patient_id
        if findings := assess(recording, kind.gate):
            refused[recording.record_id] = min((item.reason for item in findings), key=REASONS.index)
    return count, refused


@pytest.mark.parametrize("folder", RECORDS)
def test_each_original_passes_or_fails_for_the_documented_reason(originals: Path, folder: str) -> None:
    found = gate_results(originals / folder, DATASET_OF.get(folder, folder))
    assert found == (RECORDS[folder], REFUSED.get(folder, {}))


def test_the_100_hz_copies_of_ptbxl_pass(originals: Path) -> None:
    assert gate_results(originals / "ptbxl", "ptbxl", sampling_rate="100") == (60, {})


def test_the_longest_the_shortest_and_the_largest_recording_pass(originals: Path) -> None:
    """The README: A4133 lasts 144 s; the shortest has 3,000 samples; one goes beyond 10 mV."""
    kind, place = DATASETS.get("physionet2020"), open_source(originals / "cpsc2018")
    options = kind.parse_options({})
    seen = [kind.load(place, entry, options) for entry in kind.entries(place, options)]
    assert {recording.record_id: recording.seconds for recording in seen}["A4133"] == 144
    assert min(recording.num_samples for recording in seen) == 3000
    assert max(abs(recording.signal).max() for recording in seen) > 10
