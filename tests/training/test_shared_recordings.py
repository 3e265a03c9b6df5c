"""Recordings that several datasets publish are recognised in other stores, or refused where they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import LeakError
from clocs.core.recording import Recording
from clocs.datasets import DATASETS, Entry
from clocs.evaluation.leakage import check_leakage
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.shared_recordings import recording_keys, shared_collections
from clocs.store.splits import PARTS, Split, make_split
from clocs.store.store import Store
from clocs.training.config_resolution import resolve_config
from clocs.training.data import open_training_stores
from clocs.training.seen_recordings import save_seen_keys, seen_keys
from tests.conftest import make_recording


def store_of(folder: Path, dataset: str, record_ids: list[str], seed: int = 0) -> Store:
    """Make a store of a dataset's name with random signals under some record ids."""
    recordings = {
        name: make_recording(seed=1000 * seed + number, record_id=name, patient_id=name)
        for number, name in enumerate(record_ids)
    }

    def entries(*_: object) -> Iterator[Entry]:
        return (Entry(name) for name in recordings)

    def load(source: object, entry: Entry, options: object) -> Recording:
        return recordings[entry.file]

    made = replace(DATASETS.get("folder"), name=dataset, entries=entries, load=load, needs_source=False)
    return ingest(made, None, folder / f"{dataset}-{seed}", gate=GATE_OFF)


def split_of(*parts: str) -> Split:
    return Split("mine", "0" * 64, {}, np.array([PARTS.index(part) for part in parts], np.int8))


def encoder_of(folder: Path, store: Store, *parts: str) -> dict[str, Any]:
    """Write the keys of an encoder that was trained on a store, and return its config."""
    sha256 = save_seen_keys(folder, seen_keys(store, split_of(*parts)))
    training = {"store_sha256": store.sha256, "dataset": store.manifest.dataset["name"]}
    return {"seen_sha256": sha256, "training": training}


@pytest.mark.parametrize(
    ("train", "test", "names"),
    [
        ("ptbxl", "physionet2021", (["00001_hr", "00002_hr"], ["HR00001", "HR00002", "E00001"])),
        ("physionet2021", "ptbxl", (["HR00001", "HR00002"], ["00001_hr", "00002_hr", "00003_hr"])),
        ("ptbxl", "ptbxl", (["00001_hr", "00002_hr"], ["00001_lr", "00002_lr", "00003_lr"])),
        ("ecg-arrhythmia", "physionet2021", (["JS00001", "JS20000"], ["JS00001", "JS20000", "E00001"])),
    ],
)
def test_a_resampled_copy_is_recognised_by_its_id(
    tmp_path: Path, train: str, test: str, names: tuple[list[str], list[str]]
) -> None:
    """The second training recording is in the test part of its own store, so it was not seen."""
    trained_on, tested_on = store_of(tmp_path, train, names[0]), store_of(tmp_path, test, names[1], seed=1)
    about = encoder_of(tmp_path, trained_on, "train", "test")
    with pytest.raises(LeakError, match=f"1 test recordings are theirs, '{names[1][0]}'"):
        check_leakage(tmp_path, about, tested_on, split_of("test", "test", "test"))
    found = check_leakage(tmp_path, about, tested_on, split_of("train", "test", "test"))
    assert found == {"seen": {"train": 1, "validation": 0, "test": 0, "unused": 0}}


def test_a_dataset_without_common_ids_is_refused(tmp_path: Path) -> None:
    chapman = store_of(tmp_path, "chapman", ["MUSE_1_1_1", "MUSE_1_1_2"])
    other = store_of(tmp_path, "ecg-arrhythmia", ["JS00001", "JS20000"], seed=1)
    about = encoder_of(tmp_path, chapman, "train", "test")
    with pytest.raises(
        LeakError, match="belong to Chapman-Shaoxing, and this encoder was trained on the dataset 'chap"
    ):
        check_leakage(tmp_path, about, other, split_of("test", "test"))
    assert check_leakage(tmp_path, about, other, split_of("train", "test"))["seen"]["test"] == 0, "Ningbo is no Chapman"
    assert check_leakage(tmp_path, about, other, split_of("test", "test"), refuse=False)["leaks"] == 0
    assert check_leakage(tmp_path, about, chapman, split_of("train", "test"))["seen"]["train"] == 1


def test_recordings_outside_the_training_and_validation_parts_do_not_count(tmp_path: Path) -> None:
    trained_on = store_of(tmp_path, "physionet2021", ["JS00001", "E00001"])
    chapman = store_of(tmp_path, "chapman", ["MUSE_1_1_1"], seed=1)
    about = encoder_of(tmp_path, trained_on, "test", "train")
    assert check_leakage(tmp_path, about, chapman, split_of("test"))["seen"]["test"] == 0
    about = encoder_of(tmp_path, trained_on, "validation", "train")
    with pytest.raises(LeakError, match="Chapman-Shaoxing"):
        check_leakage(tmp_path, about, chapman, split_of("test"))


def test_an_encoder_without_keys_of_ids_is_refused_by_the_names_of_its_datasets(tmp_path: Path) -> None:
    sha256 = save_seen_keys(tmp_path, np.array([5], np.uint64))
    about = {"seen_sha256": sha256, "training": {"dataset": "physionet2020 + chapman"}}
    arrhythmia = store_of(tmp_path, "ecg-arrhythmia", ["JS00001", "JS20000"])
    with pytest.raises(LeakError, match="trained on the dataset 'chapman'"):
        check_leakage(tmp_path, about, arrhythmia, split_of("test", "unused"))
    assert check_leakage(tmp_path, about, arrhythmia, split_of("unused", "test"))["seen"]["test"] == 0
    challenge = store_of(tmp_path, "physionet2021", ["A0001", "E00001"])
    assert check_leakage(tmp_path, about, challenge, split_of("test", "test"))["seen"]["test"] == 0, "equal signals"


def test_stores_of_one_collection_are_not_trained_on_together(tmp_path: Path) -> None:
    def names(pattern: str) -> list[str]:
        return [pattern.format(number) for number in range(1, 21)]

    stores = {
        "xl": store_of(tmp_path, "ptbxl", names("{:05d}_hr")),
        "challenge": store_of(tmp_path, "physionet2021", [*names("HR{:05d}"), "JS00001"], seed=1),
        "chapman": store_of(tmp_path, "chapman", names("MUSE_1_1_{}"), seed=2),
        "georgia": store_of(tmp_path, "physionet2021", names("E{:05d}"), seed=3),
    }
    for store in stores.values():
        make_split(store)

    def opened(one: str, other: str) -> int:
        given = [f"store={stores[one].folder}", f"extra_stores={stores[other].folder}"]
        return len(open_training_stores(resolve_config("cmsc-folder", given)))

    with pytest.raises(LeakError, match=r"20 recordings are in both .* such as those of '000.._hr' and 'HR000..'"):
        opened("xl", "challenge")
    for pair in (("chapman", "challenge"), ("challenge", "chapman")):
        with pytest.raises(LeakError, match="both contain recordings of Chapman-Shaoxing"):
            opened(*pair)
    assert opened("chapman", "georgia") == opened("xl", "georgia") == opened("xl", "chapman") == 2


def test_stores_of_other_datasets_have_no_keys(tmp_path: Path) -> None:
    store = store_of(tmp_path, "mine", ["A0001", "HR00001"])
    assert not recording_keys(store).any()
    assert shared_collections(store, np.ones(2, bool)) == []
