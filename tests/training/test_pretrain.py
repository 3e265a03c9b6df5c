"""A run that starts from an encoder, or that has few labels."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clocs
from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.formats.writing import write
from clocs.signals.quality import GATE_OFF
from clocs.store.store import open_store
from clocs.training.config_resolution import resolve_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.initialization import build_initial_encoder
from clocs.training.labels import sample_items, sample_patients
from clocs.training.loop import Progress
from clocs.training.runs import finished_epochs, kept_encoders
from clocs.training.sampler import ShuffledSampler
from clocs.training.seen_recordings import load_seen_keys, seen_keys
from clocs.training.shipped import find_encoder_folder
from tests.conftest import ROOT, make_recording
from tests.training.conftest import data_of


@pytest.fixture(scope="module")
def first(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the best encoder of three steps of CMSC."""
    here = [f"store={store}", f"runs={tmp_path_factory.mktemp('first')}"]
    return Path(clocs.pretrain("cmsc-synthetic", [*here, "max_steps=3", "batch_size=32"])["best"])


def seen(best: Path) -> set[int]:
    return set(load_seen_keys(best, load_encoder_folder(best)[1]["seen_sha256"]).tolist())


def test_a_run_starts_from_the_weights_it_is_given(first: Path, store: Path) -> None:
    config = resolve_config("supervised-synthetic", [f"init_from={first}"])
    policy = open_store(store).frame_policy("evaluation")
    begun, weights = build_initial_encoder(config, policy).state_dict(), load_encoder_folder(first)[0].state_dict()
    assert begun.keys() == weights.keys()
    assert all(torch.equal(begun[name], value) for name, value in weights.items())
    alone = build_initial_encoder(resolve_config("supervised-synthetic"), policy).state_dict()
    assert not torch.equal(alone["linear.weight"], weights["linear.weight"])


def test_encoders_are_kept_after_chosen_epochs(store: Path, tmp_path: Path) -> None:
    options = [f"store={store}", f"runs={tmp_path}", "batch_size=32", "max_epochs=3", "onnx=false"]
    found = clocs.pretrain("cmsc-synthetic", [*options, "keep_epochs=1,3,9"])
    kept = kept_encoders(Path(found["run"]))
    assert list(kept) == [1, 3], "a run of three epochs never reaches the ninth"
    encoders = {epochs: load_encoder_folder(folder) for epochs, folder in kept.items()}
    assert [about["epoch"] for _, about in encoders.values()] == [0, 2]
    shorter = clocs.pretrain("cmsc-synthetic", [*options, "max_epochs=1"])
    weights = [load_encoder_folder(Path(shorter["best"]))[0].state_dict(), encoders[1][0].state_dict()]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert seen(kept[3]) == seen(Path(found["best"]))


@pytest.mark.parametrize("method", ["mae", "jepa"])
def test_a_masked_model_trains_by_its_ready_config_and_embeds_by_the_mean_of_its_tokens(
    method: str, store: Path, tmp_path: Path
) -> None:
    done = clocs.pretrain(f"{method}-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=2", "leads=II"])
    encoder, about = load_encoder_folder(Path(done["best"]))
    assert (about["encoder"]["name"], about["encoder"]["options"]["head"]) == ("patch_transformer", "none")
    signals = torch.randn(2, 1, 2500)
    with torch.no_grad():
        torch.testing.assert_close(encoder(signals), encoder.tokens(signals).mean(1))
    assert all(value.requires_grad for value in encoder.parameters()), "also of a moving average"
    embedded = clocs.load_encoder(done["best"]).embed(open_store(store).recording(0))
    assert embedded.values.shape[1] == encoder.embedding_dim


def test_an_encoder_saved_before_an_option_existed_is_accepted(first: Path, store: Path, tmp_path: Path) -> None:
    shutil.copytree(first, tmp_path / "old")
    about = unseal((first / "config.json").read_bytes(), "config.json")
    del about["encoder"]["options"]["final_relu"]
    (tmp_path / "old" / "config.json").write_bytes(seal(about))
    config = resolve_config("supervised-synthetic", [f"init_from={tmp_path / 'old'}"])
    begun = build_initial_encoder(config, open_store(store).frame_policy("evaluation")).state_dict()
    assert torch.equal(begun["linear.weight"], load_encoder_folder(first)[0].state_dict()["linear.weight"])


