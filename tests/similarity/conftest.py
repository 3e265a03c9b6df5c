"""Fixtures of the similarity tests: a synthetic store with its own encoder, and a part of real data."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

import clocs
from clocs.store.store import Store
from clocs.training.pretrain import pretrain


@pytest.fixture(scope="session")
def judged_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Four hundred recordings of two hundred patients, four leads, with the splits ``default`` and ``other``."""
    folder = tmp_path_factory.mktemp("judged") / "store"
    made = clocs.ingest("synthetic", None, folder, options={"num_records": 400, "leads": 4})
    clocs.split(made)
    clocs.split(made, "other", seed=1)
    return made


@pytest.fixture(scope="session")
def judged_encoder(judged_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best encoder of a short CMSC run on the split ``default``."""
    here = [f"store={judged_store.folder}", f"runs={tmp_path_factory.mktemp('runs')}"]
    return Path(pretrain("cmsc-synthetic", [*here, "max_epochs=1", "batch_size=32"])["best"])


@pytest.fixture(scope="session")
def chapman_part(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The first three hundred recordings of the real Chapman set; one recording a patient."""
    whole = clocs.DATASETS.get("chapman")
    some = replace(whole, entries=lambda *given: itertools.islice(whole.entries(*given), 300))
    made = clocs.ingest(some, real_data / "chapman.zip", tmp_path_factory.mktemp("chapman") / "store")
    clocs.split(made)
    return made
