"""Training data of a run: patients, leads and views; and encoders with random weights."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import clocs
from clocs.core.errors import ConfigError
from clocs.formats.writing import write
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.store.store import Store, open_store
from clocs.training.block_sampler import BlockSampler
from clocs.training.config_checks import check_config, check_hardware
from clocs.training.config_resolution import resolve_config
from clocs.training.data import open_training_stores
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.initialization import build_initial_encoder
from clocs.training.seen_recordings import load_seen_keys
from tests.conftest import make_recording
from tests.training.conftest import data_of


def test_zero_epochs_give_the_initial_encoder_without_seen_recordings(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "max_epochs=0", "seed=4", "encoder.embedding_dim=32"]
    done = clocs.pretrain("cmsc-synthetic", told)
    assert (done["epochs"], done["steps"]) == (0, 0)
    encoder, about = load_encoder_folder(Path(done["best"]))
    config = resolve_config("cmsc-synthetic", told)
    start = build_initial_encoder(config, open_training_stores(config)[0].policy)
    assert all(torch.equal(value, start.state_dict()[name]) for name, value in encoder.state_dict().items())
    assert len(load_seen_keys(Path(done["best"]), about["seen_sha256"])) == 0


def test_a_patient_fraction_contains_all_frames_of_its_patients_and_is_nested(store: Path) -> None:
    place = open_store(store)
    patient = place.patient_codes()[0]
    train = place.split().mask("train")
    drawn: dict[float, set[int]] = {}
    for share in (0.25, 0.5):
        config = resolve_config("cmsc-synthetic", [f"store={store}", f"patient_fraction={share}", "batch_size=16"])
        data = data_of(config)
        drawn[share] = set(data.train.patients(np.arange(len(data.train))).tolist())
        assert len(drawn[share]) == pytest.approx(share * len(np.unique(patient[train])), abs=0.5)
    assert drawn[0.25] < drawn[0.5]


def test_blocks_follow_the_shards_of_all_stores_and_are_in_the_name_of_the_run(tmp_path: Path) -> None:
    """Every instance comes from a shard that its lane reads in this step."""
    few_per_shard = replace(clocs.DATASETS.get("synthetic"), records_per_shard=16)
    stores = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(stores):
        options = {"num_records": 100, "leads": 2, "seed": seed}
        clocs.split(clocs.ingest(few_per_shard, None, folder, gate=GATE_OFF, options=options))
    told = [f"store={stores[0]}", f"extra_stores={stores[1]}", "batch_size=32"]
    blocks = [*told, "shuffle=blocks", "shuffle_lanes=2", "shuffle_window=1"]
    config = resolve_config("cmsc-synthetic", blocks)
    assert config.identity() != resolve_config("cmsc-synthetic", told).identity()
    data = data_of(config)
    assert isinstance(data.sampler, BlockSampler)
    first_shards = np.cumsum([0, *(len(dataset.store.shards) for dataset in data.train.datasets)])
    for step in range(data.sampler.steps):
        for lane, items in enumerate(np.split(data.sampler.batch(0, step), 2)):
            active = {use.shard for use in data.sampler.uses(0, range(lane, lane + 1)) if use.first <= step < use.end}
            read = set()
            for number, at in data.train._by_dataset(items):
                dataset = data.train.datasets[number]
                own = items[at] - sum(data.train.sizes[:number])
                shards = np.searchsorted(dataset.store.shard_starts, dataset.locate(own)[0], "right") - 1
                read |= set((first_shards[number] + shards).tolist())
            assert read <= active


def test_blocks_refuse_another_order_and_ranks_that_share_a_lane(store: Path) -> None:
    told = [f"store={store}", "shuffle=blocks", "batch_size=192"]
    with pytest.raises(ConfigError, match="shuffle=blocks cannot be used with instances_per_patient"):
        check_config(resolve_config("cmsc-synthetic", [*told, "instances_per_patient=2"]))
    with pytest.raises(ConfigError, match="each takes whole lanes"):
        check_hardware(resolve_config("cmsc-synthetic", [*told, "devices=3"]))


def policy_leads(name: str, *overrides: str) -> tuple[str, ...]:
    config = resolve_config(name, overrides)
    return open_training_stores(config)[-1].policy.leads


def test_leads_are_found_in_any_spelling(store: Path, other: Path) -> None:
    here = f"store={store}"
    held = open_store(store).recording(0).leads
    assert {"II", "aVL"} <= set(held), "what the next line asks for"
    assert policy_leads("cmsc-synthetic", here, "leads=lead ii,AVL") == ("II", "aVL")
    assert policy_leads("cmsc-synthetic", here, "frames.leads=[avl]") == ("aVL",)
    assert policy_leads("cmsc-synthetic", here, f"extra_stores={other}", "leads=ii") == ("II",)


def test_leads_that_follow_from_others_are_present(tmp_path: Path) -> None:
    signals = np.random.default_rng(0).normal(0, 0.2, (20, 2, 5000))
    table = {"patient_id": [str(number) for number in range(20)]}
    made = Store.from_arrays(
        tmp_path / "store", signals, sampling_rate=500, leads=["I", "II"], table=table, gate=GATE_OFF
    )
    clocs.split(made)
    config = resolve_config("cmsc-synthetic", [f"store={tmp_path / 'store'}", "leads=aVF,III", "batch_size=16"])
    parts = open_training_stores(config)
    assert parts[0].policy.leads == ("aVF", "III")
    assert data_of(config, parts).train.leads == ("aVF", "III")
    with pytest.raises(ConfigError, match=r"has 'V1'\. Available: I, II, III, aVR, aVL, aVF\.$"):
        policy_leads("cmsc-synthetic", f"store={tmp_path / 'store'}", "leads=I,V1")


def test_leads_that_no_recording_has_are_refused(store: Path, other: Path) -> None:
    there = ", ".join(lead for lead in STANDARD_LEADS if lead in open_store(store).recording(0).leads)
    for wrong in ("leads=II,XX", "frames.leads=[XX]"):
        with pytest.raises(ConfigError, match=f"no recording of {store} has 'XX'. Available: {there}.$"):
            policy_leads("cmsc-synthetic", f"store={store}", wrong)
    with pytest.raises(ConfigError, match="named twice: II, II"):
        policy_leads("cmsc-synthetic", f"store={store}", "leads=II,ii")
    lacking = next(lead for lead in there.split(", ") if lead not in open_store(other).recording(0).leads)
    with pytest.raises(ConfigError, match=f"no recording of {other} has '{lacking}'"):
        policy_leads("cmsc-synthetic", f"store={store}", f"extra_stores={other}", f"leads={lacking}")


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("cmlc", "leads=II", "takes two views or more of an instance, but .* has 1 view.*: 1 segment.* II"),
        ("cmsc", "frames.num_segments=1", "takes two views or more of an instance, but .* has 1 view.*: 1 segment"),
        ("cmsmlc", "frames={num_segments: 1, leads: [II]}", "takes two views or more"),
        *(
            (name, "frames.num_segments=2", "takes one segment a frame, but .* 2 segment")
            for name in ("simclr", "byol", "mtssl", "supervised")
        ),
    ],
)
def test_views_that_a_loss_cannot_compare_are_refused_before_training(
    store: Path, tmp_path: Path, name: str, override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        clocs.pretrain(f"{name}-synthetic", [f"store={store}", f"runs={tmp_path}", override])


@pytest.mark.parametrize("normalization", ["none", "minmax", "typical"])
def test_every_task_of_mtssl_changes_the_original(store: Path, normalization: str) -> None:
    """A scaling that comes before a normalisation to one size would be undone by it."""
    config = resolve_config("mtssl-synthetic", [f"store={store}", f"frames.normalization={normalization}"])
    maker = data_of(config).train
    views = maker.make(np.arange(8), 0, "train", 0, 0)["views"][:, :, 0]
    away = (views[:, 1:] - views[:, :1]).abs().amax(dim=2)
    assert float(away.min()) > 1e-3


def test_a_single_validation_patient_is_warned_about(tmp_path: Path) -> None:
    """Eight patients are too few: a patient alone has nobody to be told from."""
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 8, "recordings_per_patient": 1})
    clocs.split(store)
    for name, told in (("cmsc", True), ("simclr", False)):
        config = resolve_config(f"{name}-synthetic", [f"store={store.folder}", "batch_size=4"])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            data_of(config)
        assert any("validation part has one patient" in str(one.message) for one in found) == told


@pytest.mark.filterwarnings("ignore:the validation part has one patient")
def test_both_parts_have_the_same_leads(tmp_path: Path) -> None:
    """Twenty recordings of twelve leads and twenty of three: each part by itself would take its commonest."""
    files = tmp_path / "files"
    files.mkdir()
    for number in range(40):
        leads = STANDARD_LEADS if number % 2 else ("I", "II", "V1")
        write(make_recording(leads=leads, seed=number), files / f"{number:02}.edf")
    store = clocs.ingest("folder", files, tmp_path / "store", options={}, gate=GATE_OFF)
    for seed in range(4):
        clocs.split(store, f"s{seed}", seed=seed)
        config = resolve_config("cmlc-folder", [f"store={store.folder}", f"split=s{seed}", "batch_size=4"])
        data = data_of(config)
        assert data.train.leads == data.validation.leads


def store_with(classes: dict[str, tuple[str, ...]], folder: Path) -> Store:
    """Return a store of forty recordings. Not all of them have one of these classes."""
    made = clocs.ingest(
        replace(clocs.DATASETS.get("synthetic"), classes=classes), None, folder, options={"num_records": 40}
    )
    clocs.split(made)
    return made


def test_a_store_without_classes_is_refused_for_supervised_training(tmp_path: Path) -> None:
    store = store_with({}, tmp_path / "store")
    with pytest.raises(
        ConfigError, match=r"^supervised needs labels, but this store has no classes, .* Define classes"
    ):
        clocs.pretrain(
            "supervised-synthetic", [f"store={store.folder}", f"runs={tmp_path}", "batch_size=8", "max_steps=1"]
        )


def test_recordings_without_exactly_one_class_are_refused_before_training_and_the_advice_is_true(
    tmp_path: Path,
) -> None:
    store = store_with({"fibrillation": ("AFIB",), "fast": ("AFIB", "ST")}, tmp_path / "store")
    told = [f"store={store.folder}", f"runs={tmp_path}", "leads=II", "batch_size=8", "max_steps=1"]
    labels, trains = store.table(["labels"]).column(0).to_pylist(), store.split().mask("train")
    counts = [
        len({"AFIB"} & {*of}) + len({"AFIB", "ST"} & {*of}) for of, there in zip(labels, trains, strict=True) if there
    ]
    assert {*counts} == {0, 1, 2}, "none, one and both of the classes"
    wrong, all_of_them = 2 * sum(count != 1 for count in counts), 2 * len(counts)  # two frames a recording
    with pytest.raises(
        ConfigError, match=f"^{wrong} of {all_of_them} instances of the training part .*multi_label=true"
    ):
        clocs.pretrain("supervised-synthetic", told)
    assert clocs.pretrain("supervised-synthetic", [*told, "method.multi_label=true"])["steps"] == 1


def test_a_part_without_patients_is_reported(tmp_path: Path) -> None:
    small = clocs.ingest("synthetic", None, tmp_path / "small", options={"num_records": 6})
    clocs.split(small)
    with pytest.raises(ConfigError, match=r"split .default. of .* has no patients in its validation part"):
        clocs.pretrain("cmsc-synthetic", [f"store={small.folder}", f"runs={tmp_path}"])
