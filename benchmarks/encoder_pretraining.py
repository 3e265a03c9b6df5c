"""Train a joint network of twelve leads without labels, on the training patients of several stores.

    python benchmarks/encoder_pretraining.py STORES OUT STEPS [SEED] [START]

``STORES`` has stores whose split ``default`` has the published parts; only training parts are read, and stores that
share a recording are refused. A recording gives two frames of 5 s at 500 Hz, each with leads and spans of time left
out. Three objectives share the network: the two frames of a recording find each other in the batch (CMSC with pairs
weighted alike), the activations over time give back the samples of all leads at 100 Hz, and the pooled activations give
random kernel features of its first frame with all leads. The learning rate follows a cosine over ``STEPS``. ``OUT``
gets the encoder; a killed training continues with the same command. With ``START``, an encoder that
``encoder_assembly.py`` wrote, training goes on from its joint network, with a new cosine.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open
from safetensors.torch import save as save_tensors
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, interpolate, mse_loss

import clocs
from clocs.core.seeds import generator
from clocs.core.storage.files import write_bytes
from clocs.encoders import LeadAndJointEncoder, PCAEncoder, ResNet
from clocs.encoders.pooling import mean_and_max
from clocs.evaluation.benchmark.feature_transforms import FeaturePCA, Standardization
from clocs.evaluation.benchmark.random_kernels import MiniRocket
from clocs.losses import PatientNCELoss
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.frames import Frames
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.shipped import find_encoder_folder
from clocs.training.store_overlap import refuse_shared_recordings

STORES = ("ptbxl", "physionet2020", "chapman")
POLICY = FramePolicy(num_samples=2500, sampling_rate=500, leads=STANDARD_LEADS, allow_missing_leads=True)
OPTIONS: dict[str, Any] = {
    "in_channels": 12,
    "embedding_dim": 128,
    "width": 48,
    "depth": 4,
    "stem_kernel_size": 51,
    "stem_stride": 10,
}
FACTOR = 5
"""Samples of a frame for each sample that the network gives back."""
NUM_KERNELS, NUM_TARGETS = 1008, 256
MAX_FRAMES = 3
"""Frames of a recording that are used, at most."""
BATCH_SIZE, LEARNING_RATE, WARMUP, DECAY = 128, 2e-3, 0.03, 0.02
NOISE = 0.03
"""Standard deviation of the noise in mV."""
SAVED_STEPS = 100
"""Number of steps after which the training is saved."""
LIMIT = 10.0
"""Amplitude in mV at which signals are cut off."""
SUBSETS = ((0,), (1,), (0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))
"""Sets of leads that devices have: lead I, lead II, the limb leads, the chest leads."""


@dataclass(frozen=True)
class Data:
    """Frames of recordings, and what the network predicts of each recording."""

    signals: npt.NDArray[np.float16]
    """Frames (N, 12, 2500) in mV, ordered by recording."""
    first: npt.NDArray[np.int64]
    """Index of each recording's first frame; one more at the end."""
    patients: npt.NDArray[np.int64]
    targets: npt.NDArray[np.float32]
    """Random kernel features of each recording's first frame, reduced by PCA, (recordings, 256)."""


