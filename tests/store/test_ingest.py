"""Late, changed and odd files are read or quarantined, and never lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, StoreError
from clocs.core.hashes import content_hash
from clocs.core.privacy.pseudonyms import make_key
from clocs.core.recording import Recording
from clocs.core.sources import folder_source
from clocs.core.sources import source as sources
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options
from clocs.formats.writing import write
from clocs.signals.quality import Finding, GatePolicy, assess
from clocs.store import writer
from clocs.store.ingest import count_removed_recordings, ingest
from clocs.store.manifest import FORMAT
from clocs.store.store import Store, open_store
from clocs.store.summary import quarantined_rows
from tests.conftest import make_recording
from tests.store.conftest import Maker


def records(folder: Path, *names: str) -> Path:
    """Write WFDB records, with a header and a signal file each."""
    for seed, name in enumerate(names):
        write(make_recording(("II",), seed=seed, record_id=name), folder / f"{name}.hea")
    return folder


def stored(store: Store) -> list[str]:
    return sorted(store.table(["record_id"]).column(0).to_pylist())


def reasons(store: Store) -> dict[str, str]:
    return {row["record_id"]: row["reason"] for row in quarantined_rows(store)}


def test_a_late_or_repaired_signal_file_is_read(tmp_path: Path) -> None:
    source, store = records(tmp_path / "source", "a", "b", "c"), tmp_path / "store"
    whole = {name: (source / f"{name}.dat").read_bytes() for name in "ab"}
    (source / "a.dat").unlink()
    (source / "b.dat").write_bytes(whole["b"][:-1000])
    first = ingest("folder", source, store)
    assert (stored(first), reasons(first)) == (["c"], {"a": "unreadable", "b": "length"})
    assert ingest("folder", source, store).manifest == first.manifest
    for name in "ab":
        (source / f"{name}.dat").write_bytes(whole[name])
    mended = ingest("folder", source, store)
    assert (stored(mended), reasons(mended), mended.manifest.version) == (["a", "b", "c"], {}, 2)
    (source / "c.dat").write_bytes(b"")
    assert reasons(ingest("folder", source, store)) == {"c": "unreadable"}


def test_datasets_that_are_not_incremental_notice_late_files(tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "store"
    source.mkdir()
    np.random.default_rng(0).integers(-500, 500, 6000).astype("<i2").tofile(source / "p_1.ecg")
    assert reasons(ingest("cardiology", source, store)) == {"p_1": "unreadable"}
    episodes = {"episodes": [{"onset": 1, "offset": 6000, "rhythm_name": "NSR"}]}
    (source / "p_1_grp0.episodes.json").write_text(json.dumps(episodes))
    assert stored(ingest("cardiology", source, store)) == ["p_1"]


def test_task_names_of_complete_files_do_not_change(tmp_path: Path) -> None:
    """Existing stores name a task by its entries and the sizes of their headers."""
    source = records(tmp_path / "source", "a", "b")
    write(make_recording(("II",), seed=3), source / "c.csv")
    write(make_recording(("II",), seed=4), source / "d.dcm")
    dataset, store = DATASETS.get("folder"), tmp_path / "store"
    ingest(dataset, source, store)
    options = dataset.parse_options({})
    entries = [vars(entry) for entry in dataset.entries(sources.open_source(source), options)]
    sizes = [(source / entry["file"]).stat().st_size for entry in entries]
    assert [entry["file"] for entry in entries] == ["a.hea", "b.hea", "c.csv", "d.dcm"]
    shared = [FORMAT, "folder", options.model_dump(mode="json"), dataset.gate.model_dump(mode="json")]
    (receipt,) = (store / "receipts").iterdir()
    assert receipt.stem == content_hash([*shared, entries, sizes])[:32]


def test_odd_files_are_quarantined_or_skipped_and_the_others_stored(tmp_path: Path) -> None:
    source = records(tmp_path / "source", "a", "b")
    (source / "gone.xml").symlink_to(tmp_path / "nowhere.xml")
    (source / "gone.zip").symlink_to(tmp_path / "nowhere.zip")
    (source / "round.xml").symlink_to(source / "round.xml")
    (source / "long.hea").write_text(f"long 1 500 10\n{'x' * 300}.dat 16 1000/mV 16 0 0 0 0 II\n")
    os.mkfifo(source / "pipe")
    (source / "pipe-link").symlink_to(source / "pipe")
    store = ingest("folder", source, tmp_path / "store")
    assert stored(store) == ["a", "b"]
    assert reasons(store) == dict.fromkeys(["gone", "gone.zip", "round", "long"], "unreadable")
    write(make_recording(("II",), seed=5), tmp_path / "found.dcm")
    (tmp_path / "nowhere.xml").symlink_to(tmp_path / "found.dcm")
    assert len(ingest("folder", source, tmp_path / "store")) == 3


def test_a_recording_that_crashes_the_gate_is_quarantined(store_of: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbling(recording: Recording, policy: GatePolicy) -> list[Finding]:
        if recording.record_id == "odd":
            raise IndexError("planted")
        return assess(recording, policy)

    monkeypatch.setattr(writer, "assess", stumbling)
    store = store_of([make_recording(seed=seed, record_id=name) for seed, name in enumerate(["a", "odd", "b"])])
    (row,) = quarantined_rows(store)
    assert (stored(store), row["source"], row["reason"]) == (["a", "b"], "made/1", "unreadable")
    assert "planted" in row["findings"][0]["detail"]


ODD: dict[str, Any] = {"labels": ("\ud800",), "leads": ("\udc80",), "record_id": "\ud800", "age": "old"}
"""Surrogate characters, which JSON can contain, and values that are not numbers."""


@pytest.mark.parametrize("field", ODD)
def test_a_recording_that_arrow_cannot_store_is_quarantined(store_of: Maker, field: str) -> None:
    made = [make_recording(("II",), seed=seed, record_id=f"r{seed}") for seed in range(4)]
    store = store_of([made[0], replace(made[1], **{field: ODD[field]}), *made[2:]], per_shard=3)
    assert (stored(store), store.manifest.records_in) == (["r0", "r2", "r3"], 4)
    (row,) = quarantined_rows(store)
    assert (row["record_id"], row["reason"]) == ("\\ud800" if field == "record_id" else "r1", "unreadable")
    assert "cannot be stored" in row["findings"][0]["detail"]


def test_a_task_without_valid_recordings_writes_no_shard(store_of: Maker) -> None:
    store = store_of([make_recording(("II",), labels=("\ud800",))])
    assert (len(store), len(store.shards), list(store.folder.glob("shards/*"))) == (0, 0, [])


@pytest.mark.parametrize("within", [".", "stores/mine"])
def test_a_store_must_be_outside_of_its_source(within: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is inside .*\. Choose a folder outside of it"):
        ingest("folder", records(tmp_path, "a"), tmp_path / within)
    assert sorted(os.listdir(tmp_path)) == ["a.dat", "a.hea"]


def test_a_store_holds_one_dataset(tmp_path: Path) -> None:
    first = ingest("synthetic", None, tmp_path / "store", options={"num_records": 2})
    with pytest.raises(ConfigError, match=r"is a store of dataset 'synthetic'\. Choose another folder for 'folder'"):
        ingest("folder", records(tmp_path / "files", "a"), tmp_path / "store")
    assert open_store(tmp_path / "store").sha256 == first.sha256


def test_a_class_with_an_unknown_label_gives_a_warning(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("file,labels\na,AFIB\nb,SR; STD\n")
    files = records(tmp_path / "files", "a", "b")
    with pytest.warns(UserWarning, match="No recording has the label AFIBB .* Labels of the store: AFIB, SR, STD"):
        ingest("folder", files, tmp_path / "store", options={"table": table, "classes": "SR,AF=AFIB+AFIBB"})
    ingest("folder", files, tmp_path / "store", options={"table": table, "classes": "SR,AF=AFIB"})


def test_a_pseudonymous_store_needs_the_same_key(tmp_path: Path) -> None:
    files, store = records(tmp_path / "files", "a", "b"), tmp_path / "store"
    for name in ("key", "other"):
        make_key(tmp_path / name)
    first = ingest("folder", files, store, options={"key": tmp_path / "key"})
    for options, key_state in (({}, "no key"), ({"key": tmp_path / "other"}, "another key")):
        with pytest.raises(ConfigError, match=f"was made with a key, but this ingest has {key_state}"):
            ingest("folder", files, store, options=options)
    assert ingest("folder", files, store, options={"key": tmp_path / "key"}).sha256 == first.sha256


def test_a_dropped_table_gives_a_warning(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("file,patient_id,labels\na,p1,SR\nb,p1,SR\n")
    files = records(tmp_path / "files", "a", "b")
    ingest("folder", files, tmp_path / "store", options={"table": table, "classes": "SR"})
    with pytest.warns(
        UserWarning, match=r"version 1 of .* was made with -o table=\.\.\. -o classes=\.\.\., this version without"
    ):
        ingest("folder", files, tmp_path / "store")


def test_a_patient_table_without_matches_gives_a_warning(tmp_path: Path) -> None:
    """Ids are joined ignoring case. A spreadsheet that drops leading zeros changes ids."""
    make_key(tmp_path / "key")
    files, table, patients = (records(tmp_path / "files", "a"), tmp_path / "table.csv", tmp_path / "patients.csv")
    table.write_text("file,patient_id\na,ab001\n")
    options = {"key": tmp_path / "key", "table": table, "patients": patients}
    patients.write_text("patient_id,site\nAB001,north\n")
    assert ingest("folder", files, tmp_path / "one", options=options).recording(0).site == "north"
    patients.write_text("patient_id,site\nAB1,north\n")
    with pytest.warns(UserWarning, match=r"patients\.csv: no row matches a stored patient"):
        ingest("folder", files, tmp_path / "two", options=options)


def test_a_file_without_read_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = records(tmp_path / "source", "a", "b")

    def denied(path: Path, mode: str) -> Any:
        if str(path).endswith("b.dat"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open(path, mode)

    monkeypatch.setattr(folder_source, "open", denied, raising=False)
    with pytest.raises(ConfigError, match=r"source/b.dat: cannot be read: Permission denied. Give this user"):
        ingest("folder", source, tmp_path / "store")


def test_a_disk_error_while_listing_files_is_named(tmp_path: Path) -> None:
    def entries(source: Source, options: Options) -> Iterator[Entry]:
        yield Entry("a")
        raise OSError(errno.EIO, f"/nas/b: cannot be read: {os.strerror(errno.EIO)}")

    dataset = replace(
        DATASETS.get("folder"), entries=entries, load=lambda *_: make_recording(), needs_source=False, incremental=False
    )
    with pytest.raises(StoreError, match=r"/nas/b: cannot be read: Input/output error. No version was committed"):
        ingest(dataset, None, tmp_path / "store")


@pytest.mark.parametrize("recording", [make_recording(record_id=""), make_recording(patient_id="")])
def test_a_loaded_recording_without_ids_is_refused(tmp_path: Path, recording: Recording) -> None:
    dataset = replace(
        DATASETS.get("folder"),
        name="ward",
        entries=lambda *_: iter([Entry("a", patient_id="17")]),
        load=lambda *_: recording,
        needs_source=False,
    )
    with pytest.raises(ConfigError, match=r"'ward' returned a recording without .*apply_entry"):
        ingest(dataset, None, tmp_path / "store")


def test_removed_recordings_are_counted(tmp_path: Path) -> None:
    one, other, store = records(tmp_path / "one", *"abc"), records(tmp_path / "other", "c", "d"), tmp_path / "store"
    first = ingest("folder", one, store)
    second = ingest("folder", other, store)
    assert (stored(first), stored(second)) == (["a", "b", "c"], ["c", "d"])
    assert (
        count_removed_recordings(second, first),
        count_removed_recordings(first, second),
        count_removed_recordings(first, first),
    ) == (2, 1, 0)
    assert count_removed_recordings(open_store(store), open_store(store, 1)) == 2


def test_an_archive_without_valid_recordings_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "a.hea").write_text("a 1 500 10\na.dat 16 1000/mV 16 0 0 0 0 II\n")  # without its signals
    store = clocs.ingest("folder", tmp_path, tmp_path.parent / f"{tmp_path.name}-store")
    told = clocs.info(store)
    assert (told["in"], told["stored"], told["patients"]) == (1, 0, 0)
    assert clocs.convert(store.folder, tmp_path.parent / f"{tmp_path.name}-files", "edf").written == 0


def test_the_hash_does_not_depend_on_software_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records(tmp_path / "files", "a", "b")
    table = tmp_path / "about.csv"
    table.write_text("file,patient_id\na,p1\n")
    store = clocs.ingest("folder", tmp_path / "files", tmp_path / "store", options={"table": table})
    monkeypatch.setattr("clocs.store.commit.version", lambda name: "99.0")
    monkeypatch.chdir(tmp_path)
    again = clocs.ingest("folder", tmp_path / "files", tmp_path / "store", options={"table": "about.csv"})
    other = clocs.ingest("folder", tmp_path / "files", tmp_path / "other", options={"table": table})
    assert (again.manifest.version, again.manifest.software) == (1, store.manifest.software)
    assert other.manifest.software != store.manifest.software
    assert other.sha256 == store.sha256


def test_measurements_become_columns_that_select_and_split(tmp_path: Path) -> None:
    options = {"num_records": 6}
    plain = clocs.ingest("synthetic", None, tmp_path / "store", options=options)
    store = clocs.ingest("synthetic", None, tmp_path / "store", options=options, measure=True)
    assert (plain.manifest.version, store.manifest.version) == (1, 2)
    measured = [clocs.measure(recording) for recording in store]
    rates = np.array([one.heart_rate.value for one in measured], np.float64)
    assert store.table("measured_heart_rate").column(0).to_pylist() == [round(rate, 1) for rate in rates.tolist()]
    middle = float(np.median(rates))
    fast = store.where(measured_heart_rate=f"{middle:.1f}..")
    assert 0 < fast.sum() < len(store)
    assert (store.where(measured_heart_rate=f"..{middle:.1f}") == ~fast).all()
    assert store.where(measured_paced=False).all()
    assert not {name for name in plain.recording(0).extra if name.startswith("measured_")}
    again = clocs.ingest("synthetic", None, tmp_path / "store", options=options, measure=True)
    assert again.manifest.version == 2