@pytest.mark.parametrize(
    "override", ["encoder.embedding_dim=64", "encoder.dropout=0", "encoder.final_relu=false", "frames.num_samples=1250"]
)
def test_initial_weights_of_another_network_are_refused(
    override: str, first: Path, store: Path, tmp_path: Path
) -> None:
    option = re.escape(override.partition("=")[0])
    with pytest.raises(ConfigError, match=f"init_from: .*add: {option}=[^ ]+$"):
        clocs.pretrain("supervised-synthetic", [f"store={store}", f"runs={tmp_path}", f"init_from={first}", override])


def test_frames_unlike_those_of_the_initial_encoder_are_warned_about_with_overrides(
    first: Path, store: Path, tmp_path: Path
) -> None:
    shutil.copytree(store, tmp_path / "store")  # frames at another rate are cached there
    here = [
        f"store={tmp_path / 'store'}",
        f"runs={tmp_path / 'runs'}",
        f"init_from={first}",
        "max_steps=1",
        "batch_size=16",
    ]
    other = ["frames.sampling_rate=250", "frames.normalization=minmax"]
    with pytest.warns(
        UserWarning, match=r"rate 500\.0, normalization none, .*rate 250\.0, normalization minmax"
    ) as told:
        clocs.pretrain("supervised-synthetic", [*here, *other])
    advice = str(told[0].message).partition("add: ")[2].split()
    assert advice == ["frames.sampling_rate=500.0", "frames.normalization=none"]
    clocs.pretrain("supervised-synthetic", [*here, *other, *advice])  # a warning would be an error here
    stretched = ["frames.sampling_rate=null", "frames.num_source_samples=1250"]
    with pytest.warns(
        UserWarning, match=r"rate not stated\. .* add: frames.sampling_rate=500\.0 frames.num_source_samples=null$"
    ):
        clocs.pretrain("supervised-synthetic", [*here, *stretched])


def test_raw_steps_are_to_be_scaled_for_an_encoder_of_millivolt(first: Path, tmp_path: Path) -> None:
    """Their gain is not known, so nothing else comes near to what it was trained on."""
    files = tmp_path / "files"
    files.mkdir()
    for number in range(24):
        steps = replace(make_recording(seed=number), unit="adu", gain=np.ones(3))
        write(steps, files / f"{number:02}.hea")
    made = clocs.ingest("folder", files, tmp_path / "store", options={}, gate=GATE_OFF)
    clocs.split(made)
    here = [f"store={made.folder}", f"runs={tmp_path / 'runs'}", f"init_from={first}", "max_steps=1", "batch_size=16"]
    with pytest.warns(
        UserWarning, match="normalization typical, .* normalization none. .*frames.normalization=typical$"
    ):
        clocs.pretrain("cmsc-folder", here)
    clocs.pretrain("cmsc-folder", [*here, "frames.normalization=typical"])


def test_a_run_is_named_by_its_initial_weights_and_not_by_their_folder(
    first: Path, store: Path, tmp_path: Path
) -> None:
    here = [f"store={store}", f"runs={tmp_path / 'runs'}", "max_steps=1"]
    shutil.copytree(first, tmp_path / "copy")
    named = clocs.pretrain("supervised-synthetic", [*here, f"init_from={first}"])
    again = clocs.pretrain("supervised-synthetic", [*here, f"init_from={tmp_path / 'copy'}"])
    alone = clocs.pretrain("supervised-synthetic", here)
    assert again["already_finished"]
    assert named["run"] == again["run"] != alone["run"]
    told = load_encoder_folder(Path(named["best"]))[1]["training"]
    assert told["initial"] == load_encoder_folder(first)[1]["weights_sha256"]
    with pytest.raises(ConfigError, match="'nowhere' is neither a folder nor a shipped encoder"):
        clocs.pretrain("supervised-synthetic", [*here, "init_from=nowhere"])