def load(stores: Path) -> Data:
    """Read the training frames of all stores."""
    opened = [clocs.open_store(stores / name) for name in STORES]
    refuse_shared_recordings(opened)
    print("no recording is in two stores", flush=True)
    signals, counts = [], []
    patients: list[npt.NDArray[np.int64]] = []
    for store in opened:
        frames = Frames(store, POLICY, records=store.split("default").mask("train"), all_leads=True)
        record = frames.recording_indices(np.arange(len(frames)))
        order = np.argsort(record, kind="stable")
        order = order[_rank(record[order]) < MAX_FRAMES]
        found, count = np.unique(record[order], return_counts=True)
        for items in np.array_split(order, -(-len(order) // 256)):
            signals.append(np.clip(frames.views(items)[:, 0], -LIMIT, LIMIT).astype(np.float16))
        counts.append(count)
        patients.append(store.patient_codes()[0][found] + sum(map(len, opened)) * len(patients))
        print(f"{store.folder}: {len(found)} recordings, {len(order)} frames", flush=True)
    joined, first = np.concatenate(signals), np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Data(joined, first, np.concatenate(patients), kernel_targets(joined[first[:-1]]))


def _rank(record: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the position of each frame within its recording; frames are ordered by recording."""
    return np.arange(len(record)) - np.searchsorted(record, record)


def kernel_targets(signals: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return principal components of random kernel features, scaled to the square root of their deviation."""
    sample = generator(0, "kernel sample").choice(len(signals), 1000, replace=False)
    rocket = MiniRocket(NUM_KERNELS).fit(at_100_hz(signals[sample]))
    parts = np.array_split(signals, -(-len(signals) // 256))
    features = np.concatenate([rocket.transform(at_100_hz(part)) for part in parts])
    values = Standardization.fit(features).transform(features)
    found = FeaturePCA.fit(values, NUM_TARGETS).transform(values)
    scaled = found / np.sqrt(found.std(0))
    return np.asarray(scaled / scaled.std(), np.float32)


def at_100_hz(signals: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return frames (N, C, S) with the mean of every five samples."""
    return np.asarray(avg_pool1d(torch.from_numpy(signals.astype(np.float32)), FACTOR).numpy())


class Objectives(nn.Module):
    """The network with the heads of its three objectives."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = ResNet(**OPTIONS)
        dims = [OPTIONS["width"] * number for number in range(1, OPTIONS["depth"] + 1)]
        self.decoder = nn.Conv1d(dims[-2] + dims[-1], 12 * 16, 1)
        self.to_kernels = nn.Linear(2 * sum(dims), NUM_TARGETS)
        self.contrast = PatientNCELoss(temperature=0.1, off_diagonals="equal")
        self._activations: list[Tensor] = []
        for block in self.encoder.blocks:
            block.register_forward_hook(lambda _module, _inputs, output: self._activations.append(output.squeeze(2)))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (N, E), kernel features (N, K) and samples at 100 Hz (N, 12, 500)."""
        self._activations.clear()
        self.encoder.tokens(inputs)
        fine, coarse = self._activations[-2:]
        patches = self.decoder(torch.cat([fine, interpolate(coarse, size=fine.shape[2])], 1)).unflatten(1, (12, 16))
        samples = patches.transpose(2, 3).flatten(2)[..., : inputs.shape[2] // FACTOR]
        features = torch.cat([mean_and_max(hidden) for hidden in self._activations], 1)
        return self.encoder.embed_features(features), self.to_kernels(features), samples


def masked_views(signals: Tensor, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return frames with leads and spans left out, (N, 12, S), and where samples at 100 Hz are left out."""
    count, channels, length = signals.shape
    kept = np.ones((count, channels, length), np.bool_)
    for row, kind in enumerate(random.random(count)):
        if kind < 0.2:
            kept[row] = False
            kept[row, list(SUBSETS[random.integers(len(SUBSETS))])] = True
        elif kind < 0.6:
            kept[row, random.permutation(channels)[: random.integers(1, channels)]] = False
        for _ in range(random.integers(0, 4)):
            begin = random.integers(length)
            kept[row, :, begin : begin + random.integers(100, 500)] = False
    mask = torch.from_numpy(kept)
    noise = torch.randn(signals.shape).mul_(NOISE)
    return noise.add_(signals).mul_(mask), ~mask[..., ::FACTOR]


def train(data: Data, out: Path, steps: int, seed: int, start: str | None) -> None:
    """Train, and write the encoder. A killed training continues from the steps that were saved."""
    about = about_training(steps, seed)
    torch.manual_seed(seed)
    random, model = generator(seed, "pretraining"), Objectives()
    if start is not None:
        about["start"] = load_start(model.encoder, start)
        random = generator(seed, "pretraining", "continued")
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=DECAY)
    training = Training(model, optimizer, random, about, out / "state.safetensors")
    training.load()
    begin = time.process_time()
    for step in range(training.step, steps):
        done = step / steps
        if len(training.order) < BATCH_SIZE:
            training.order = random.permutation(len(data.patients))
        records, training.order = training.order[:BATCH_SIZE], training.order[BATCH_SIZE:]
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, done / WARMUP) * 0.5 * (1 + np.cos(np.pi * done))
        losses = step_losses(model, data, records, random)
        loss = losses["contrast"] / 2 + 2 * losses["samples"] + 2 * losses["kernels"]
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        training.step = step + 1
        if step % 50 == 0:
            values = {name: round(value.item(), 4) for name, value in losses.items()}
            print(json.dumps({"step": step, "core_seconds": round(time.process_time() - begin), **values}), flush=True)
        if training.step % SAVED_STEPS == 0:
            training.save()
    save(model, out, about)
    training.path.unlink(missing_ok=True)


@dataclass
class Training:
    """Everything that a step depends on, saved to one file."""

    model: Objectives
    optimizer: torch.optim.Optimizer
    random: np.random.Generator
    about: dict[str, object]
    path: Path
    step: int = 0
    """Steps that are done."""
    order: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Recordings of the epoch that are left."""

    def save(self) -> None:
        """Save the state."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
        tensors |= {"random": torch.get_rng_state(), "order": torch.from_numpy(self.order.copy())}
        numbers = {"step": self.step, "about": self.about, "random": self.random.bit_generator.state}
        write_bytes(self.path, save_tensors(tensors, {"state": json.dumps(numbers)}), replace=True)

    def load(self) -> None:
        """Continue from the saved state, if there is one of the same options."""
        if not self.path.exists():
            return
        with safe_open(self.path, "pt") as file:
            numbers = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if numbers["about"] != self.about:
            raise SystemExit(f"{self.path} is of a training with other options. Delete it, or use another folder.")
        self.step, self.random.bit_generator.state = numbers["step"], numbers["random"]
        torch.set_rng_state(tensors.pop("random"))
        self.order = tensors.pop("order").numpy()
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}}
        for name, value in tensors.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = value
        self.model.load_state_dict(groups["model"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in groups["optimizer"].items():
            number, _, rest = name.partition(".")
            state.setdefault(int(number), {})[rest] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def load_start(encoder: ResNet, start: str) -> dict[str, object]:
    """Load the joint network of an assembled encoder, which has no head; return how long and to what it was trained."""
    assembled, about = load_encoder_folder(find_encoder_folder(start))
    assert isinstance(assembled, LeadAndJointEncoder)
    joint = assembled.joint_encoder
    assert isinstance(joint, PCAEncoder)
    encoder.load_state_dict(joint.encoder.state_dict(), strict=False)
    return {"max_steps": about["training"]["max_steps"], "weights_sha256": about["weights_sha256"]}


def step_losses(
    model: Objectives, data: Data, records: npt.NDArray[np.int64], random: np.random.Generator
) -> dict[str, Tensor]:
    """Return the losses of a batch of recordings, two frames of each."""
    first, count = data.first[records], np.diff(data.first)[records]
    one = random.integers(count)
    other = (one + random.integers(1, np.maximum(count, 2))) % count
    signals = torch.from_numpy(data.signals[np.concatenate([first + one, first + other])].astype(np.float32))
    signals *= torch.from_numpy(random.uniform(0.9, 1.1, (len(signals), 1, 1)).astype(np.float32))
    inputs, left_out = masked_views(signals, random)
    embeddings, kernels, samples = model(inputs)
    error = (samples - avg_pool1d(signals, FACTOR)).square().clamp(max=4) / 0.04
    targets = torch.from_numpy(np.concatenate([data.targets[records]] * 2))
    views = embeddings.unflatten(0, (2, -1)).transpose(0, 1)
    return {
        "contrast": model.contrast(views, torch.from_numpy(data.patients[records])),
        "samples": (error * left_out).sum() / left_out.sum() + 0.1 * error.mean(),
        "kernels": mse_loss(kernels, targets),
    }


def save(model: Objectives, out: Path, about: dict[str, object]) -> None:
    """Write the encoder's weights, and how it was trained."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "training.json").write_text(json.dumps(about, indent=1))
    save_file(model.encoder.state_dict(), out / "weights.safetensors")


def about_training(steps: int, seed: int) -> dict[str, object]:
    """Return the options of the training, for the config of the encoder."""
    return {
        "method": {"name": "cmsc", "objectives": ["contrast", "samples", "kernels"], "off_diagonals": "equal"},
        "encoder": {"name": "resnet", **OPTIONS},
        "batch_size": BATCH_SIZE,
        "optimizer": "adamw",
        "learning_rate": LEARNING_RATE,
        "weight_decay": DECAY,
        "schedule": "cosine",
        "max_steps": steps,
        "seed": seed,
        "frames": {"normalization": POLICY.normalization},
    }


if __name__ == "__main__":
    folder, target, steps, *rest = sys.argv[1:]
    torch.set_num_threads(1)
    start = rest[1] if len(rest) > 1 else None
    train(load(Path(folder)), Path(target), int(steps), int(rest[0]) if rest else 0, start)
