"""Lead order and amplitude of a source are judged by the signals of many recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads
from clocs.signals.source_check import (
    AS_DECLARED,
    SignalSummary,
    collect_measurements,
    measure_signals,
    merge_measurements,
    summarize_signals,
)


def of_dataset(name: str, source: Path | None, **options: object) -> list[Recording]:
    dataset = DATASETS.get(name)
    parsed, place = dataset.parse_options(options), open_source(source) if source else None
    return [dataset.load(place, entry, parsed) for entry in dataset.entries(place, parsed)]  # type: ignore[arg-type]


def summary(recordings: Sequence[Recording], *, calibrated: bool = True) -> SignalSummary:
    half = len(recordings) // 2
    tasks = [
        collect_measurements([measure_signals(item) for item in part])
        for part in (recordings[:half], recordings[half:])
    ]
    return summarize_signals(merge_measurements(tasks), calibrated=calibrated)


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return of_dataset("synthetic", None, num_records=12, leads=12)


def named(recording: Recording, **wrong: str) -> Recording:
    """Give leads the names of others."""
    return replace(recording, leads=tuple(wrong.get(lead, lead) for lead in recording.leads))


def scaled(recording: Recording, factor: float) -> Recording:
    return replace(recording, gain=recording.gain / factor)


def test_a_right_declaration_is_accepted(recordings: list[Recording]) -> None:
    found = summary(recordings)
    assert found.orders == {AS_DECLARED: 12}
    assert (found.measured, found.wrong_order, found.wrong_amplitude) == (12, "", "")
    assert found.error is not None
    assert found.error < 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        {"aVL": "aVF", "aVF": "aVL"},
        {"I": "II", "II": "I"},
        {"aVR": "aVL", "aVL": "aVF", "aVF": "aVR"},
        dict(zip(STANDARD_LEADS[:6], ("aVF", "aVL", "aVR", "I", "II", "III"), strict=True)),
    ],
)
def test_another_order_of_limb_leads_is_found(recordings: list[Recording], wrong: dict[str, str]) -> None:
    found = summary([named(recording, **wrong) for recording in recordings])
    assert "not in the declared order" in found.wrong_order
    order = next(iter(found.orders))
    assert {tuple(part.split(" is ")) for part in order.split(", ")} == {(name, lead) for lead, name in wrong.items()}
    assert found.orders[order] > 6


def test_chest_leads_in_place_of_limb_leads_fit_no_order(recordings: list[Recording]) -> None:
    order = (*STANDARD_LEADS[6:], *STANDARD_LEADS[:6])
    found = summary([replace(recording, leads=order) for recording in recordings])
    assert found.wrong_order


@pytest.mark.parametrize("factor", [5.0, 1 / 5, 1000.0, 1 / 1000])
def test_a_wrong_gain_is_found(recordings: list[Recording], factor: float) -> None:
    found = summary([scaled(recording, factor) for recording in recordings])
    assert "amplitude is implausible" in found.wrong_amplitude
    assert found.wrong_order == ""


def test_some_wrong_recordings_do_not_condemn_a_source(recordings: list[Recording]) -> None:
    some = [named(recording, aVL="aVF", aVF="aVL") for recording in recordings[:4]]
    found = summary([*some, *recordings[4:]])
    assert found.wrong_order == ""
    assert found.orders[AS_DECLARED] >= 8


def test_few_recordings_are_not_judged(recordings: list[Recording]) -> None:
    assert summary([named(item, aVL="aVF", aVF="aVL") for item in recordings[:2]]).wrong_order == ""
    assert summary([scaled(item, 5) for item in recordings[:9]]).wrong_amplitude == ""


def test_leads_without_a_common_scale_are_measured_but_not_judged(recordings: list[Recording]) -> None:
    uneven = [replace(item, gain=item.gain * np.linspace(0.1, 5, 12)) for item in recordings]
    assert summary(uneven).wrong_order
    found = summary(uneven, calibrated=False)
    assert (found.wrong_order, found.wrong_amplitude) == ("", "")
    assert found.error is not None
    assert found.error > 0.1


def test_derived_leads_and_raw_steps_are_not_measured(recordings: list[Recording]) -> None:
    eight = [lead for lead in STANDARD_LEADS if lead in ("I", "II") or lead.startswith("V")]
    derived = measure_signals(add_derived_leads(recordings[0].select(tuple(eight))))
    assert (derived.order, derived.error) == (None, None)
    raw = measure_signals(replace(recordings[0], unit="adu"))
    assert (raw.peak, raw.r_amplitude) == (None, None)
    assert raw.order == AS_DECLARED


def test_missing_samples_flat_leads_and_short_recordings_are_measured(recordings: list[Recording]) -> None:
    gap = recordings[0].digital.copy()
    gap[:, :100] = np.iinfo(gap.dtype).min
    with_gap = measure_signals(replace(recordings[0], digital=gap))
    assert with_gap.order == AS_DECLARED
    assert with_gap.peak is None
    flat = measure_signals(replace(recordings[0], digital=np.zeros_like(gap)))
    assert (flat.order, flat.peak, flat.r_amplitude) == (None, 0, 0)
    measure_signals(replace(recordings[0], digital=gap[:, 200:201]))


def test_an_inverted_gain_does_not_change_the_r_wave(recordings: list[Recording]) -> None:
    inverted = replace(recordings[0], digital=-recordings[0].digital, gain=-recordings[0].gain)
    assert measure_signals(inverted) == measure_signals(recordings[0])


@pytest.mark.parametrize(
    ("folder", "name"), [("ptbxl", "ptbxl"), ("cpsc2018", "physionet2020"), ("chapman", "chapman")]
)
def test_originals_are_as_declared(originals: Path, folder: str, name: str) -> None:
    found = summary(of_dataset(name, originals / folder))
    assert (found.wrong_order, found.wrong_amplitude) == ("", "")
    assert set(found.orders) == {AS_DECLARED}


def test_ludb_scales_each_lead_for_itself(originals: Path) -> None:
    dataset = DATASETS.get("ludb")
    assert not dataset.calibrated
    found = summary(of_dataset("ludb", originals / "ludb"))
    assert found.wrong_order
