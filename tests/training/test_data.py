"""What a run trains on: several stores together, and encoders that were not trained at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import clocs
from clocs.core.errors import ConfigError, LeakError, UnitError
from clocs.evaluation.contract import check_contract
from clocs.formats.writing import write
from clocs.methods import parse_method
from clocs.signals.leads import STANDARD
from clocs.signals.quality import OFF
from clocs.store.store import Store, open_store
from clocs.training.checkpoint import load_encoder_folder
from clocs.training.config import resolve
from clocs.training.data import sources, training_data
from clocs.training.pretrain import fresh_encoder
from clocs.training.seen import load_seen, seen_keys, seen_records
from clocs.views.batch import BatchMaker
from clocs.views.joint import JointBatchMaker
from tests.conftest import make_recording

JOINT = ("method={name: cmsmlc, view_choice: random_pair, perturbations: [gaussian]}", "batch=64")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred and sixty recordings with one lead, of other patients."""
    folder = tmp_path_factory.mktemp("other") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"records": 160, "leads": 1, "seed": 5}))
    return folder


def test_batches_mix_stores_and_keep_their_patients_apart(store: Path, other: Path) -> None:
    config = resolve("cmsmlc-synthetic", [f"store={store}", f"more_stores={other}", *JOINT])
    method = parse_method(config.method)
    parts = sources(config, method)
    data = training_data(config, method, parts)
    alone = [training_data(config, method, (part,)).train for part in parts]
    assert len(data.train) == sum(map(len, alone))
    every = np.arange(len(data.train))
    patients = data.train.patients(every)
    first = set(patients[: len(alone[0])].tolist())
    second = set(patients[len(alone[0]) :].tolist())
    assert first
    assert second
    assert not first & second
    expected = alone[1].patients(np.arange(len(alone[1]))) + open_store(store).patients()[1]
    assert patients[len(alone[0]) :].tolist() == expected.tolist()
    batch = data.train.make(data.sampler.batch(0, 0), 0, "train", 0, 0)
    owner = batch.items.numpy() >= len(alone[0])
    assert owner.any()
    assert not owner.all()
    assert batch.patients.tolist() == patients[batch.items.numpy()].tolist()