def test_a_shipped_encoder_is_trained_on_other_recordings(store: Path, tmp_path: Path) -> None:
    here = [
        f"store={store}",
        f"runs={tmp_path / 'runs'}",
        "max_steps=1",
        "warmup_steps=0",
        "batch_size=16",
        "init_from=clocs-small",
    ]
    with pytest.raises(ConfigError, match=r"init_from: clocs-small differs .*, add: (.+)$") as caught:
        clocs.pretrain("recommended-synthetic", here)
    advice = str(caught.value).partition("add: ")[2].split()
    assert advice == ["encoder.pooling=all_blocks"]
    went_on = Path(clocs.pretrain("recommended-synthetic", [*here, *advice])["best"])
    shipped = find_encoder_folder("clocs-small")
    assert load_encoder_folder(went_on)[1]["encoder"] == load_encoder_folder(shipped)[1]["encoder"]
    assert seen(went_on) > seen(shipped)


def test_an_encoder_has_seen_what_the_one_it_started_from_had_seen(first: Path, store: Path, tmp_path: Path) -> None:
    other = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 40, "leads": 4, "seed": 5})
    clocs.split(other)
    here = [f"store={other.folder}", f"runs={tmp_path / 'runs'}", "max_steps=1", "batch_size=16"]
    tuned = Path(clocs.pretrain("supervised-synthetic", [*here, f"init_from={first}"])["best"])
    own, before = (set(seen_keys(place, place.split()).tolist()) for place in (other, open_store(store)))
    assert seen(first) == before
    assert own.isdisjoint(before)
    assert seen(tuned) == own | before

    shutil.copytree(first, tmp_path / "damaged")
    path = tmp_path / "damaged" / "seen.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(IntegrityError, match=r"seen\.npy"):
        clocs.pretrain("supervised-synthetic", [*here, "seed=1", f"init_from={tmp_path / 'damaged'}"])


def test_an_encoder_without_seen_recordings_continues_on_its_own_split_only(
    first: Path, store: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path / "old")
    about = unseal((first / "config.json").read_bytes(), "")
    del about["seen_sha256"]
    (tmp_path / "old" / "config.json").write_bytes(seal(about))
    here = [f"runs={tmp_path / 'runs'}", "max_steps=1", "batch_size=16", f"init_from={tmp_path / 'old'}"]
    tuned = clocs.pretrain("supervised-synthetic", [f"store={store}", *here])
    assert seen(Path(tuned["best"])) == seen(first)
    clocs.split(clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 40, "leads": 4}))
    with pytest.raises(ConfigError, match="does not list the recordings"):
        clocs.pretrain("supervised-synthetic", [f"store={tmp_path / 'store'}", *here])


