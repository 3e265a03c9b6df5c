"""Fixtures: a small synthetic store, and an encoder that was trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clocs.datasets import DATASETS
from clocs.store.ingest import ingest
from clocs.store.splits import make_split
from clocs.store.store import Store
from clocs.training.pretrain import pretrain


def make_store(folder: Path, classes: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> Store:
    """Return a store of synthetic recordings, two a patient, with a default split; ``classes`` replace the rhythms."""
    dataset = DATASETS.get("synthetic")
    dataset = dataset if classes is None else replace(dataset, classes=classes)
    made = ingest(dataset, None, folder, options={"num_records": 160, "leads": 4, **options})
    make_split(made)
    return made


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A hundred and sixty recordings of eighty patients; the split ``other`` has another seed."""
    made = make_store(tmp_path_factory.mktemp("evaluation") / "store")
    make_split(made, "other", seed=1)
    return made


@pytest.fixture(scope="session")
def trained(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best encoder of a short CMSC run on the split ``default``."""
    here = [f"store={store.folder}", f"runs={tmp_path_factory.mktemp('runs')}"]
    return Path(pretrain("cmsc-synthetic", [*here, "max_epochs=1", "batch_size=32"])["best"])
