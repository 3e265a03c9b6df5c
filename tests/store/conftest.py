"""Fixtures of small stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options
from clocs.signals.quality import GatePolicy
from clocs.store.ingest import ingest
from clocs.store.store import Store
from tests.conftest import make_recording

Maker = Callable[..., Store]


@pytest.fixture
def store_of(tmp_path: Path) -> Maker:
    """Make a store of given recordings: ``store_of(recordings, name=..., per_shard=..., gate=...)``."""

    def make(recordings: list[Recording], name: str = "store", per_shard: int = 4, **about: Any) -> Store:
        by_file = {f"made/{number}": recording for number, recording in enumerate(recordings)}

        def entries(source: Source, options: Options) -> Iterator[Entry]:
            return (Entry(file) for file in by_file)

        def load(source: Source, entry: Entry, options: Options) -> Recording:
            return by_file[entry.file]

        gate = about.pop("gate", GatePolicy())
        dataset = replace(
            DATASETS.get("folder"),
            name=f"made-{name}",
            entries=entries,
            load=load,
            needs_source=False,
            records_per_shard=per_shard,
            **about,
        )
        return ingest(dataset, None, tmp_path / name, gate=gate)

    return make


@pytest.fixture
def varied() -> list[Recording]:
    """Return recordings that differ in leads, length, sampling rate, gain and integer type, some with gaps."""
    made = [
        make_recording(
            seed=number, record_id=f"r{number}", patient_id=f"p{number // 2}", num_samples=5000 + 1250 * number
        )
        for number in range(5)
    ]
    wide = make_recording(leads=("II", "I", "V2", "V5"), seed=7, record_id="wide", patient_id="p7", num_samples=6000)
    digital = wide.digital.astype(np.int32) * 40
    made.append(replace(wide, digital=digital, gain=wide.gain * 40, baseline=np.array([3, -5, 0, 9], np.int32)))
    made.append(make_recording(sampling_rate=250.0, seed=8, record_id="slow", patient_id="p8", num_samples=3000))
    gap = make_recording(seed=9, record_id="gap", patient_id="p9", num_samples=7600)
    holed = gap.digital.copy()
    holed[2, 100:110] = np.iinfo(np.int16).min
    made.append(replace(gap, digital=holed, acquired=datetime(2020, 2, 29, 8, 30, 5)))
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store of thirty recordings in three shards."""
    synthetic = replace(DATASETS.get("synthetic"), records_per_shard=10)
    return ingest(synthetic, None, tmp_path / "store", options={"num_records": 30, "leads": 2, "seconds": 5})
