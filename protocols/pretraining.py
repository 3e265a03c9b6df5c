"""Pre-training runs on the training parts of the common CPSC 2018 split and of PTB-XL's published folds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.column_splits import split_from_table, split_published
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.pretrain import pretrain

PAPER_LEADS: Final = ("II", "V2", "aVL", "aVR")
COMMON_SPLIT, PTBXL_SPLIT = "common", "folds"
SPLITS: Final = {"physionet2020": COMMON_SPLIT, "ptbxl": PTBXL_SPLIT}
"""Split of each store: the common record lists of CPSC 2018, and the published folds of PTB-XL."""
PAPER: Final[dict[str, Any]] = {"encoder": {"name": "cnn"}, "leads": PAPER_LEADS, "max_steps": 20_000}
"""The paper's network, loss and optimizer, on its four leads."""
EQUAL_WEIGHTS: Final[dict[str, Any]] = {**PAPER, "method": {"name": "cmsc", "off_diagonals": "equal"}}
"""The same, with pairs of one patient weighted as all other pairs."""
RESNET: Final[dict[str, Any]] = {
    "encoder": {"name": "resnet", "in_channels": 12},
    "leads": STANDARD_LEADS,
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "warmup_steps": 100,
    "max_steps": 1_200,
    "patience": 400,
}
"""The paper's loss with our residual network on twelve leads at once."""


@dataclass(frozen=True)
class Pretraining:
    """A pre-training run: what is trained, and on which store."""

    dataset: str
    title: str
    changes: dict[str, Any]

    def config(self, stores: Path, runs: Path) -> dict[str, Any]:
        """Return the config for :func:`clocs.pretrain`. Frames are scaled to 0..1, as the paper and the copies do."""
        return {
            "base": f"cmsc-{self.dataset}",
            "store": str(stores / self.dataset),
            "split": SPLITS[self.dataset],
            "frames": {"normalization": "minmax"},
            "runs": str(runs),
            "onnx": False,
            **self.changes,
        }


PRETRAININGS: Final = {
    "paper-cpsc": Pretraining("physionet2020", "paper's network and loss, four leads", PAPER),
    "paper-ptbxl": Pretraining("ptbxl", "paper's network and loss, four leads", PAPER),
    "resnet-cpsc": Pretraining("physionet2020", "CMSC loss, our ResNet, twelve leads", RESNET),
    "resnet-ptbxl": Pretraining("ptbxl", "CMSC loss, our ResNet, twelve leads", RESNET),
    "equal-cpsc": Pretraining("physionet2020", "paper's network, equal weights, four leads", EQUAL_WEIGHTS),
}
"""Runs by name."""


def find_pretraining(name: str) -> Pretraining:
    """Return the run of a name.

    Raises:
        ConfigError: There is no such run.
    """
    if name not in PRETRAININGS:
        raise ConfigError(f"No pre-training '{name}'. Choose from {', '.join(PRETRAININGS)}.")
    return PRETRAININGS[name]


def open_split(stores: Path, dataset: str, common_split: Path | None = None) -> tuple[Store, Split]:
    """Open a store and its split, which is made if it does not exist.

    Args:
        stores: Folder of the stores.
        dataset: Name of the store.
        common_split: Table of the common CPSC 2018 split (``record_id``, ``part``), if it must be made.

    Raises:
        ConfigError: The split must be made, and its table is not passed.
    """
    store, name = open_store(stores / dataset), SPLITS[dataset]
    if not (stores / dataset / "splits" / f"{name}.json").exists():
        if name == PTBXL_SPLIT:
            return store, split_published(store, name)
        if common_split is None:
            raise ConfigError(f"{stores / dataset} has no split '{name}'. Pass its table by --common-split.")
        return store, split_from_table(store, common_split, name=name, allow_duplicates=True)
    return store, store.split(name)


def run_pretraining(name: str, stores: Path, runs: Path) -> dict[str, Any]:
    """Run a pre-training, or continue it after an interruption."""
    return pretrain(find_pretraining(name).config(stores, runs / name))


@dataclass(frozen=True)
class Progress:
    """State of a pre-training."""

    encoder: Path
    """Folder of the best encoder so far."""
    steps: int
    core_hours: float
    is_finished: bool

    @property
    def about(self) -> dict[str, Any]:
        """Return steps, core-hours and state for a row of results."""
        return {"steps": self.steps, "core_hours": round(self.core_hours, 2), "is_finished": self.is_finished}


def find_progress(name: str, runs: Path) -> Progress | None:
    """Return how far a pre-training has come; None if it has no encoder yet."""
    for folder in (runs / name).glob("cmsc-*"):
        if (folder / "best" / "model.safetensors").exists():
            lines = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()]
            hours = sum(line["processor"] for line in lines) / 3600
            return Progress(folder / "best", lines[-1]["step"], hours, (folder / "result.json").exists())
    return None
