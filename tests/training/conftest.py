"""A small synthetic store with a split, made once; and real processes that train on it."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.training.config import PretrainConfig
from clocs.training.data import TrainingData, TrainingStore, build_training_data, open_training_stores
from clocs.training.initialization import build_initial_method
from tests import forked

ROOT = Path(__file__).resolve().parents[2]
Driver = Callable[..., subprocess.CompletedProcess[str]]


def data_of(config: PretrainConfig, parts: tuple[TrainingStore, ...] | None = None) -> TrainingData:
    """Return the training data of a config."""
    parts = open_training_stores(config) if parts is None else parts
    return build_training_data(config, build_initial_method(config, parts), parts)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two hundred recordings of a hundred patients with four leads."""
    folder = tmp_path_factory.mktemp("training") / "store"
    made = clocs.ingest("synthetic", None, folder, options={"num_records": 200, "leads": 4})
    clocs.split(made)
    return folder


@pytest.fixture(scope="session")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 160 recordings of eighty patients with twelve leads."""
    folder = tmp_path_factory.mktemp("twelve") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 160, "leads": 12}))
    return folder


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 160 recordings with one lead, of other patients."""
    folder = tmp_path_factory.mktemp("other") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 160, "leads": 1, "seed": 5}))
    return folder


@pytest.fixture(scope="session")
def chapman_slice(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of the first eight hundred recordings of the real Chapman dataset."""
    folder = tmp_path_factory.mktemp("chapman") / "store"
    whole = clocs.DATASETS.get("chapman")
    some = replace(whole, entries=lambda *given: itertools.islice(whole.entries(*given), 800))
    clocs.split(clocs.ingest(some, real_data / "chapman.zip", folder))
    return folder


@pytest.fixture
def drive(store: Path, tmp_path: Path) -> Driver:
    """Run ``driver.py`` in processes of its own: ``drive("cmsc", "steps=30", ranks=2, stop_at=10)``."""

    def run(method: str, *overrides: str, ranks: int = 1, check: bool = True, **extra: Any) -> Any:
        settings = [f"store={store}", f"runs={tmp_path / 'runs'}", f"devices={ranks}", "onnx=false", *overrides]
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
        script = ["-m", "tests.training.driver", f"{method}-synthetic", json.dumps(extra), *settings]
        done = forked.run(*launch, *script, cwd=ROOT)
        assert not check or done.returncode == 0, done.stderr[-3000:]
        return done

    return run
