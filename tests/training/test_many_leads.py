"""Encoders of twelve leads: training with masks, ranks, resuming, fine-tuning and what comes after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import clocs
from clocs import encoders, methods
from clocs.core.errors import ConfigError
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.store import Store
from clocs.training.config_resolution import resolve_config
from clocs.training.encoder_module import load_encoder_folder
from tests.training.conftest import Driver, data_of
from tests.training.test_resume import content

JOINT = (
    "encoder={name: resnet, in_channels: 12, embedding_dim: 16, width: 4, depth: 2}",
    f"leads={','.join(STANDARD_LEADS)}",
    "batch_size=32",
)
PATCHES = (
    "encoder={name: patch_transformer, in_channels: 12, patch_size: 125, width: 16, embedding_dim: 16, depth: 2, "
    "num_heads: 2, head: none}"
)
DROPPING = "method.augmentations=[lead_dropout]"
DRAWN = ("method.augmentations=[random_leads]", "method.positions=4")


def lacking(folder: Path) -> Store:
    """Return a store of sixty recordings of twelve leads, where every third lacks V4."""
    rng = np.random.default_rng(0)
    signals = rng.normal(0, 0.2, (60, 8, 5000)).cumsum(axis=-1) * 0.05
    signals[::3, 5] = np.nan
    table = {"patient_id": [str(number // 2) for number in range(60)]}
    leads = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
    made = Store.from_arrays(
        folder, signals, sampling_rate=500, leads=leads, table=table, gate=clocs.signals.quality.GATE_OFF
    )
    clocs.split(made)
    return made


def test_the_views_of_a_batch_have_twelve_channels_and_a_mask_only_where_leads_may_be_missing(twelve: Path) -> None:
    items = np.arange(8)
    config = resolve_config("cmsc-synthetic", [f"store={twelve}", *JOINT])
    plain = data_of(config).train.make(items, 0, "train", 0, 0)
    assert plain["views"].shape == (8, 2, 12, 2500)
    assert "lead_mask" not in plain
    dropped = data_of(resolve_config("cmsc-synthetic", [f"store={twelve}", *JOINT, DROPPING])).train
    batch = dropped.make(items, 0, "train", 0, 0)
    mask = batch["lead_mask"]
    assert mask.shape == (8, 2, 12)
    assert 0 < int((~mask).sum()) < mask.numel()
    assert not batch["views"][~mask].any()
    assert bool((batch["views"][mask] != 0).any(-1).all())
    again = dropped.make(items[:16], 0, "train", 0, 0)
    assert torch.equal(again["lead_mask"], mask)


def test_recordings_that_lack_a_lead_take_part_where_the_policy_allows_it(tmp_path: Path) -> None:
    store = lacking(tmp_path / "store")
    here = [f"store={store.folder}", f"runs={tmp_path / 'runs'}", *JOINT, "batch_size=16", "max_epochs=1"]
    without = data_of(resolve_config("cmsc-synthetic", [*here, "batch_size=8"]))
    allowed = data_of(resolve_config("cmsc-synthetic", [*here, "frames.allow_missing_leads=true"]))
    assert len(allowed.train) > len(without.train)
    batch = allowed.train.make(np.arange(len(allowed.train)), 0, "train", 0, 0)
    absent = ~batch["lead_mask"][:, 0]
    assert set(absent.nonzero()[:, 1].tolist()) == {STANDARD_LEADS.index("V4")}
    assert clocs.pretrain("cmsc-synthetic", [*here, "frames.allow_missing_leads=true"])["epochs"] == 1


def test_another_number_of_leads_than_channels_is_refused(twelve: Path, tmp_path: Path) -> None:
    here = [f"store={twelve}", f"runs={tmp_path}", *JOINT]
    with pytest.raises(ConfigError, match=r"encoder.in_channels=12, but frames of .* have 2 lead\(s\): I, V1"):
        clocs.pretrain("cmsc-synthetic", [*here, "leads=I,V1"])
    with pytest.raises(ConfigError, match="takes each lead as a view"):
        clocs.pretrain("cmlc-synthetic", here)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("cmsc", (DROPPING,)),
        pytest.param("visible_tokens", (DROPPING,), marks=pytest.mark.slow),
        pytest.param("mae", (DROPPING, PATCHES), marks=pytest.mark.slow),
        pytest.param("jepa", (DROPPING, PATCHES), marks=pytest.mark.slow),
        pytest.param("vicreg", (DROPPING,), marks=pytest.mark.slow),
        pytest.param("cpc", DRAWN, marks=pytest.mark.slow),
    ],
)
def test_two_ranks_have_the_loss_and_gradients_of_one(
    method: str, more: tuple[str, ...], drive: Driver, twelve: Path, tmp_path: Path
) -> None:
    """Float64, dropout 0; of ``visible_tokens`` and ``cpc`` the outputs are a dictionary; masks or times are drawn."""
    found = []
    for ranks in (1, 2):
        path = tmp_path / f"{ranks}.safetensors"
        settings = (f"store={twelve}", *JOINT, *more, "precision=64-true", f"runs={tmp_path / str(ranks)}")
        drive(method, *settings, ranks=ranks, gradients=str(path))
        found.append(load_file(path))
    one, two = found
    assert one.keys() == two.keys()
    assert len(one) > 10
    for name, value in one.items():
        difference = float((two[name] - value).abs().max())
        assert difference <= 1e-10 * max(1.0, float(value.abs().max())), f"{name} differs by {difference:.1e}"


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("visible_tokens", ()),
        pytest.param("cmsc", (), marks=pytest.mark.slow),
        pytest.param("mae", (PATCHES,), marks=pytest.mark.slow),
        pytest.param("jepa", (PATCHES, "method.decay=0.9"), marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_is_continued_bit_for_bit(
    method: str, more: tuple[str, ...], drive: Driver, twelve: Path, tmp_path: Path
) -> None:
    settings = (f"store={twelve}", *JOINT, DROPPING, *more, "max_steps=12", "checkpoint_every=3")
    drive(method, *settings, f"runs={tmp_path / 'whole'}")
    assert drive(method, *settings, stop_at=7, check=False).returncode == -9
    drive(method, *settings)
    assert content(tmp_path / "runs") == content(tmp_path / "whole")


@pytest.fixture(scope="module")
def trained(twelve: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return an encoder of several leads, trained with lead dropout."""
    runs = tmp_path_factory.mktemp("joint")
    return clocs.pretrain("cmsc-synthetic", [f"store={twelve}", f"runs={runs}", *JOINT, DROPPING, "max_epochs=3"])


