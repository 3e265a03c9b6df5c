"""Checkpoints: which is chosen, and what is kept. Encoders' folders: one that is none differs from a damaged one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.encoders import PCAEncoder, ResNet, build_encoder, wrap
from clocs.encoders.encoder import describe_encoder, parse_encoder
from clocs.training.checkpoint import load_checkpoint, newest_undamaged, save_checkpoint
from clocs.training.encoder_module import load_encoder_folder, load_head, save_encoder
from clocs.training.runs import Run

OPTIONS = parse_encoder("cnn", {"num_samples": 400, "embedding_dim": 8})
ABOUT = {"format": "clocs-encoder-2", "encoder": {"name": "cnn", "options": OPTIONS}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    begun = Run(tmp_path, "cmsc-example", {"method": {"name": "cmsc"}}, {})
    begun.begin()
    return begun


@pytest.fixture
def encoder() -> nn.Module:
    return build_encoder("cnn", OPTIONS)


class Saving:
    """A tiny model of a run that is saved after every few steps."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def save(self, *steps: int) -> None:
        """Take a step, log a line and write a checkpoint, for each step."""
        for step in steps:
            self.model(torch.ones(1, 2)).sum().backward()
            self.optimizer.step()
            self.run.metrics.append(step=step)
            metrics = self.run.metrics.sync()
            save_checkpoint(self.run.checkpoints, step, self.model, self.optimizer, {"at": step}, metrics)

    def chosen(self) -> tuple[int, tuple[str, ...]]:
        found = newest_undamaged(self.run.checkpoints, self.run.metrics.path)
        assert found is not None
        assert found.state == {"at": found.step}
        return found.step, found.damaged

    @property
    def files(self) -> list[str]:
        return sorted(os.listdir(self.run.checkpoints))


@pytest.fixture
def saving(run: Run) -> Saving:
    return Saving(run)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def test_two_checkpoints_are_kept_and_the_newest_is_chosen(saving: Saving) -> None:
    assert newest_undamaged(saving.run.checkpoints, saving.run.metrics.path) is None
    saving.save(3)
    assert saving.chosen() == (3, ())
    saving.save(6, 9)
    assert saving.files == [f"step-0000000{step}.{ending}" for step in (6, 9) for ending in ("json", "safetensors")]
    assert saving.chosen() == (9, ())


@pytest.mark.parametrize("name", ["step-00000006.json", "step-00000006.safetensors"])
@pytest.mark.parametrize("damage", [cut_short, Path.unlink, lambda path: path.write_bytes(b"")])
def test_the_undamaged_checkpoint_of_two_is_chosen(name: str, damage: object, saving: Saving) -> None:
    saving.save(3, 6)
    path = saving.run.checkpoints / name
    assert callable(damage)
    damage(path)
    step, damaged = saving.chosen()
    assert step == 3
    gone = not path.exists() and path.suffix == ".json"  # then there is no such checkpoint
    assert [message.partition(": ")[0] for message in damaged] == ([] if gone else [str(path)])


def test_two_damaged_checkpoints_are_reported_with_advice(saving: Saving) -> None:
    saving.save(3, 6)
    folder = saving.run.checkpoints
    cut_short(folder / "step-00000006.json")
    (folder / "step-00000003.safetensors").unlink()
    with pytest.raises(
        IntegrityError, match=rf"^{folder}/step-00000006\.json: .*; {folder}/step-00000003\.safeten"
    ) as e:
        saving.chosen()
    assert f"or delete {folder}, so that the same command trains the run again from its start" in str(e.value)


def test_a_checkpoint_with_damaged_metrics_is_skipped(saving: Saving) -> None:
    saving.save(3, 6)
    metrics = saving.run.metrics.path
    first, second = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(first + second.replace(b"6", b"7"))
    assert saving.chosen() == (3, (f"{metrics}: its first 2 lines differ from their hash",))
    metrics.write_bytes(first.replace(b"3", b"4") + second)
    with pytest.raises(IntegrityError, match=rf"^{metrics}: its first 2 lines differ.*; {metrics}: its first 1 lines"):
        saving.chosen()


