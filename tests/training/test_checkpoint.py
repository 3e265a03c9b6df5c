"""An encoder's folder: what is not one is told from one that is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from clocs.core.errors import IntegrityError, StoreError
from clocs.encoders import build_encoder
from clocs.encoders.encoder import parse_encoder
from clocs.training.checkpoint import load_encoder_folder, load_head, save_encoder
from clocs.training.runs import Run

OPTIONS = parse_encoder("cnn", {"samples": 400, "embedding": 8}).model_dump(mode="json")
ABOUT = {"format": "clocs-encoder-1", "encoder": {"name": "cnn", "options": OPTIONS}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    begun = Run(tmp_path, "cmsc-example", {"method": {"name": "cmsc"}})
    begun.begin()
    return begun


@pytest.fixture
def encoder() -> nn.Module:
    return build_encoder("cnn", OPTIONS)


def test_the_folder_of_a_run_is_refused_with_the_name_of_its_encoder(run: Run, encoder: nn.Module) -> None:
    save_encoder(run.best, encoder, ABOUT)
    with pytest.raises(StoreError, match=f"is a run's folder; .*name {run.best}$") as found:
        load_encoder_folder(run.folder)
    assert not isinstance(found.value, IntegrityError)
    assert load_encoder_folder(run.best)[1]["encoder"] == ABOUT["encoder"]


def test_a_run_that_has_no_encoder_is_refused_as_one(run: Run) -> None:
    with pytest.raises(StoreError, match=f"^{run.folder} is a run's folder without an encoder: .*'best'"):
        load_encoder_folder(run.folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_truncated_encoder_is_damaged(name: str, tmp_path: Path, encoder: nn.Module) -> None:
    save_encoder(tmp_path, encoder, ABOUT)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match=rf"^{path}: .* Copy {tmp_path} again from where it came, or") as found:
        load_encoder_folder(tmp_path)
    assert "is a run's folder" not in str(found.value)


def test_a_head_that_is_not_saved_is_not_spoken_of(tmp_path: Path, encoder: nn.Module) -> None:
    save_encoder(tmp_path / "trained", encoder, ABOUT, head=nn.Linear(32, 2))
    _, about = load_encoder_folder(tmp_path / "trained")
    assert load_head(tmp_path / "trained", about).out_features == 2
    save_encoder(tmp_path / "published", encoder, about)
    with pytest.raises(StoreError, match="without a classifier") as found:
        load_head(tmp_path / "published", load_encoder_folder(tmp_path / "published")[1])
    assert not isinstance(found.value, IntegrityError)