def test_a_joint_encoder_learns_and_is_probed_and_fine_tuned(
    trained: dict[str, Any], twelve: Path, tmp_path: Path
) -> None:
    encoder, about = load_encoder_folder(Path(trained["best"]))
    assert (encoder.in_channels, about["input"]["lead_dropout"], tuple(about["input"]["leads"])) == (
        12,
        True,
        STANDARD_LEADS,
    )
    config = clocs.ProbeConfig(representation="frames", label_fraction=1.0)
    probed = clocs.probe(trained["best"], twelve, config, runs=tmp_path)
    recordings = int(clocs.open_store(twelve).split().mask("test").sum())
    assert probed["rows"]["test"] == 2 * recordings, "a row a frame, not a lead"
    assert probed["test"]["recording"]["auc"]["value"] > 0.6
    tuned = clocs.finetune(
        trained["best"],
        twelve,
        clocs.FinetuneConfig(label_fraction=1.0, max_epochs=2, batch_size=32, learning_rate=1e-3),
        runs=tmp_path,
    )
    assert tuned["test"]["recording"]["rows"] == recordings


def test_a_method_registered_in_a_script_trains_by_its_name(twelve: Path, tmp_path: Path) -> None:
    """As in a notebook: the class is defined and registered, and a config names it."""
    script = {"__name__": "__main__"}
    exec(  # what a notebook cell does
        """
from clocs import methods

@methods.register("two_copies")
class TwoCopies(methods.SimCLR):
    \"\"\"SimCLR under another name.\"\"\"
""",
        script,
    )
    here = [f"store={twelve}", f"runs={tmp_path}", "batch_size=16", "max_steps=1", "leads=II"]
    assert clocs.pretrain("two_copies-synthetic", here)["method"] == "two_copies"


