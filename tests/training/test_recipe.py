"""The parts of a recipe stronger than the paper's, together: residual network, projection head, random pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clocs
from clocs.training.config_resolution import resolve_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.preview import preview_batch
from tests.training.conftest import Driver, data_of

PARTS = (
    "encoder={name: resnet, width: 4, depth: 2}",
    "method={name: cmsmlc, projection_hidden_dim: 32, view_choice: random_pair}",
    "method.augmentations=[baseline_wander, mask]",
    "batch_size=64",
)


def test_best_holds_the_encoder_without_its_projection(store: Path, tmp_path: Path) -> None:
    here = [f"store={store}", f"runs={tmp_path}", "max_steps=2", "schedule=cosine"]
    result = clocs.pretrain("cmsmlc-synthetic", [*here, *PARTS])
    best, (checkpoint,) = Path(result["best"]), Path(result["run"]).glob("checkpoints/*.safetensors")
    assert sorted(path.name for path in best.iterdir()) == ["config.json", "model.safetensors", "seen.npy"]
    encoder, about = load_encoder_folder(best)
    assert about["encoder"]["name"] == "resnet"
    weights = load_file(best / "model.safetensors")
    assert weights.keys() == encoder.state_dict().keys()
    assert not any("projection" in name for name in weights)
    assert any(name.startswith("model.projection.") for name in load_file(checkpoint))
    assert encoder(torch.randn(2, 1, 2500)).shape == (2, 128)


def test_random_pairs_do_not_depend_on_which_rank_holds_an_instance(store: Path) -> None:
    config = resolve_config("cmsmlc-synthetic", [f"store={store}", *PARTS])
    data = data_of(config)
    items = data.sampler.batch(0, 0)
    whole = data.train.make(items, 0, "train", 0, 0)["views"]
    shares = [data.train.make(items[at : at + 16], at, "train", 0, 0)["views"] for at in range(0, 64, 16)]
    assert whole.shape[:2] == (64, 2)
    assert torch.equal(torch.cat(shares), whole)
    assert not torch.equal(data.train.make(items, 0, "train", 0, 1)["views"], whole)


def test_a_preview_of_random_pairs_names_segments_without_originals(store: Path) -> None:
    views, _ = preview_batch(resolve_config("cmsmlc-synthetic", [f"store={store}", *PARTS]), instances=2)
    assert views.names == tuple(f"segment {number}: baseline_wander, mask" for number in (1, 2))
    assert views.offsets.tolist() == [0, 2500]
    assert views.original is None, "without its augmentations, the method would draw other leads"


@pytest.mark.slow
def test_two_ranks_have_the_gradients_of_one(drive: Driver, tmp_path: Path) -> None:
    """BatchNorm over (N, C, 1, L) of the network and over (N, H) of the head spans both ranks."""
    found = []
    for ranks in (1, 2):
        path = tmp_path / f"{ranks}.safetensors"
        drive("cmsmlc", *PARTS, "precision=64-true", f"runs={tmp_path / str(ranks)}", ranks=ranks, gradients=str(path))
        found.append(load_file(path))
    one, two = found
    assert one.keys() == two.keys()
    assert any(name.startswith("projection.") for name in one)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-10 * max(1.0, float(value.abs().max())))