@pytest.mark.parametrize("draw", ["patients", "frames"])
def test_only_labelled_items_train_and_all_validate(draw: str, store: Path) -> None:
    place = open_store(store)
    split = place.split()
    told = [f"store={store}", "label_fraction=0.25", f"label_unit={draw}", "batch_size=8", "seed=2"]
    config = resolve_config("supervised-synthetic", told)
    data = data_of(config)
    assert isinstance(data.sampler, ShuffledSampler)
    drawn = np.concatenate([data.sampler.batch(0, step) for step in range(data.sampler.steps)])
    assert len(set(drawn.tolist())) == len(drawn)
    records = data.train.datasets[0].locate(drawn)[0]
    if draw == "patients":
        expected = np.flatnonzero(sample_patients(place, split.mask("train"), 0.25, 2))
        assert set(records) == set(expected.tolist())
    else:
        assert set(drawn) <= set(sample_items(len(data.train), 0.25, 2).tolist())
        assert len(drawn) == len(data.train) // 4 // 8 * 8
        assert len(set(records)) > 0.7 * split.mask("train").sum(), "some labels of nearly everyone"
    assert len(data.validation) == 8 * split.mask("validation").sum(), "four leads, two frames"


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("cmsc-synthetic", ["label_fraction=0.5"], "cmsc uses no labels"),
        ("byol-synthetic", ["label_fraction=0.5", "label_unit=frames"], "byol uses no labels"),
        ("supervised-synthetic", ["label_fraction=0"], "fraction: "),
        ("supervised-synthetic", ["label_fraction=1.5"], "fraction: "),
        ("supervised-synthetic", ["label_unit=leads"], "label_unit: "),
        (
            "supervised-synthetic",
            ["label_fraction=0.5", "label_unit=frames", "instances_per_patient=2"],
            "instances_per_patient",
        ),
        ("supervised-synthetic", ["label_fraction=0.01"], "do not fill a batch"),
    ],
)
def test_invalid_fractions_are_refused(
    name: str, overrides: list[str], message: str, store: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        clocs.pretrain(name, [f"store={store}", f"runs={tmp_path}", *overrides])


def test_a_finished_run_is_found_where_it_was_moved_to(first: Path, store: Path, tmp_path: Path) -> None:
    shutil.copytree(first.parent, tmp_path / first.parent.name)
    again = clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=3", "batch_size=32"])
    assert again["already_finished"]
    assert Path(again["best"]) == Path(again["run"]) / "best" == tmp_path / first.parent.name / "best"


class StoppedError(Exception):
    """Error by which a test ends a training."""


def stop_at(step: int) -> Progress:
    def progress(known: dict[str, Any]) -> None:
        if "validation_loss" not in known and known["step"] == step:
            raise StoppedError

    return progress


HALF = ("batch_size=32", "max_steps=20", "max_epochs=3", "checkpoint_every=1")
"""An epoch has 16 steps: stopped at step 18, a best encoder is there and a checkpoint after it."""


@pytest.fixture(scope="module")
def stopped(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was stopped after its first epoch."""
    runs = tmp_path_factory.mktemp("stopped")
    with pytest.raises(StoppedError):
        clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={runs}", *HALF], progress=stop_at(18))
    (folder,) = runs.iterdir()
    assert (folder / "best" / "config.json").exists()
    return folder


@pytest.fixture
def unfinished(stopped: Path, store: Path, tmp_path: Path) -> tuple[list[str], Path]:
    """Return the arguments of a run, and a copy of its folder after it was stopped."""
    folder = tmp_path / "runs" / stopped.name
    shutil.copytree(stopped, folder)
    return [f"store={store}", f"runs={folder.parent}", *HALF], folder


def test_a_finished_run_without_its_encoder_is_refused_with_what_to_delete(
    first: Path, store: Path, tmp_path: Path
) -> None:
    here = [f"store={store}", f"runs={tmp_path}", "max_steps=3", "batch_size=32"]
    folder = tmp_path / first.parent.name
    shutil.copytree(first.parent, folder)
    shutil.rmtree(folder / "best")
    with pytest.raises(StoreError, match=rf"config\.json of .* cannot be found.* Delete {folder} to"):
        clocs.pretrain("cmsc-synthetic", here)
    shutil.rmtree(folder)
    again = clocs.pretrain("cmsc-synthetic", here)
    assert not again["already_finished"]
    assert load_encoder_folder(Path(again["best"]))[1] == load_encoder_folder(first)[1]


def test_an_unfinished_run_without_its_encoder_is_refused(unfinished: tuple[list[str], Path]) -> None:
    here, folder = unfinished
    shutil.rmtree(folder / "best")
    with pytest.raises(StoreError, match=rf"had an encoder.* Delete {folder} to"):
        clocs.pretrain("cmsc-synthetic", here)
    assert not (folder / "best").exists()


def same_end(run: str, whole: Path) -> None:
    """Check that a run has the metrics, encoder and checkpoints of a run that was never stopped."""
    names = ["metrics.jsonl", "best/config.json", "best/model.safetensors"]
    names += [f"checkpoints/{path.name}" for path in (whole / "checkpoints").iterdir()]
    for name in names:
        assert (Path(run) / name).read_bytes() == (whole / name).read_bytes()


@pytest.fixture(scope="module")
def undisturbed(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same run, never stopped."""
    here = [f"store={store}", f"runs={tmp_path_factory.mktemp('whole')}", *HALF]
    return Path(clocs.pretrain("cmsc-synthetic", here)["run"])


@pytest.mark.parametrize("name", ["checkpoints/step-00000018.safetensors", "metrics.jsonl"])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(
    name: str, unfinished: tuple[list[str], Path], undisturbed: Path
) -> None:
    """The run continues from the one before it, and finds what one that was never stopped finds."""
    here, folder = unfinished
    assert [path.stem for path in sorted((folder / "checkpoints").glob("*.json"))] == ["step-00000017", "step-00000018"]
    damaged = folder / name
    damaged.write_bytes(damaged.read_bytes()[:-9])
    taken = folder / "checkpoints" / "step-00000017.safetensors"
    with pytest.warns(UserWarning, match=rf"^{damaged}: .* continues after step 17 instead, from {taken}"):
        again = clocs.pretrain("cmsc-synthetic", here)
    assert again["resumed_from"] == 17
    (line,) = [json.loads(line) for line in (folder / "resumes.jsonl").read_text().splitlines()]
    assert (line["step"], line["checkpoint"], line["why"]) == (17, taken.stem, "the newest undamaged checkpoint")
    assert [message.partition(": ")[0] for message in line["damaged"]] == [str(damaged)]
    same_end(again["run"], undisturbed)


def test_a_run_with_only_damaged_checkpoints_is_refused_and_the_advice_works(
    unfinished: tuple[list[str], Path], undisturbed: Path
) -> None:
    """Without checkpoints the run begins again, and finds what one that was never stopped finds."""
    here, folder = unfinished
    for path in (folder / "checkpoints").glob("*.json"):
        path.write_bytes(path.read_bytes()[:-9])
    both = rf"^{folder}/checkpoints/step-00000018\.json: .*; {folder}/checkpoints/step-00000017\.json: "
    with pytest.raises(IntegrityError, match=rf"{both}.*delete {folder / 'checkpoints'}, so"):
        clocs.pretrain("cmsc-synthetic", here)
    shutil.rmtree(folder / "checkpoints")
    again = clocs.pretrain("cmsc-synthetic", here)
    assert again["resumed_from"] is None
    same_end(again["run"], undisturbed)


def test_checkpoints_may_come_more_often_as_a_run_goes_on(unfinished: tuple[list[str], Path]) -> None:
    here, folder = unfinished
    again = clocs.pretrain("cmsc-synthetic", [*here, "checkpoint_every=3"])
    assert (Path(again["run"]), again["steps"]) == (folder, 20)


def test_one_process_trains_a_run_at_a_time(store: Path, tmp_path: Path) -> None:
    """The second is refused, whatever it is; once the first has ended, the run goes on."""
    here = [f"store={store}", f"runs={tmp_path}", "max_steps=3", "batch_size=32"]
    refusals: list[object] = []

    def again(known: dict[str, Any]) -> None:
        if not refusals:
            with pytest.raises(StoreError, match=f"Another process is writing to {tmp_path}/cmsc-synthetic-") as found:
                clocs.pretrain("cmsc-synthetic", here)
            refusals.append(found)
            clocs.pretrain("cmsc-synthetic", [*here, "seed=1"])  # another run within this one
            raise StoppedError

    with pytest.raises(StoppedError):
        clocs.pretrain("cmsc-synthetic", here, progress=again)
    done = clocs.pretrain("cmsc-synthetic", here)
    assert [line["step"] for line in finished_epochs(Path(done["run"]))] == [3]


def test_fabric_is_imported_only_for_training() -> None:
    """It imports torch's compiler, which takes longer than torch itself."""
    heavy = "{'lightning_fabric', 'torch._dynamo'}"
    code = f"import sys, clocs.experiments.grid, reproduction.cells; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
