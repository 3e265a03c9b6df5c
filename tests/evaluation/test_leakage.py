"""The split contract: whoever trained an encoder cannot test it, under whatever name and in whatever store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import IntegrityError, LeakError
from clocs.core.recording import Recording
from clocs.datasets import DATASETS, Entry
from clocs.evaluation.leakage import check_leakage
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.splits import PARTS, Split
from clocs.store.store import Store
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.seen_recordings import extend_seen_keys, save_seen_keys
from tests.evaluation.conftest import make_store

PLACES = {part: PARTS.index(part) for part in PARTS}


def split_of(parts: npt.ArrayLike) -> Split:
    return Split("mine", "0" * 64, {}, np.asarray(parts, np.int8))


def named(message: str) -> str:
    """The record that an error names."""
    return message.partition("theirs, '")[2].partition("'")[0]


@pytest.fixture(scope="module")
def told(trained: Path) -> dict[str, Any]:
    return load_encoder_folder(trained)[1]


def test_the_split_of_training_is_accepted_and_another_rejected(
    store: Store, trained: Path, told: dict[str, Any]
) -> None:
    default, other = store.split(), store.split("other")
    found = check_leakage(trained, told, store, default)
    assert found == {"seen": {**default.metadata["records"], "test": 0}}
    with pytest.raises(LeakError, match="split 'other'") as caught:
        check_leakage(trained, told, store, other)
    record = store.index_of(named(str(caught.value)))
    assert PARTS[other.parts[record]] == "test"
    assert PARTS[default.parts[record]] in ("train", "validation")
    both = other.mask("test") & ~default.mask("test")
    assert f"{both.sum()} test recordings" in str(caught.value), "a patient is in one part, with all recordings"
    counted = check_leakage(trained, told, store, other, refuse=False)
    assert counted["leaks"] == both.sum() == counted["seen"]["test"]
    assert check_leakage(trained, told, store, default, refuse=False)["leaks"] == 0


def test_random_weights_have_seen_nothing(store: Store) -> None:
    assert check_leakage(None, {}, store, store.split("other"))["seen"].startswith("nothing")


def test_the_same_data_in_another_store_is_recognised(
    store: Store, trained: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    """A larger store, elsewhere: its first recordings are those of the first one."""
    larger = make_store(tmp_path / "larger", num_records=200)
    assert larger.sha256 != store.sha256
    with pytest.raises(LeakError):
        check_leakage(trained, told, larger, larger.split())
    old = store.split().parts
    fresh = split_of([*np.where(old == PLACES["test"], PLACES["unused"], old), *[PLACES["test"]] * 40])
    assert check_leakage(trained, told, larger, fresh)["seen"]["test"] == 0
    one = fresh.parts.copy()
    leak = int(np.flatnonzero(old == PLACES["train"])[-1])
    one[leak] = PLACES["test"]
    with pytest.raises(LeakError) as caught:
        check_leakage(trained, told, larger, split_of(one))
    assert named(str(caught.value)) == f"{leak:07d}"


def store_of(folder: Path, recordings: list[Recording]) -> Store:
    """A store of given recordings, whatever they are."""

    def entries(*_: object) -> Iterator[Entry]:
        return (Entry(str(place)) for place in range(len(recordings)))

    def load(source: object, entry: Entry, options: object) -> Recording:
        return recordings[int(entry.file)]

    dataset = replace(DATASETS.get("synthetic"), name="made", entries=entries, load=load)
    return ingest(dataset, None, folder, gate=GATE_OFF)


def test_one_seen_signal_marks_all_recordings_of_a_patient(
    store: Store, trained: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    default = store.split()
    trainer, tester = (int(np.flatnonzero(default.mask(part))[0]) for part in ("train", "test"))
    known, unknown = (store.shard(0).recording(record) for record in (trainer, tester))
    alias = replace(known, record_id="alias", patient_id="someone")
    second = replace(unknown, record_id="second", patient_id="someone")
    stranger = replace(store.shard(0).recording(tester + 1), record_id="stranger", patient_id="stranger")
    made = store_of(tmp_path / "made", [alias, second, stranger])

    def check(*parts: str) -> Any:
        return check_leakage(trained, told, made, split_of([PLACES[part] for part in parts]))["seen"]

    with pytest.raises(LeakError, match=r"1 test recordings are theirs, 'alias'"):
        check("test", "unused", "train")  # the same signal under another name
    with pytest.raises(LeakError, match=r"1 test recordings are theirs, 'second'"):
        check("unused", "test", "test")  # an unseen recording of someone seen
    assert check("train", "train", "test") == {"train": 1, "validation": 0, "test": 0, "unused": 0}


@pytest.mark.parametrize("leads", [("II",), ("V1", "II", "aVF"), ("I", "II", "V2", "V1", "V6")])
def test_the_same_signals_with_other_leads_are_recognised(
    leads: tuple[str, ...], store: Store, trained: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    """The store of training has four leads; a lead in common is enough, and a lead of somebody else is none."""
    default = store.split()
    trainer, tester = (int(np.flatnonzero(default.mask(part))[0]) for part in ("train", "test"))
    theirs = [store.shard(0).recording(record) for record in (trainer, tester)]
    made = store_of(tmp_path / "made", [with_leads(each, leads, place) for place, each in enumerate(theirs)])
    assert set(made.shard(0).leads[0]) == set(leads) != set(theirs[0].leads)
    with pytest.raises(LeakError, match=r"1 test recordings are theirs"):
        check_leakage(trained, told, made, split_of([PLACES["test"], PLACES["unused"]]))
    fresh = split_of([PLACES["train"], PLACES["test"]])
    assert check_leakage(trained, told, made, fresh)["seen"] == {"train": 1, "validation": 0, "test": 0, "unused": 0}


def with_leads(recording: Recording, leads: tuple[str, ...], seed: int) -> Recording:
    """Of the leads that it has those, and others made up."""
    drawn = np.random.default_rng(seed).integers(-500, 500, (len(leads), recording.num_samples))
    rows = [
        recording.digital[recording.leads.index(lead)] if lead in recording.leads else drawn[place]
        for place, lead in enumerate(leads)
    ]
    digital = np.array(rows, recording.digital.dtype)
    gain, zero = (np.full(len(leads), each[0]) for each in (recording.gain, recording.baseline))
    return replace(recording, digital=digital, leads=leads, gain=gain, baseline=zero)


def test_flat_leads_identify_no_patient(store: Store, told: dict[str, Any], tmp_path: Path) -> None:
    """Recordings without any other lead are never stored."""
    flat = replace(store.shard(0).recording(0), digital=np.zeros((4, 5000), np.int16))
    recordings = []
    for number, name in enumerate("ab"):
        digital = flat.digital.copy()
        digital[3] = np.random.default_rng(number).integers(-500, 500, 5000)
        recordings.append(replace(flat, digital=digital, record_id=name, patient_id=name))
    made = store_of(tmp_path / "made", recordings)
    sha256 = save_seen_keys(tmp_path, np.array([0, 5], np.uint64))
    both = split_of([PLACES["train"], PLACES["test"]])
    assert check_leakage(tmp_path, {**told, "seen_sha256": sha256}, made, both)["seen"]["train"] == 0


def test_without_a_list_only_the_split_of_training_is_accepted(
    store: Store, trained: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    silent = {key: value for key, value in told.items() if key != "seen_sha256"}
    assert "this very split" in check_leakage(trained, silent, store, store.split())["seen"]
    larger = make_store(tmp_path / "larger", num_records=200)
    for place, split in ((store, store.split("other")), (larger, larger.split())):
        with pytest.raises(LeakError, match="no list of the recordings"):
            check_leakage(trained, silent, place, split)
    with pytest.raises(LeakError, match="no list of the recordings"):
        check_leakage(trained, {}, store, store.split())


def test_a_damaged_list_raises_an_error(store: Store, trained: Path, told: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "best"
    shutil.copytree(trained, folder)
    raw = (folder / "seen.npy").read_bytes()
    (folder / "seen.npy").write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=r"seen\.npy"):
        check_leakage(folder, told, store, store.split())


def test_the_list_may_be_left_out_of_a_shared_encoder(
    store: Store, trained: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "best"
    shutil.copytree(trained, folder)
    (folder / "seen.npy").unlink()
    assert "this very split" in check_leakage(folder, told, store, store.split())["seen"]
    with pytest.raises(LeakError, match="no list of the recordings"):
        check_leakage(folder, told, store, store.split("other"))
    with pytest.raises(IntegrityError, match=r"seen\.npy"):
        extend_seen_keys(folder, told, [])  # what it makes would forget them