def test_stores_that_take_turns_share_no_batch(store: Path, other: Path) -> None:
    given = [f"store={store}", f"more_stores={other}", *JOINT, "take_turns=true"]
    config = resolve("cmsmlc-synthetic", given)
    method = parse_method(config.method)
    data = training_data(config, method, sources(config, method))
    first = len(training_data(config, method, sources(config, method)[:1]).train)
    owners = [data.sampler.batch(0, step) >= first for step in range(data.sampler.steps)]
    assert [bool(owner.all()) for owner in owners] == [False, True] * (data.sampler.steps // 2)
    assert not any(owner.any() for owner in owners[::2])
    for wrong in ([f"store={store}", "take_turns=true"], [*given, "same_patient=2"]):
        with pytest.raises(ConfigError, match="take turns where there are more_stores"):
            sources(resolve("cmsmlc-synthetic", wrong), method)


@pytest.mark.parametrize("normalisation", ["none", "unit"])
def test_millivolt_and_raw_steps_are_not_mixed_unless_scaled(store: Path, normalisation: str) -> None:
    config = resolve("cmsc-synthetic", [f"store={store}", f"frames.normalisation={normalisation}"])
    method = parse_method(config.method)
    makers = [training_data(config, method, sources(config, method)).train for _ in range(2)]
    first, second = (maker for maker in makers if isinstance(maker, BatchMaker))
    second.unit = "adu"
    if normalisation == "unit":
        assert len(JointBatchMaker([first, second])) == 2 * len(first)
        return
    with pytest.raises(UnitError, match="thousandfold"):
        JointBatchMaker([first, second])


def test_each_view_comes_from_its_own_item(store: Path, other: Path) -> None:
    config = resolve("cmsc-synthetic", [f"store={store}", f"more_stores={other}", "batch=32"])
    method = parse_method(config.method)
    parts = sources(config, method)
    joint = training_data(config, method, parts).train
    alone = [training_data(config, method, (part,)).train for part in parts]
    items = np.array([3, len(alone[0]) + 2, 0, len(alone[0]), 7])
    views = joint.make(items, 0, "train", 0, 0).views
    for place, item in enumerate(items):
        number, local = (0, item) if item < len(alone[0]) else (1, item - len(alone[0]))
        assert torch.equal(views[place], alone[number].make(np.array([local]), 0, "train", 0, 0).views[0])


def test_a_batch_of_several_stores_does_not_depend_on_ranks(store: Path, other: Path) -> None:
    config = resolve("cmsmlc-synthetic", [f"store={store}", f"more_stores={other}", *JOINT])
    method = parse_method(config.method)
    data = training_data(config, method, sources(config, method))
    items = data.sampler.batch(0, 1)
    whole = data.train.make(items, 0, "train", 0, 1).views
    shares = [data.train.make(items[at : at + 32], at, "train", 0, 1).views for at in (0, 32)]
    assert torch.equal(torch.cat(shares), whole)


def test_a_run_on_several_stores_says_so_and_remembers_all_it_has_seen(
    store: Path, other: Path, tmp_path: Path
) -> None:
    here = [f"runs={tmp_path}", *JOINT, "steps=2"]
    done = clocs.pretrain("cmsmlc-synthetic", [f"store={store}", f"more_stores={other}", *here])
    alone = clocs.pretrain("cmsmlc-synthetic", [f"store={store}", *here])
    assert Path(done["run"]).name != Path(alone["run"]).name
    about = json.loads((Path(done["best"]) / "config.json").read_bytes())
    assert about["training"]["dataset"] == "synthetic + synthetic"
    assert about["training"]["more_stores"][0]["store_sha256"] == open_store(other).sha256
    seen = load_seen(Path(done["best"]), about["seen_sha256"])
    for folder in (store, other):
        place = open_store(folder)
        assert np.isin(seen_keys(place, place.split()), seen).all()


def test_labels_of_several_stores_are_refused(store: Path, other: Path) -> None:
    config = resolve("supervised-synthetic", [f"store={store}", f"more_stores={other}"])
    with pytest.raises(ConfigError, match="several stores are not the same"):
        sources(config, parse_method(config.method))


def test_no_epochs_give_the_encoder_as_it_starts_and_it_has_seen_nobody(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "epochs=0", "seed=4", "embedding=32"]
    done = clocs.pretrain("cmsc-synthetic", told)
    assert (done["epochs"], done["steps"]) == (0, 0)
    encoder, about = load_encoder_folder(Path(done["best"]))
    config = resolve("cmsc-synthetic", told)
    start = fresh_encoder(config, sources(config, parse_method(config.method))[0].policy)
    assert all(torch.equal(value, start.state_dict()[name]) for name, value in encoder.state_dict().items())
    assert len(load_seen(Path(done["best"]), about["seen_sha256"])) == 0


def test_a_share_of_the_patients_brings_all_their_frames_and_lies_inside_a_larger_one(store: Path) -> None:
    place = open_store(store)
    patient = place.patients()[0]
    train = place.split().mask("train")
    drawn: dict[float, set[int]] = {}
    for share in (0.25, 0.5):
        config = resolve("cmsc-synthetic", [f"store={store}", f"patients={share}", "batch=16"])
        method = parse_method(config.method)
        data = training_data(config, method, sources(config, method))
        drawn[share] = set(data.train.patients(np.arange(len(data.train))).tolist())
        assert len(drawn[share]) == pytest.approx(share * len(np.unique(patient[train])), abs=0.5)
    assert drawn[0.25] < drawn[0.5]


def policy_leads(name: str, *overrides: str) -> tuple[str, ...]:
    config = resolve(name, overrides)
    return sources(config, parse_method(config.method))[-1].policy.leads


def test_leads_are_found_however_they_are_written(store: Path, other: Path) -> None:
    here = f"store={store}"
    held = open_store(store).recording(0).leads
    assert {"II", "aVL"} <= set(held), "what the next line asks for"
    assert policy_leads("cmsc-synthetic", here, "leads=lead ii,AVL") == ("II", "aVL")
    assert policy_leads("cmsc-synthetic", here, "frames.leads=[avl]") == ("aVL",)
    assert policy_leads("cmsc-synthetic", here, f"more_stores={other}", "leads=ii") == ("II",)


def test_leads_that_follow_from_others_are_there(tmp_path: Path) -> None:
    signals = np.random.default_rng(0).normal(0, 0.2, (20, 2, 5000))
    table = {"patient_id": [str(number) for number in range(20)]}
    made = Store.from_arrays(tmp_path / "store", signals, rate=500, leads=["I", "II"], table=table, gate=OFF)
    clocs.split(made)
    config = resolve("cmsc-synthetic", [f"store={tmp_path / 'store'}", "leads=aVF,III", "batch=16"])
    method = parse_method(config.method)
    parts = sources(config, method)
    assert parts[0].policy.leads == ("aVF", "III")
    assert training_data(config, method, parts).train.leads == ("aVF", "III")
    with pytest.raises(ConfigError, match=r"has 'V1'; there are I, II, III, aVR, aVL, aVF$"):
        policy_leads("cmsc-synthetic", f"store={tmp_path / 'store'}", "leads=I,V1")


def test_leads_that_no_recording_has_are_refused(store: Path, other: Path) -> None:
    there = ", ".join(lead for lead in STANDARD if lead in open_store(store).recording(0).leads)
    for wrong in ("leads=II,XX", "frames.leads=[XX]"):
        with pytest.raises(ConfigError, match=f"no recording of {store} has 'XX'; there are {there}$"):
            policy_leads("cmsc-synthetic", f"store={store}", wrong)
    with pytest.raises(ConfigError, match="named twice: II, II"):
        policy_leads("cmsc-synthetic", f"store={store}", "leads=II,ii")
    lacking = next(lead for lead in there.split(", ") if lead not in open_store(other).recording(0).leads)
    with pytest.raises(ConfigError, match=f"no recording of {other} has '{lacking}'"):
        policy_leads("cmsc-synthetic", f"store={store}", f"more_stores={other}", f"leads={lacking}")


@pytest.mark.parametrize(
    ("name", "override", "said"),
    [
        ("cmlc", "leads=II", "takes two views or more of an instance, but .* has 1 view.*: 1 segment.* II"),
        ("cmsc", "frames.segments=1", "takes two views or more of an instance, but .* has 1 view.*: 1 segment"),
        ("cmsmlc", "frames={segments: 1, leads: [II]}", "takes two views or more"),
        *(
            (name, "frames.segments=2", "takes one segment a frame, but .* 2 segment")
            for name in ("simclr", "byol", "mtssl", "supervised")
        ),
    ],
)
def test_views_that_a_loss_cannot_compare_are_refused_before_training(
    store: Path, tmp_path: Path, name: str, override: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        clocs.pretrain(f"{name}-synthetic", [f"store={store}", f"runs={tmp_path}", override])


def test_stores_whose_instances_have_more_or_fewer_views_are_not_mixed(store: Path, other: Path) -> None:
    config = resolve("cmsmlc-synthetic", [f"store={store}", f"more_stores={other}"])
    method = parse_method(config.method)
    with pytest.raises(ConfigError, match=f"cmsmlc makes 8 in {store}, 2 in {other}.*random_pair"):
        training_data(config, method, sources(config, method))


def test_a_loss_that_is_no_longer_finite_ends_a_run_in_words(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "learning_rate=1e30", "epochs=3", "embedding=8", "steps=4"]
    with pytest.raises(ConfigError, match="no longer finite at epoch 0; try a smaller learning_rate"):
        clocs.pretrain("supervised-synthetic", told)


@pytest.mark.parametrize("normalisation", ["none", "unit", "typical"])
def test_every_task_of_mtssl_can_be_told_from_the_original(store: Path, normalisation: str) -> None:
    """A scaling that comes before a normalisation to one size would be undone by it."""
    config = resolve("mtssl-synthetic", [f"store={store}", f"frames.normalisation={normalisation}"])
    method = parse_method(config.method)
    maker = training_data(config, method, sources(config, method)).train
    views = maker.make(np.arange(8), 0, "train", 0, 0).views[:, :, 0]
    away = (views[:, 1:] - views[:, :1]).abs().amax(dim=2)
    assert float(away.min()) > 1e-3


def test_leads_that_come_together_are_the_same_in_both_parts(tmp_path: Path) -> None:
    """Twenty recordings of twelve leads and twenty of three: each part by itself would take its commonest."""
    files = tmp_path / "files"
    files.mkdir()
    for number in range(40):
        leads = STANDARD if number % 2 else ("I", "II", "V1")
        write(make_recording(leads=leads, seed=number), files / f"{number:02}.edf")
    store = clocs.ingest("folder", files, tmp_path / "store", options={}, gate=OFF)
    for seed in range(4):
        clocs.split(store, f"s{seed}", seed=seed)
        config = resolve("cmlc-folder", [f"store={store.folder}", f"split=s{seed}", "batch=4"])
        method = parse_method(config.method)
        data = training_data(config, method, sources(config, method))
        assert data.train.leads == data.validation.leads


def test_stores_that_share_a_signal_are_not_trained_on_together(store: Path, tmp_path: Path) -> None:
    same = clocs.ingest("synthetic", None, tmp_path / "same", options={"records": 20, "leads": 4})
    clocs.split(same)
    config = resolve("cmsc-synthetic", [f"store={store}", f"more_stores={same.folder}"])
    with pytest.raises(LeakError, match=r"20 signals are in .* such as those of '(00000\d\d)' and '\1'"):
        sources(config, parse_method(config.method))


def test_a_part_without_anybody_is_named(tmp_path: Path) -> None:
    small = clocs.ingest("synthetic", None, tmp_path / "small", options={"records": 6})
    clocs.split(small)
    with pytest.raises(ConfigError, match=r"split .default. of .* has nobody in its validation part"):
        clocs.pretrain("cmsc-synthetic", [f"store={small.folder}", f"runs={tmp_path}"])


def test_one_class_in_validation_leaves_the_auc_out(tmp_path: Path) -> None:
    """A single validation patient has one rhythm."""
    small = clocs.ingest("synthetic", None, tmp_path / "small", options={"records": 16})
    clocs.split(small)
    told = [f"store={small.folder}", f"runs={tmp_path / 'runs'}", "epochs=1", "batch=4", "embedding=8"]
    run = Path(clocs.pretrain("supervised-synthetic", told)["run"])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert "validation_loss" in lines[-1]
    assert "validation_auc" not in lines[-1]
    with pytest.raises(ConfigError, match="one class alone"):
        clocs.pretrain("supervised-synthetic", [*told, "best_by=auc"])


def test_a_loss_that_is_not_finite_ends_a_run_before_a_checkpoint_is_written(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "learning_rate=1e30", "steps=4", "batch=16", "checkpoint_steps=1"]
    with pytest.raises(ConfigError, match="no longer finite"):
        clocs.pretrain("cmsc-synthetic", told)


def test_doubles_do_not_outlast_a_run(store: Path, tmp_path: Path) -> None:
    clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "steps=1", "batch=16", "precision=64-true"])
    assert torch.get_default_dtype() == torch.float32


