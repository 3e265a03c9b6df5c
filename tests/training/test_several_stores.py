"""A run on several stores: what its batches hold, and what must not be mixed."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import clocs
from clocs.core.errors import ConfigError, LeakError, UnitError
from clocs.evaluation.leakage import check_leakage
from clocs.formats.writing import write
from clocs.signals.quality import GATE_OFF
from clocs.store.store import Store, open_store
from clocs.training.batches import Batches
from clocs.training.config_resolution import resolve_config
from clocs.training.data import open_training_stores
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.frame_dataset import FrameDataset
from clocs.training.initialization import build_initial_method
from clocs.training.seen_recordings import load_seen_keys, seen_keys, seen_mask
from tests.conftest import make_recording
from tests.training.conftest import data_of

JOINT = ("method={name: cmsmlc, view_choice: random_pair, augmentations: [gaussian_noise]}", "batch_size=64")


def test_batches_mix_stores_and_keep_their_patients_apart(store: Path, other: Path) -> None:
    config = resolve_config("cmsmlc-synthetic", [f"store={store}", f"extra_stores={other}", *JOINT])
    parts = open_training_stores(config)
    data = data_of(config, parts)
    alone = [data_of(config, (part,)).train for part in parts]
    assert len(data.train) == sum(map(len, alone))
    every = np.arange(len(data.train))
    patients = data.train.patients(every)
    first = set(patients[: len(alone[0])].tolist())
    second = set(patients[len(alone[0]) :].tolist())
    assert first
    assert second
    assert not first & second
    assert patients[len(alone[0]) :].tolist() == alone[1].patients(np.arange(len(alone[1]))).tolist()
    batch = data.train.make(data.sampler.batch(0, 0), 0, "train", 0, 0)
    owner = batch["item"].numpy() >= len(alone[0])
    assert owner.any()
    assert not owner.all()
    assert batch["patient"].tolist() == patients[batch["item"].numpy()].tolist()


def test_alternating_stores_share_no_batch(store: Path, other: Path) -> None:
    given = [f"store={store}", f"extra_stores={other}", *JOINT, "alternate_stores=true"]
    config = resolve_config("cmsmlc-synthetic", given)
    data = data_of(config)
    first = len(data_of(config, open_training_stores(config)[:1]).train)
    owners = [data.sampler.batch(0, step) >= first for step in range(data.sampler.steps)]
    assert [bool(owner.all()) for owner in owners] == [False, True] * (data.sampler.steps // 2)
    assert not any(owner.any() for owner in owners[::2])
    for wrong in ([f"store={store}", "alternate_stores=true"], [*given, "instances_per_patient=2"]):
        with pytest.raises(ConfigError, match="alternate_stores=true needs extra_stores"):
            open_training_stores(resolve_config("cmsmlc-synthetic", wrong))


@pytest.mark.parametrize("normalization", ["none", "minmax"])
def test_millivolt_and_raw_steps_are_not_mixed_unless_scaled(
    store: Path, normalization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve_config("cmsc-synthetic", [f"store={store}", f"frames.normalization={normalization}"])
    parts = open_training_stores(config)
    dataset = data_of(config, parts).train.datasets[0]
    raw = copy.copy(dataset)
    monkeypatch.setattr(FrameDataset, "unit", property(lambda self: "adu" if self is raw else "mV"))
    pair, policies, method = [dataset, raw], [parts[0].policy] * 2, build_initial_method(config, parts)
    if normalization == "minmax":
        assert len(Batches(pair, policies, method, 0)) == 2 * len(dataset)
        return
    with pytest.raises(UnitError, match="different scales"):
        Batches(pair, policies, method, 0)


def test_each_view_comes_from_its_own_item(store: Path, other: Path) -> None:
    config = resolve_config("cmsc-synthetic", [f"store={store}", f"extra_stores={other}", "batch_size=32"])
    parts = open_training_stores(config)
    joint = data_of(config, parts).train
    alone = [data_of(config, (part,)).train for part in parts]
    items = np.array([3, len(alone[0]) + 2, 0, len(alone[0]), 7])
    views = joint.make(items, 0, "train", 0, 0)["views"]
    for place, item in enumerate(items):
        number, local = (0, item) if item < len(alone[0]) else (1, item - len(alone[0]))
        assert torch.equal(views[place], alone[number].make(np.array([local]), 0, "train", 0, 0)["views"][0])


def test_a_batch_of_several_stores_does_not_depend_on_ranks(store: Path, other: Path) -> None:
    config = resolve_config("cmsmlc-synthetic", [f"store={store}", f"extra_stores={other}", *JOINT])
    data = data_of(config)
    items = data.sampler.batch(0, 1)
    whole = data.train.make(items, 0, "train", 0, 1)["views"]
    shares = [data.train.make(items[at : at + 32], at, "train", 0, 1)["views"] for at in (0, 32)]
    assert torch.equal(torch.cat(shares), whole)


def test_a_run_on_several_stores_lists_all_stores_and_seen_recordings(store: Path, other: Path, tmp_path: Path) -> None:
    here = [f"runs={tmp_path}", *JOINT, "max_steps=2"]
    done = clocs.pretrain("cmsmlc-synthetic", [f"store={store}", f"extra_stores={other}", *here])
    alone = clocs.pretrain("cmsmlc-synthetic", [f"store={store}", *here])
    assert Path(done["run"]).name != Path(alone["run"]).name
    about = json.loads((Path(done["best"]) / "config.json").read_bytes())
    assert about["training"]["dataset"] == "synthetic + synthetic"
    assert about["training"]["extra_stores"][0]["store_sha256"] == open_store(other).sha256
    seen = load_seen_keys(Path(done["best"]), about["seen_sha256"])
    for folder in (store, other):
        place = open_store(folder)
        assert np.isin(seen_keys(place, place.split()), seen).all()


def test_labels_of_several_stores_are_refused(store: Path, other: Path) -> None:
    config = resolve_config("supervised-synthetic", [f"store={store}", f"extra_stores={other}"])
    with pytest.raises(ConfigError, match="the labels of several stores differ"):
        open_training_stores(config)


def test_stores_with_different_numbers_of_views_are_not_mixed(store: Path, other: Path) -> None:
    config = resolve_config("cmsmlc-synthetic", [f"store={store}", f"extra_stores={other}"])
    with pytest.raises(ConfigError, match=f"cmsmlc makes 8 in {store}, 2 in {other}.*random_pair"):
        data_of(config)


def test_stores_that_share_a_signal_are_not_trained_on_together(store: Path, tmp_path: Path) -> None:
    same = clocs.ingest("synthetic", None, tmp_path / "same", options={"num_records": 20, "leads": 4})
    clocs.split(same)
    config = resolve_config("cmsc-synthetic", [f"store={store}", f"extra_stores={same.folder}"])
    with pytest.raises(LeakError, match=r"20 signals are in both .* such as those of '(00000\d\d)' and '\1'"):
        open_training_stores(config)


@pytest.mark.parametrize(("first", "second"), [(("II",), ("V2", "II")), (("II", "V1"), ("I", "V1"))])
def test_an_ecg_is_recognised_in_another_store_by_any_lead_in_common(
    first: tuple[str, ...], second: tuple[str, ...], tmp_path: Path
) -> None:
    """Recording 7 of one store is recording 3 of the other, but for the leads beside its last one."""
    draws = np.random.default_rng(0)
    signals = [draws.normal(0, 0.2, (20, len(leads), 5000)) for leads in (first, second)]
    signals[1][3, -1] = signals[0][7, -1]
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, leads, values in zip(folders, (first, second), signals, strict=True):
        table = {"record_id": [f"{folder.name}{number}" for number in range(20)]}
        clocs.split(Store.from_arrays(folder, values, sampling_rate=500, leads=leads, table=table, gate=GATE_OFF))
    for one, other, names in ((*folders, "'a7' and 'b3'"), (*folders[::-1], "'b3' and 'a7'")):
        config = resolve_config("cmsc-synthetic", [f"store={one}", f"extra_stores={other}"])
        with pytest.raises(LeakError, match=f"1 leads are in both {one} and {other}, such as those of {names}"):
            open_training_stores(config)


def test_a_patient_of_two_stores_made_with_one_key_is_recognised(tmp_path: Path) -> None:
    """Recording 0 of each patient in one store, recording 1 in another, as if a store held a year."""
    clocs.make_key(tmp_path / "key")
    for number in range(24):
        for year in (0, 1):
            files = tmp_path / f"files{year}"
            files.mkdir(exist_ok=True)
            write(make_recording(seed=2 * number + year, record_id="x"), files / f"{number:02}.edf")
    rows = "".join(f"{number:02},patient {number}\n" for number in range(24))
    (tmp_path / "table.csv").write_text("file,patient_id\n" + rows)
    told = {"key": tmp_path / "key", "table": tmp_path / "table.csv"}
    first, second = (
        clocs.ingest("folder", tmp_path / f"files{year}", tmp_path / f"store{year}", options=told, gate=GATE_OFF)
        for year in (0, 1)
    )
    split, other = clocs.split(first), clocs.split(second, seed=5)
    run = clocs.pretrain("cmsc-folder", [f"store={first.folder}", f"runs={tmp_path}", "max_steps=1", "batch_size=16"])
    best, about = Path(run["best"]), load_encoder_folder(Path(run["best"]))[1]
    train = set(first.table(["patient_id"]).column(0).filter(pa.array(~split.mask("test"))).to_pylist())
    names = second.table(["patient_id"]).column(0).to_pylist()
    np.testing.assert_array_equal(seen_mask(best, about, second), [name in train for name in names])
    with pytest.raises(LeakError, match="trained on patients of the test part"):
        check_leakage(best, about, second, other)
    config = resolve_config("cmsc-folder", [f"store={first.folder}", f"extra_stores={second.folder}"])
    with pytest.raises(LeakError, match="24 patients are in both"):
        open_training_stores(config)
