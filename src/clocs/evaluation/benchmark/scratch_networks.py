"""Networks that a benchmark trains from scratch, as supervised baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from clocs.core.options import option_names
from clocs.core.seeds import derived_seed
from clocs.encoders import ENCODERS, build_encoder
from clocs.evaluation.benchmark.embedders import EncoderEmbedder
from clocs.evaluation.benchmark.recording_training import TrainingOptions
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store

SCRATCH: Final = "scratch:"
"""Prefix of the name of a network that is trained from scratch, as in ``scratch:resnet``."""
CROP_SECONDS, CROP_RATE = 2.5, 100.0
"""Length and sampling rate of the frames."""


@dataclass(frozen=True)
class ScratchNetwork:
    """A registered encoder for training from scratch."""

    options: Mapping[str, Any]
    """Options of the encoder that differ from its defaults."""
    training: TrainingOptions
    """Options of its training."""
    needs_all_labels: bool = False
    """True for a network that is too slow to be trained on every draw of labels: it is trained on all of them alone."""
    note: str = ""
    """Note after its name in tables."""


TRAINING: Final = TrainingOptions(max_epochs=40, learning_rate=3e-3)
NETWORKS: Final = {
    "resnet": ScratchNetwork({"width": 48, "stem_kernel_size": 7, "stem_stride": 1, "dropout": 0.1}, TRAINING),
    "s4d": ScratchNetwork(
        {"width": 128, "stem_kernel_size": 5, "stem_stride": 2, "dropout": 0.1},
        TrainingOptions(max_epochs=20, learning_rate=2e-3),
        needs_all_labels=True,
        note=", small",
    ),
}
"""Networks for frames of 100 Hz. Other registered encoders have their defaults."""


def find_network(name: str) -> ScratchNetwork:
    """Return the options of a network.

    Args:
        name: Name of a registered encoder, with or without the prefix.

    Raises:
        ConfigError: There is no such encoder.

    Example:
        >>> find_network("scratch:resnet").options["width"]
        48
    """
    network = name.removeprefix(SCRATCH)
    ENCODERS.get(network)
    return NETWORKS.get(network, ScratchNetwork({}, TRAINING))


def scratch_embedder(name: str, store: Store, *, seed: int = 0) -> EncoderEmbedder:
    """Return a registered encoder with random weights, which takes crops of all leads of a store.

    Args:
        name: Name of a registered encoder, with or without the prefix.
        store: The store, whose most common leads are the channels.
        seed: Seed of the weights.

    Raises:
        ConfigError: There is no such encoder.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4, "leads": 2})
        >>> scratch_embedder("scratch:s4d", store).name
        'scratch:s4d, small'
    """
    network, found = name.removeprefix(SCRATCH), find_network(name)
    policy = FramePolicy(num_samples=round(CROP_SECONDS * CROP_RATE), sampling_rate=CROP_RATE)
    leads = Frames(store, policy, all_leads=True).leads
    options = {**found.options, "in_channels": len(leads)}
    if "num_samples" in option_names(ENCODERS.get(network)):
        options["num_samples"] = policy.num_samples
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "from scratch"))
        encoder = build_encoder(network, options)
    return EncoderEmbedder(f"{SCRATCH}{network}{found.note}", encoder, policy.model_copy(update={"leads": leads}))