def test_overrides_are_laid_over_a_config_that_is_ready(store: Path, tmp_path: Path) -> None:
    config = resolve("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "steps=2", "batch=16"])
    assert clocs.pretrain(config, ["steps=3"])["steps"] == 3


@pytest.mark.parametrize("key", ["embedding", "samples", "channels"])
def test_what_follows_from_the_rest_of_a_config_is_not_an_encoders_option(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set here"):
        resolve("cmsc-synthetic", [f"encoder.{key}=64"])


def test_parts_of_a_batch_weigh_by_their_instances(store: Path, tmp_path: Path) -> None:
    """Ten in four parts are 3, 3, 3 and 1: the loss is their mean over instances, not over parts."""
    told = [f"store={store}", f"runs={tmp_path}", "steps=1", "batch=10", "accumulate=4", "encoder.dropout=0"]
    config = resolve("mtssl-synthetic", told)
    method = parse_method(config.method)
    parts = sources(config, method)
    data = training_data(config, method, parts)
    pieces = data.train.make(data.sampler.batch(0, 0), 0, "train", 0, 0).split(4)
    assert [len(piece.items) for piece in pieces] == [3, 3, 3, 1]
    model = method.model(fresh_encoder(config, parts[0].policy), config.embedding, 0).train()
    means = [float(method.loss(model(piece.views), piece.patients, piece.targets).detach()) for piece in pieces]
    logged = json.loads((Path(clocs.pretrain(config)["run"]) / "metrics.jsonl").read_text().splitlines()[0])["loss"]
    assert logged == pytest.approx(np.dot(means, [0.3, 0.3, 0.3, 0.1]), rel=1e-5)
    assert logged != pytest.approx(np.mean(means), rel=1e-5)


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
        clocs.ingest("folder", tmp_path / f"files{year}", tmp_path / f"store{year}", options=told, gate=OFF)
        for year in (0, 1)
    )
    split, other = clocs.split(first), clocs.split(second, seed=5)
    run = clocs.pretrain("cmsc-folder", [f"store={first.folder}", f"runs={tmp_path}", "steps=1", "batch=16"])
    best, about = Path(run["best"]), load_encoder_folder(Path(run["best"]))[1]
    train = set(first.table(["patient_id"]).column(0).filter(pa.array(~split.mask("test"))).to_pylist())
    names = second.table(["patient_id"]).column(0).to_pylist()
    np.testing.assert_array_equal(seen_records(best, about, second), [name in train for name in names])
    with pytest.raises(LeakError, match="trained on patients of the test part"):
        check_contract(best, about, second, other)
    config = resolve("cmsc-folder", [f"store={first.folder}", f"more_stores={second.folder}"])
    with pytest.raises(LeakError, match="24 patients are in"):
        sources(config, parse_method(config.method))
