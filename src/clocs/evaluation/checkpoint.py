"""The encoder that is evaluated: from a run, a folder, the package, or with random weights."""

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
from clocs.encoders.encoder import describe_encoder, is_registered, non_default_encoder_options
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.training.devices import place_module
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.seen_recordings import training_hashes
from clocs.training.shipped import find_encoder_folder

RANDOM = "random"
"""Checkpoint name of the paper's network with random weights."""


@dataclass(frozen=True)
class EncoderCheckpoint:
    """An encoder with the content of its config.json."""

    module: Encoder
    """The encoder, in eval mode."""
    about: dict[str, Any]
    """Content of config.json."""
    folder: Path | None
    """Folder of the encoder. None: random weights."""
    label: str
    """Method that trained it, for names of runs."""

    @property
    def identity(self) -> Any:
        """Values that identify the encoder: hash of the weights, or seed of random ones, and changed options."""
        encoder = self.about["encoder"]
        name, options = encoder["name"], encoder["options"]
        changed = non_default_encoder_options(name, options) if is_registered(encoder) else options
        source = (
            {"random_seed": encoder["random_seed"]}
            if self.folder is None
            else {"weights": self.about["weights_sha256"]}
        )
        return {**source, "encoder": {"name": name, **changed}}

    def describe(self) -> dict[str, Any]:
        """Return method, training and encoder, for a result."""
        training = self.about.get("training", {})
        method = training.get("method", {}).get("name", RANDOM)
        keys = {"encoder", "epoch", "validation_loss"} & self.about.keys()
        others = {key: self.about[key] for key in sorted(keys)}
        return {"method": method, "training": training, **others}

    def training_data(self, stores: Sequence[Store]) -> list[tuple[Store, Split]]:
        """Return each store with the split of training.

        Args:
            stores: All stores that the encoder was trained with, in the same order.

        Raises:
            ConfigError: The stores or their splits differ from those of training.
        """
        if self.folder is None:
            raise ConfigError("random weights have no training data. Pass a run or an encoder.")
        training = self.about["training"]
        pairs = [(store, store.split(training["split"])) for store in stores]
        if [(store.sha256, split.sha256) for store, split in pairs] != training_hashes(self.about):
            raise ConfigError(
                f"Stores or splits differ from those of training. Pass all stores that the encoder was trained with, "
                f"in their order: {training['dataset']}."
            )
        return pairs


def load_encoder_checkpoint(
    checkpoint: str | os.PathLike[str], store: Store, seed: int = 0, device: str | None = None
) -> EncoderCheckpoint:
    """Load an encoder for evaluation.

    Args:
        checkpoint: Folder of a run or of an encoder, name of a shipped encoder, or ``random``.
        store: The store that it is evaluated on, which decides the frame length of random weights.
        seed: Seed of random weights.
        device: Torch device that runs the encoder. Default: the CPU.

    Raises:
        ConfigError: There is no such encoder or device.
    """
    if os.fspath(checkpoint) == RANDOM:
        return _random_encoder(store, seed, device)
    folder = find_encoder_folder(checkpoint)
    module, about = load_encoder_folder(folder)
    label = str(about.get("training", {}).get("method", {}).get("name", "encoder"))
    return EncoderCheckpoint(place_module(module, device), about, folder, label)


def _random_encoder(store: Store, seed: int, device: str | None) -> EncoderCheckpoint:
    """Return the initial network of CMSC, for the paper's segments if the dataset has them."""
    name = "segments" if "segments" in store.manifest.dataset["frame_policies"] else "evaluation"
    policy = store.frame_policy(name)
    torch.manual_seed(derived_seed(seed, "weights"))
    encoder = CNN(num_samples=policy.num_samples)
    about = {
        "encoder": {**describe_encoder(encoder), "random_seed": seed},
        "input": {"sampling_rate": policy.sampling_rate, "policy": policy.model_dump(mode="json")},
    }
    return EncoderCheckpoint(place_module(encoder.eval(), device), about, None, RANDOM)
