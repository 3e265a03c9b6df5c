"""Checks of an ingest: a wrong order of leads is refused, an implausible amplitude is reported."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.datasets import DATASETS
from clocs.signals.quality import GATE_OFF
from clocs.signals.source_check import AS_DECLARED
from clocs.store.compact import compact
from clocs.store.manifest import versions
from clocs.store.summary import info
from clocs.store.withdraw import withdraw
from tests.store.conftest import Maker


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    dataset = DATASETS.get("synthetic")
    options = dataset.parse_options({"num_records": 12, "leads": 12})
    return [dataset.load(None, entry, options) for entry in dataset.entries(None, options)]  # type: ignore[arg-type]


def swapped(recording: Recording) -> Recording:
    names = {"aVL": "aVF", "aVF": "aVL"}
    return replace(recording, leads=tuple(names.get(lead, lead) for lead in recording.leads))


def test_the_signals_of_a_source_are_in_manifest_and_summary(recordings: list[Recording], store_of: Maker) -> None:
    store = store_of(recordings)
    assert store.manifest.signals is not None
    assert store.manifest.signals.orders == {AS_DECLARED: 12}
    assert info(store)["signals"] == store.manifest.signals.model_dump(mode="json")


def test_swapped_leads_of_a_source_are_refused(recordings: list[Recording], store_of: Maker, tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="not in the declared order") as caught:
        store_of([swapped(recording) for recording in recordings])
    assert "aVL is aVF, aVF is aVL" in str(caught.value)
    assert versions(tmp_path / "store") == []


def test_swapped_leads_are_reported_without_the_gate(recordings: list[Recording], store_of: Maker) -> None:
    with pytest.warns(UserWarning, match="not in the declared order"):
        store = store_of([swapped(recording) for recording in recordings], gate=GATE_OFF)
    assert len(store) == 12
    assert "aVL is aVF" in info(store)["signals"]["wrong_order"]


@pytest.mark.parametrize("factor", [5, 1000])
@pytest.mark.parametrize("gate", [None, GATE_OFF])
def test_a_wrong_gain_is_reported(recordings: list[Recording], store_of: Maker, factor: float, gate: Any) -> None:
    wrong = [replace(recording, gain=recording.gain / factor) for recording in recordings]
    with pytest.warns(UserWarning, match="amplitude is implausible"):
        store = store_of(wrong, **({} if gate is None else {"gate": gate}))
    assert info(store)["signals"]["wrong_amplitude"]
    assert store.manifest.records_in == 12


def test_leads_without_a_common_scale_are_not_judged(recordings: list[Recording], store_of: Maker) -> None:
    wrong = [replace(swapped(recording), gain=recording.gain / 5) for recording in recordings]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = store_of(wrong, calibrated=False, gate=GATE_OFF)
    assert store.manifest.signals is not None
    assert store.manifest.signals.wrong_order == ""
    assert AS_DECLARED not in store.manifest.signals.orders


def test_the_check_does_not_change_the_hash_and_survives_a_rewrite(
    recordings: list[Recording], store_of: Maker
) -> None:
    store = store_of(recordings, per_shard=3)
    before = store.manifest
    compact(store.folder)
    withdraw(store.folder, [recordings[0].patient_id])
    after = store_of(recordings, per_shard=3).manifest
    assert after.version > before.version
    assert after.signals is not None
    assert after.signals.orders == {AS_DECLARED: 12}
