"""The encoder that is evaluated, wherever it comes from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.encoders import CNN, Encoder
from clocs.encoders.encoder import changed_encoder_options, describe_encoder, is_registered
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.seen_recordings import training_hashes
from clocs.training.shipped import find_encoder_folder

RANDOM = "random"
"""A checkpoint's name: the paper's network with weights nobody trained."""


@dataclass(frozen=True)
class EncoderCheckpoint:
    """An encoder, and what its config.json says."""

    module: Encoder
    about: dict[str, Any]
    folder: Path | None
    """None: random weights."""
    label: str
    """For names of runs."""

    @property
    def identity(self) -> Any:
        """What distinguishes this encoder from all others: its weights, or the seed of random ones, and its options."""
        encoder = self.about["encoder"]
        name, options = encoder["name"], encoder["options"]
        changed = changed_encoder_options(name, options) if is_registered(encoder) else options
        source = (
            {"random_seed": encoder["random_seed"]}
            if self.folder is None
            else {"weights": self.about["weights_sha256"]}
        )
        return {**source, "encoder": {"name": name, **changed}}

    def told(self) -> dict[str, Any]:
        """Where it comes from, for a result."""
        training = self.about.get("training", {})
        method = training.get("method", {}).get("name", RANDOM)
        told = {"method": method, "training": training}
        return told | {key: self.about[key] for key in ("encoder", "epoch", "validation_loss") if key in self.about}

    def sources(self, places: Sequence[Store]) -> list[tuple[Store, Split]]:
        """The stores with the split of training, if they are all those that trained it, in that order."""
        if self.folder is None:
            raise ConfigError("random weights were trained on nothing; name a run")
        told = self.about["training"]
        found = [(place, place.split(told["split"])) for place in places]
        if [(place.sha256, split.sha256) for place, split in found] != training_hashes(self.about):
            raise ConfigError(
                f"this takes all stores that the encoder was trained with, in their order ({told['dataset']}), and the "
                f"split of training; these are others"
            )
        return found


def load_encoder_checkpoint(checkpoint: str | os.PathLike[str], store: Store, seed: int = 0) -> EncoderCheckpoint:
    """From a run's folder, its ``best``, a shipped encoder's name, or ``random`` (then weights come from the seed)."""
    if os.fspath(checkpoint) == RANDOM:
        return _random(store, seed)
    folder = find_encoder_folder(checkpoint)
    module, about = load_encoder_folder(folder)
    return EncoderCheckpoint(
        module, about, folder, str(about.get("training", {}).get("method", {}).get("name", "encoder"))
    )


def _random(store: Store, seed: int) -> EncoderCheckpoint:
    """As CMSC would start: on the segments of the paper where a dataset has them."""
    purpose = "segments" if "segments" in store.manifest.dataset["frames"] else "evaluation"
    policy = store.frame_policy(purpose)
    torch.manual_seed(derived_seed(seed, "weights"))
    encoder = CNN(num_samples=policy.num_samples)
    about = {
        "encoder": {**describe_encoder(encoder), "random_seed": seed},
        "input": {"sampling_rate": policy.sampling_rate, "policy": policy.model_dump(mode="json")},
    }
    return EncoderCheckpoint(encoder.eval(), about, None, RANDOM)