def test_after_a_damaged_checkpoint_the_one_before_is_kept(saving: Saving) -> None:
    saving.save(3, 9)
    cut_short(saving.run.checkpoints / "step-00000009.safetensors")
    (saving.run.checkpoints / "step-00000001.safetensors").touch()  # a power loss may bring back what was removed
    assert saving.chosen()[0] == 3
    found = newest_undamaged(saving.run.checkpoints, saving.run.metrics.path)
    assert found is not None
    load_checkpoint(found, saving.model, saving.optimizer)
    saving.run.rewind(found.metrics)
    saving.save(6)
    assert saving.files == [f"step-0000000{step}.{ending}" for step in (3, 6) for ending in ("json", "safetensors")]
    assert saving.chosen() == (6, ())


def test_a_changed_checkpoint_is_not_loaded(saving: Saving) -> None:
    saving.save(3)
    found = newest_undamaged(saving.run.checkpoints, saving.run.metrics.path)
    assert found is not None
    found.tensors.write_bytes(found.tensors.read_bytes()[:-4] + bytes(4))
    with pytest.raises(IntegrityError, match=rf"^{found.tensors}: content differs from its hash"):
        load_checkpoint(found, saving.model, saving.optimizer)


def test_the_folder_of_a_run_is_refused_with_the_name_of_its_encoder(run: Run, encoder: nn.Module) -> None:
    save_encoder(run.best, encoder, ABOUT)
    with pytest.raises(StoreError, match=rf"is the folder of a run\. .*{run.best}\.$") as found:
        load_encoder_folder(run.folder)
    assert not isinstance(found.value, IntegrityError)
    assert load_encoder_folder(run.best)[1]["encoder"] == ABOUT["encoder"]


def test_a_run_without_an_encoder_cannot_be_loaded(run: Run) -> None:
    with pytest.raises(StoreError, match=f"^{run.folder} is the folder of a run without an encoder. .*'best'"):
        load_encoder_folder(run.folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_truncated_encoder_is_damaged(name: str, tmp_path: Path, encoder: nn.Module) -> None:
    save_encoder(tmp_path, encoder, ABOUT)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match=rf"^{path}: .* Copy {tmp_path} again from its origin, or") as found:
        load_encoder_folder(tmp_path)
    assert "is a run's folder" not in str(found.value)


def test_the_config_names_no_head_that_is_not_saved(tmp_path: Path, encoder: nn.Module) -> None:
    save_encoder(tmp_path / "trained", encoder, ABOUT, head=nn.Linear(32, 2))
    _, about = load_encoder_folder(tmp_path / "trained")
    assert load_head(tmp_path / "trained", about).out_features == 2
    save_encoder(tmp_path / "published", encoder, about)
    with pytest.raises(StoreError, match="without a classifier") as found:
        load_head(tmp_path / "published", load_encoder_folder(tmp_path / "published")[1])
    assert not isinstance(found.value, IntegrityError)


class Mean(nn.Module):
    """A user's network that is not registered."""

    def __init__(self, in_channels: int = 2, embedding_dim: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, embedding_dim)

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        embeddings: torch.Tensor = self.linear(signals.mean(2))
        return embeddings


def test_an_encoder_that_is_not_registered_is_loaded_into_its_module(tmp_path: Path) -> None:
    trained = wrap(Mean(), in_channels=2, embedding_dim=3)
    save_encoder(tmp_path, trained, {"encoder": describe_encoder(trained)})
    with pytest.raises(
        StoreError, match=r"holds the encoder 'Mean', which is not registered. Pass its network: .*module="
    ):
        load_encoder_folder(tmp_path)
    signals = torch.randn(4, 2, 50)
    for module in (Mean(), wrap(Mean(), in_channels=2, embedding_dim=3)):
        loaded, about = load_encoder_folder(tmp_path, module=module)
        torch.testing.assert_close(loaded(signals), trained(signals), rtol=0, atol=0)
        assert about["encoder"]["name"] == "Mean"
        assert not loaded.training
    with pytest.raises(ConfigError, match="do not fit the module"):
        load_encoder_folder(tmp_path, module=Mean(embedding_dim=4))
    with pytest.raises(ConfigError, match=r"The module has in_channels=1 and embedding_dim=128, but .* needs 2 and 3"):
        load_encoder_folder(tmp_path, module=ResNet())


def test_pca_is_loaded_from_its_config(tmp_path: Path) -> None:
    encoder = PCAEncoder(ResNet(in_channels=2, depth=2), embedding_dim=4).eval()
    save_encoder(tmp_path, encoder, {"encoder": describe_encoder(encoder)})
    loaded, _ = load_encoder_folder(tmp_path)
    signals = torch.randn(4, 2, 500)
    torch.testing.assert_close(loaded(signals), encoder(signals), rtol=0, atol=0)