def test_a_method_object_trains_from_the_weights_it_has_and_is_the_same_run_again(twelve: Path, tmp_path: Path) -> None:
    def made() -> methods.CMSC:
        torch.manual_seed(7)
        return methods.CMSC(encoders.ResNet(in_channels=2, embedding_dim=8, width=24, depth=1))

    settings: dict[str, Any] = {"leads": "I,V1", "batch_size": 16, "max_steps": 2, "runs": tmp_path}
    first = clocs.pretrain(made(), clocs.open_store(twelve), **settings)
    assert clocs.pretrain(made(), twelve, **settings)["already_finished"]
    torch.manual_seed(8)
    other = methods.CMSC(encoders.ResNet(in_channels=2, embedding_dim=8, width=24, depth=1))
    assert clocs.pretrain(other, twelve, **settings)["run"] != first["run"], "other initial weights"
    start = clocs.pretrain(made(), twelve, **{**settings, "max_epochs": 0, "max_steps": None})
    begun = load_encoder_folder(Path(start["best"]))[0].state_dict()
    assert all(torch.equal(value, begun[name]) for name, value in made().encoder.state_dict().items())
    with pytest.raises(ConfigError, match="pass the store to train on"):
        clocs.pretrain(made())  # type: ignore[call-overload]


def test_a_network_that_is_not_registered_trains_under_a_name_and_is_loaded_by_passing_it(
    twelve: Path, tmp_path: Path
) -> None:
    def network() -> torch.nn.Module:
        torch.manual_seed(0)
        mean = (torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten())
        return torch.nn.Sequential(torch.nn.Conv1d(2, 8, 50, 25), torch.nn.ReLU(), *mean, torch.nn.Linear(8, 4))

    def method() -> methods.SimCLR:
        return methods.SimCLR(encoders.wrap(network(), in_channels=2, embedding_dim=4))

    settings: dict[str, Any] = {"leads": "I,V1", "batch_size": 16, "max_steps": 2, "runs": tmp_path}
    with pytest.raises(ConfigError, match=r"not registered\. Pass name="):
        clocs.pretrain(method(), twelve, **settings)
    best = clocs.pretrain(method(), twelve, name="mine", onnx=True, **settings)["best"]
    encoder = clocs.load_encoder(best, module=network())
    assert encoder.about["encoder"]["name"] == "mine"
    recording = clocs.open_store(twelve).recording(0)
    made = encoder.embed(recording)
    truth = load_encoder_folder(Path(best), network())[0]
    assert made.values.shape == (2, 4)
    assert encoder.runtime == "onnxruntime"
    with torch.no_grad():
        frames = torch.from_numpy(
            clocs.FrameDataset(twelve, leads=("I", "V1"), seconds=5).batch([0, 1])["signal"].numpy()
        )
        expected = truth(frames[:, 0])
    np.testing.assert_allclose(made.values, expected.numpy(), atol=1e-4)


def test_a_shipped_encoder_is_fine_tuned_in_a_plain_loop(twelve: Path) -> None:
    """Plain PyTorch: a dataset, a loader, a module, an optimizer."""
    torch.manual_seed(0)
    encoder = clocs.load_encoder("cmsc-physionet2020").module.train()
    assert isinstance(encoder, encoders.Encoder)
    dataset = clocs.FrameDataset(twelve, split="default", part="train", policy="evaluation")
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True)
    head = torch.nn.Linear(encoder.embedding_dim, len(dataset.classes))
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-3)
    before = [value.detach().clone() for value in encoder.parameters()]
    losses = []
    for _, batch in zip(range(12), loader, strict=False):
        loss = torch.nn.functional.cross_entropy(head(encoder(batch["signal"][:, 0])), batch["target"].float())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-3:]) < sum(losses[:3])
    assert all(not torch.equal(old, new) for old, new in zip(before, encoder.parameters(), strict=True))
