"""Assemble an encoder of any leads: clocs-small for each lead, and a joint network, each with a PCA.

    python benchmarks/encoder_assembly.py STORES JOINT OUT [JOINT_DIM]

``STORES`` has the stores of ``encoder_pretraining.py``, and ``JOINT`` is its result. Components are fitted without
labels, on at most 1,000 training recordings of each store. ``OUT`` gets the encoder; ``clocs evaluate publish`` adds
classifiers and a model card with privacy audits. The folder's name is the encoder's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from encoder_components import (
    LEAD_DIM,
    LEAD_ENCODER,
    MAX_RECORDINGS,
    POLICY,
    STORES,
    WHITENING,
    sample_frames,
    with_components,
)
from encoder_pretraining import OPTIONS
from safetensors.torch import load_file

import clocs
from clocs.encoders import Encoder, LeadAndJointEncoder, ResNet
from clocs.encoders.encoder import describe_encoder
from clocs.store.store import Store
from clocs.training.encoder_folder import read_config
from clocs.training.encoder_module import load_encoder_folder, save_encoder
from clocs.training.onnx_export import finish_encoder
from clocs.training.seen_recordings import extend_seen_keys, save_seen_keys, seen_keys
from clocs.training.shipped import find_encoder_folder

JOINT_DIM = 512
UNNAMED_LEAD = "I"
"""Channel of a lead that its file calls ECG: watches and hand-held devices record lead I."""


def load_joint(folder: Path) -> ResNet:
    """Return the trained joint network."""
    joint = ResNet(**OPTIONS)
    joint.load_state_dict(load_file(folder / "weights.safetensors"))
    return joint.eval()


def describe(stores: list[Store], encoder: Encoder, trained: dict[str, Any], pca: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the encoder."""
    small = read_config(find_encoder_folder(LEAD_ENCODER))
    splits = [store.split("default") for store in stores]
    pairs = zip(stores, splits, strict=True)
    hashes = [{"store_sha256": store.sha256, "split_sha256": split.sha256} for store, split in pairs]
    names = [str(store.manifest.dataset["name"]) for store in stores]
    licences = [str(store.manifest.dataset["licence"]) for store in stores] + small["licence"].split("; ")
    return {
        "format": small["format"],
        "encoder": describe_encoder(encoder),
        "input": {
            "unit": "mV",
            "sampling_rate": POLICY.sampling_rate,
            "num_samples": POLICY.num_samples,
            "leads": list(POLICY.leads),
            "normalization": POLICY.normalization,
            "policy": POLICY.model_copy(update={"unnamed_lead": UNNAMED_LEAD}).model_dump(mode="json"),
            "lead_dropout": True,
        },
        "training": {
            **trained,
            **hashes[0],
            "dataset": " + ".join(names),
            "split": splits[0].name,
            "extra_stores": hashes[1:],
            "lead_encoder": {"name": LEAD_ENCODER, "weights_sha256": small["weights_sha256"]},
        },
        "pca": {**pca, "recordings": MAX_RECORDINGS, "whitening": WHITENING},
        "licence": "; ".join(dict.fromkeys(licences)),
    }


def assemble(stores: list[Store], joint_folder: Path, out: Path, joint_dim: int) -> None:
    """Write the encoder."""
    small, small_about = load_encoder_folder(find_encoder_folder(LEAD_ENCODER))
    samples = list(map(sample_frames, stores))
    lead, lead_explained = with_components(small, samples, LEAD_DIM)
    joint, joint_explained = with_components(load_joint(joint_folder), samples, joint_dim)
    total = joint.in_channels * LEAD_DIM + joint_dim
    encoder = LeadAndJointEncoder(lead, joint, embedding_dim=total, head="none").eval()
    pca = {"explained": {"lead_encoder": lead_explained, "joint_encoder": joint_explained}}
    about = describe(stores, encoder, json.loads((joint_folder / "training.json").read_text()), pca)
    keys = list(_seen(stores))
    folder = find_encoder_folder(LEAD_ENCODER)
    out.mkdir(parents=True, exist_ok=True)
    about["seen_sha256"] = save_seen_keys(out, extend_seen_keys(folder, small_about, keys))
    save_encoder(out, encoder, about)
    print(pca, finish_encoder(out, encoder) or "with ONNX", flush=True)


def _seen(stores: list[Store]) -> Iterator[Any]:
    return (seen_keys(store, store.split("default")) for store in stores)


if __name__ == "__main__":
    source, trained, target, *rest = sys.argv[1:]
    torch.set_num_threads(1)
    opened = [clocs.open_store(Path(source) / name) for name in STORES]
    assemble(opened, Path(trained), Path(target), int(rest[0]) if rest else JOINT_DIM)
