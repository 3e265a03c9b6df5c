"""Fixtures: trained encoders, a real recording and classifiers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clocs.core.recording import Recording
from clocs.encoders import ResNet, build_encoder
from clocs.encoders.encoder import describe_encoder
from clocs.inference.classifier import (
    Classifier,
    ClassifierCard,
    ClassInfo,
    LeadSet,
    LinearWeights,
)
from clocs.inference.feature_space import FeatureSpace
from clocs.inference.frame_pooling import POOLING
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.reliability import ReliabilityBin
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder

LEADS = ("II", "V2", "aVL", "aVR")
POLICY = FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500, normalization="minmax", leads=LEADS)
EMBEDDING = 32
Maker = Callable[..., Path]


def about(policy: FramePolicy, unit: str = "mV", **options: Any) -> dict[str, Any]:
    """Return the content of config.json of a run's best encoder."""
    return {
        "format": "clocs-encoder-2",
        "encoder": {
            "name": "cnn",
            "options": {"embedding_dim": EMBEDDING, "in_channels": 1, "num_samples": policy.num_samples, **options},
        },
        "input": {
            "unit": unit,
            "sampling_rate": policy.sampling_rate,
            "num_samples": policy.num_samples,
            "leads": list(policy.leads),
            "normalization": policy.normalization,
            "policy": policy.model_dump(mode="json"),
        },
        "training": {"dataset": "chapman"},
        "licence": "CC BY 4.0",
    }


def make_encoder(
    folder: Path, policy: FramePolicy = POLICY, unit: str = "mV", module: nn.Module | None = None, **options: Any
) -> Path:
    """Save an encoder that has seen some signals: a module, or the paper's network."""
    torch.manual_seed(7)
    config = about(policy, unit, **options)
    if module is None:
        module = build_encoder("cnn", config["encoder"]["options"])
        channels = config["encoder"]["options"]["in_channels"]
        with torch.no_grad():
            for _ in range(5):
                module(torch.rand(16, channels, policy.num_samples))
    save_encoder(folder, module, config)
    return folder


def make_twelve_leads(folder: Path, **input_fields: Any) -> Path:
    """Save an encoder of twelve leads at once that has seen some signals, as a run writes it.

    ``input_fields`` are added to the section ``input`` of its config.
    """
    torch.manual_seed(11)
    module = ResNet(in_channels=12, embedding_dim=EMBEDDING, width=8, depth=2)
    with torch.no_grad():
        for _ in range(5):
            module(torch.rand(16, 12, 1000))
    policy = FramePolicy(num_samples=1000, sampling_rate=200, leads=STANDARD_LEADS)
    config = about(policy) | {"encoder": describe_encoder(module)}
    save_encoder(folder, module, config | {"input": {**config["input"], **input_fields}})
    assert finish_encoder(folder) == ""
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an encoder after a run."""
    folder = make_encoder(tmp_path_factory.mktemp("encoder") / "best")
    assert finish_encoder(folder) == ""
    return folder


@pytest.fixture(scope="session")
def encoder(encoder_folder: Path) -> PretrainedEncoder:
    return load_encoder(encoder_folder)


@pytest.fixture
def twelve(originals: Path) -> Recording:
    """A real PTB-XL recording: 12 leads, 10 s at 500 Hz."""
    from clocs.formats import read

    return read(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea")


def make_classifier(
    encoder_sha256: str,
    *,
    multi_label: bool = False,
    classes: int = 3,
    lead_sets: tuple[tuple[str, ...], ...] = (LEADS, ("II",)),
    joint: bool = False,
    max_distance: float = 1e9,
    heart_rates: tuple[float, float] = (20.0, 250.0),
    set_thresholds: tuple[float, ...] = (),
    max_frames: int = 23,
) -> Classifier:
    """Return a classifier with random weights, and classes that are not sorted.

    ``joint`` is for an encoder of several leads at once, whose features do not grow with the leads.
    """
    random = np.random.default_rng(3)
    bins = (ReliabilityBin(0.0, 0.5, 40, 0.2, 0.25), ReliabilityBin(0.5, 1.0, 10, 0.7, 0.6))
    names = ("SR", "AFIB", "GSVT", "SB")[:classes]
    adjustment = ((1.0, 0.0), (1.3, -0.1), (0.8, 0.2), (1.0, 0.5))[:classes]
    card = ClassifierCard(
        classes=tuple(ClassInfo(name, f"meaning of {name}", 1 / (place + 2)) for place, name in enumerate(names)),
        multi_label=multi_label,
        lead_sets=tuple(
            LeadSet(leads, adjustment, (bins,) * classes, 0.9, 0.8, max_distance, set_thresholds) for leads in lead_sets
        ),
        heart_rates=heart_rates,
        max_frames=max_frames,
        limitations=("It has seen no paced rhythm.",),
        trained_on={"dataset": "chapman", "split_sha256": "0" * 64},
        encoder_sha256=encoder_sha256,
    )

    def weights(leads: tuple[str, ...]) -> LinearWeights:
        dimension = len(POOLING) * EMBEDDING * (1 if joint else len(leads))
        return LinearWeights.rounded(random.normal(size=(classes, dimension)) / 50, random.normal(size=classes))

    spaces = tuple(
        FeatureSpace(np.zeros((1 if joint else len(leads), EMBEDDING), np.float32), np.eye(EMBEDDING, dtype=np.float32))
        for leads in lead_sets
    )
    return Classifier(card, tuple(weights(leads) for leads in lead_sets), spaces)
