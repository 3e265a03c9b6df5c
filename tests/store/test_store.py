"""A store returns the recordings that were ingested."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.recording import Episode, Recording
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options
from clocs.signals.quality import GATE_OFF
from clocs.store.duplicates import duplicate_groups
from clocs.store.ingest import ingest
from clocs.store.shard import SHARDS, signal_hash
from clocs.store.store import Store, open_store
from clocs.store.summary import info, quarantined_rows
from tests.conftest import make_recording
from tests.store.conftest import Maker


def test_recordings_come_back_exactly(store_of: Maker, varied: list[Recording]) -> None:
    varied[0] = replace(
        varied[0], age=61.5, sex="female", site="ward", labels=("AF", "PVC"), episodes=(Episode(3, 9, "AF"),)
    )
    store = store_of(varied, gate=GATE_OFF, per_shard=3)
    assert len(store) == len(varied)
    for before in varied:
        after = store.recording(before.record_id).select(before.leads)
        derived = store.recording(before.record_id).provenance.derived_leads
        np.testing.assert_array_equal(after.signal, before.signal)
        assert set(derived) == {"III", "aVR", "aVL", "aVF"}, "I and II are there, so the others follow"
        for field in ("sampling_rate", "unit", "record_id", "patient_id", "site", "age", "sex", "labels", "episodes"):
            assert getattr(after, field) == getattr(before, field), field
    for row, before in enumerate(varied):
        shard, place = store.locate(row)
        stored = store.shard(shard).recording(place)
        np.testing.assert_array_equal(stored.digital, before.digital, err_msg="integers round-trip as they are")
        np.testing.assert_array_equal(stored.gain, before.gain)
        np.testing.assert_array_equal(stored.baseline, before.baseline)


def test_real_integers_round_trip_and_csv_to_a_microvolt(originals: Path, tmp_path: Path) -> None:
    from clocs.formats import read

    for name, file in (("ludb", "data/1.hea"), ("chapman", "ECGDataDenoised/MUSE_20180111_155115_19000.csv")):
        store = ingest(name, originals / name, tmp_path / name)
        bare = read(originals / name / file, derive_leads=False)
        stored = store.recording(bare.record_id)
        np.testing.assert_array_equal(stored.select(bare.leads).digital, bare.digital)
    with zipfile.ZipFile(originals) as archive, archive.open(f"chapman/{file}") as text:
        table = pd.read_csv(text, header=None)
    np.testing.assert_allclose(stored.signal, table.to_numpy().T / 1000, atol=0.0005 + 1e-6)


def test_polars_reads_a_shard(store_of: Maker) -> None:
    """Arrow IPC is an open format, so that polars reads ids and samples without clocs."""
    recordings = [make_recording(seed=n, record_id=f"r{n}") for n in range(3)]
    store = store_of(recordings)
    (path,) = (store.folder / SHARDS).glob("*.arrow")
    frame = pl.read_ipc(path)
    assert frame["record_id"].to_list() == ["r0", "r1", "r2"]
    np.testing.assert_array_equal(frame["values"][1].to_numpy(), recordings[1].digital.reshape(-1))


def test_every_input_is_stored_or_quarantined(store_of: Maker) -> None:
    flat = replace(make_recording(record_id="flat"), digital=np.zeros((3, 5000), np.int16))
    store = store_of([make_recording(), flat])
    numbers = info(store)
    assert (numbers["in"], numbers["stored"], numbers["quarantined"]) == (2, 1, {"flat": 1})
    (row,) = quarantined_rows(store)
    assert (row["record_id"], row["reason"], len(row["findings"])) == ("flat", "flat", 3)


def test_only_new_recordings_add_a_version(store_of: Maker) -> None:
    recordings = [make_recording(seed=n, record_id=f"r{n}") for n in range(9)]
    first = store_of(recordings[:8])
    assert store_of(recordings[:8]).manifest == first.manifest
    shards = {path.name: path.stat().st_mtime_ns for path in (first.folder / SHARDS).iterdir()}
    second = store_of(recordings)
    assert (first.manifest.version, second.manifest.version, len(second)) == (1, 2, 9)
    again = {path.name: path.stat().st_mtime_ns for path in (first.folder / SHARDS).iterdir()}
    assert shards.items() <= again.items(), "shards of the first version are reused, not written again"
    assert len(open_store(first.folder, version=1)) == 8


def test_record_ids_must_be_unique(store_of: Maker) -> None:
    with pytest.raises(ConfigError, match="Repeated: same"):
        store_of([make_recording(seed=n, record_id="same") for n in range(2)])


def test_duplicates_are_found_with_other_gains_and_lead_orders() -> None:
    one = make_recording()
    doubled = replace(one, digital=(one.digital * 2).astype(np.int16), gain=one.gain * 2)
    assert signal_hash(one) == signal_hash(doubled) == signal_hash(one.select(("V2", "II", "I")))
    changed = one.digital.copy()
    changed[2, 77] += 1
    assert signal_hash(replace(one, digital=changed)) != signal_hash(one)
    assert signal_hash(replace(one, digital=np.full_like(one.digital, 5))) is None, "a flat signal is nobody's"


def test_duplicate_groups_contain_all_members(store_of: Maker) -> None:
    twin, other = make_recording(seed=1), make_recording(seed=2)
    named = [("a", twin), ("b", other), ("c", twin), ("d", make_recording(seed=3)), ("e", twin), ("f", other)]
    store = store_of([replace(recording, record_id=name) for name, recording in named], per_shard=2)
    assert [group.tolist() for group in duplicate_groups(store)] == [[0, 2, 4], [1, 5]]


def test_from_arrays_and_a_data_frame(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    signals = np.cumsum(random.normal(size=(4, 2, 3000)), axis=2) / 100
    table = pd.DataFrame({"record_id": list("abcd"), "patient_id": [1, 1, 2, 3], "age": [50, None, 70, 80]})
    store = Store.from_arrays(tmp_path / "arrays", signals, sampling_rate=500, leads=("i", "ii"), table=table)
    assert [store.recording(n).patient_id for n in range(4)] == ["1", "1", "2", "3"]
    assert store.recording("b").age is None
    np.testing.assert_allclose(store.recording("c").select(("I", "II")).signal, signals[2], atol=0.0005 + 1e-6)
    signals[0, 0, 0] = np.nan
    again = Store.from_arrays(tmp_path / "arrays", signals, sampling_rate=500, leads=("I", "II"), table=table)
    assert (again.manifest.version, again.manifest.quarantined) == (2, {"missing": 1})
    with pytest.raises(ConfigError, match="Expected a table of 4 rows"):
        Store.from_arrays(tmp_path / "x", signals, sampling_rate=500, leads=("I", "II"), table={"colour": list("abc")})
    with pytest.raises(ConfigError, match="3 leads"):
        Store.from_arrays(tmp_path / "x", signals, sampling_rate=500, leads=("I", "II", "III"))


def test_a_folder_without_a_store_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a finished store"):
        open_store(tmp_path)


def test_a_missing_shard_is_named(store_of: Maker) -> None:
    store = store_of([make_recording()])
    (path,) = (store.folder / SHARDS).glob("*.arrow")
    path.unlink()
    with pytest.raises(IntegrityError, match=path.name):
        open_store(store.folder).recording(0)


def test_an_unknown_record_raises_an_error(store_of: Maker) -> None:
    with pytest.raises(ConfigError, match="has no record 'nobody'"):
        store_of([make_recording()]).recording("nobody")


def test_an_unknown_column_raises_an_error(store_of: Maker) -> None:
    store = store_of([make_recording()])
    assert store.table("record_id") == store.table(["record_id"])
    with pytest.raises(ConfigError, match=r"Unknown column recordid. Columns of a store: record_id, patient_id"):
        store.table(["recordid"])


def test_a_defect_of_a_reader_quarantines_its_file_only(tmp_path: Path) -> None:
    def load(source: Source, entry: Entry, options: Options) -> Recording:
        if entry.file == "bad":
            raise ZeroDivisionError("planted")
        return make_recording()

    dataset = replace(
        DATASETS.get("folder"), entries=lambda *_: iter([Entry("good"), Entry("bad")]), load=load, needs_source=False
    )
    store = ingest(dataset, None, tmp_path / "store")
    (row,) = quarantined_rows(store)
    assert (len(store), row["record_id"], row["reason"]) == (1, "bad", "unreadable")
    assert "planted" in row["findings"][0]["detail"]
