"""Train a joint network of twelve leads without labels, on the training patients of several stores.

    python benchmarks/encoder_pretraining.py STORES OUT STEPS [SEED]

``STORES`` has stores whose split ``default`` has the published parts; only training parts are read, and stores that
share a recording are refused. A recording gives two frames of 5 s at 500 Hz, each with leads and spans of time left
out. Four objectives share the network:

- the two frames of a recording find each other in the batch (CMSC with pairs weighted alike),
- the activations over time give back the samples of all leads at 100 Hz,
- the pooled activations give random kernel features of the recording's first frame with all leads,
- and they give the embeddings of all leads of the frame by the encoder of single leads.

The learning rate follows a cosine over ``STEPS``. ``OUT`` gets the encoder; a killed training continues with the same
command. Convolutions run in bfloat16, which halves the time on processors with instructions for it.
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
from encoder_components import POLICY
from encoder_data import FACTOR, NUM_KERNEL_TARGETS, NUM_LEAD_TARGETS, TrainingData, load_training_data
from safetensors import safe_open
from safetensors.torch import save as save_tensors
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import interpolate, mse_loss

from clocs.core.seeds import generator
from clocs.core.storage.files import write_bytes
from clocs.encoders import ResNet
from clocs.encoders.pooling import mean_and_max
from clocs.losses import PatientNCELoss

OPTIONS: dict[str, Any] = {
    "in_channels": 12,
    "embedding_dim": 128,
    "width": 64,
    "depth": 4,
    "stem_kernel_size": 51,
    "stem_stride": 10,
}
WEIGHTS = {"contrast": 0.5, "samples": 2.0, "kernels": 2.0, "leads": 4.0}
"""Weights of the objectives."""
BATCH_SIZE, LEARNING_RATE, WARMUP, DECAY, BETAS = 128, 2e-3, 0.03, 0.02, (0.9, 0.98)
NOISE = 0.03
"""Standard deviation of the noise in mV."""
NOISE_OFFSETS = 100_000
"""Offsets at which a batch can begin in the bank of noise."""
SAVED_STEPS = 200
"""Number of steps after which the training is saved."""
SUBSETS = ((0,), (1,), (0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))
"""Sets of leads that devices have: lead I, lead II, the limb leads, the chest leads."""


class Objectives(nn.Module):
    """The network with the heads of its four objectives."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = ResNet(**OPTIONS)
        dims = [OPTIONS["width"] * number for number in range(1, OPTIONS["depth"] + 1)]
        self.decoder = nn.Conv1d(dims[-2] + dims[-1], 12 * 16, 1)
        for block in self.encoder.blocks:
            block.register_forward_hook(lambda _module, _inputs, output: self._activations.append(output.squeeze(2)))
        self.to_embedding = nn.Linear(2 * dims[-1], OPTIONS["embedding_dim"])
        self.to_kernels = nn.Linear(2 * sum(dims), NUM_KERNEL_TARGETS)
        self.to_leads = nn.Linear(2 * sum(dims), NUM_LEAD_TARGETS)
        self.contrast = PatientNCELoss(temperature=0.1, off_diagonals="equal")
        self._activations: list[Tensor] = []

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return embeddings (N, E), kernel features (N, K), lead embeddings (N, L) and samples (N, 12, 500)."""
        self._activations.clear()
        with torch.autocast("cpu", torch.bfloat16):
            self.encoder.tokens(inputs)
            fine, coarse = self._activations[-2:]
            patches = self.decoder(torch.cat([fine, interpolate(coarse, size=fine.shape[2])], 1)).unflatten(1, (12, 16))
            samples = patches.transpose(2, 3).flatten(2)[..., : inputs.shape[2] // FACTOR]
            features = torch.cat([mean_and_max(hidden) for hidden in self._activations], 1)
            last = features[:, -self.encoder.num_pooled :]
            outputs = self.to_embedding(last), self.to_kernels(features), self.to_leads(features), samples
        embeddings, kernels, leads, samples = (output.float() for output in outputs)
        return embeddings, kernels, leads, samples


class Views:
    """Frames with leads and spans of time left out, and with noise."""

    def __init__(self) -> None:
        length = 2 * BATCH_SIZE * 12 * POLICY.num_samples
        random = torch.Generator().manual_seed(5)
        self.noise = (torch.randn(length + NOISE_OFFSETS, generator=random) * NOISE).bfloat16()

    def __call__(self, signals: Tensor, random: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Change frames (N, 12, S) in place; return them, and where samples at 100 Hz are left out (N, 12, S / 5)."""
        count, channels, length = signals.shape
        leads, times = np.ones((count, channels), np.bool_), np.ones((count, length // FACTOR), np.bool_)
        for row, kind in enumerate(random.random(count)):
            if kind < 0.2:
                leads[row] = False
                leads[row, list(SUBSETS[random.integers(len(SUBSETS))])] = True
            elif kind < 0.6:
                leads[row, random.permutation(channels)[: random.integers(1, channels)]] = False
            for _ in range(random.integers(0, 4)):
                begin = random.integers(length // FACTOR)
                times[row, begin : begin + random.integers(20, 100)] = False
        offset = int(random.integers(NOISE_OFFSETS))
        signals += self.noise[offset : offset + signals.numel()].view_as(signals)
        signals *= torch.from_numpy(leads)[:, :, None].bfloat16()
        signals *= torch.from_numpy(times).repeat_interleave(FACTOR, 1)[:, None].bfloat16()
        return signals, torch.from_numpy(~(leads[:, :, None] & times[:, None]))


def train(data: TrainingData, out: Path, steps: int, seed: int) -> None:
    """Train, and write the encoder. A killed training continues from the steps that were saved."""
    torch.manual_seed(seed)
    model, views, about = Objectives(), Views(), about_training(steps, seed)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=DECAY, betas=BETAS)
    training = Training(model, optimizer, generator(seed, "pretraining"), about, out / "state.safetensors")
    training.load()
    begin = time.process_time()
    for step in range(training.step, steps):
        done = step / steps
        if len(training.order) < BATCH_SIZE:
            training.order = training.random.permutation(len(data.patients))
        records, training.order = training.order[:BATCH_SIZE], training.order[BATCH_SIZE:]
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, done / WARMUP) * 0.5 * (1 + np.cos(np.pi * done))
        losses = step_losses(model, data, views, records, training.random)
        loss = torch.stack([WEIGHTS[name] * value for name, value in losses.items()]).sum()
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


def step_losses(
    model: Objectives, data: TrainingData, views: Views, records: npt.NDArray[np.int64], random: np.random.Generator
) -> dict[str, Tensor]:
    """Return the losses of a batch of recordings, two frames of each."""
    first, count = data.first[records], np.diff(data.first)[records]
    one = random.integers(count)
    other = (one + random.integers(1, np.maximum(count, 2))) % count
    items = np.concatenate([first + one, first + other])
    scale = torch.from_numpy(random.uniform(0.9, 1.1, (len(items), 1, 1)).astype(np.float32))
    signals = torch.from_numpy(data.signals[items]).bfloat16() * scale.bfloat16()
    inputs, left_out = views(signals, random)
    embeddings, kernels, leads, samples = model(inputs)
    error = (samples - torch.from_numpy(data.coarse[items]).float() * scale).square().clamp(max=4) / 0.04
    pairs = embeddings.unflatten(0, (2, -1)).transpose(0, 1)
    return {
        "contrast": model.contrast(pairs, torch.from_numpy(data.patients[records])),
        "samples": (error * left_out).sum() / left_out.sum() + 0.1 * error.mean(),
        "kernels": mse_loss(kernels, torch.from_numpy(np.concatenate([data.kernel_targets[records]] * 2))),
        "leads": mse_loss(leads, torch.from_numpy(data.lead_targets[items]).float()),
    }


def save(model: Objectives, out: Path, about: dict[str, object]) -> None:
    """Write the encoder's weights, and how it was trained."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "training.json").write_text(json.dumps(about, indent=1))
    save_file(model.encoder.state_dict(), out / "weights.safetensors")


def about_training(steps: int, seed: int) -> dict[str, object]:
    """Return the options of the training, for the config of the encoder."""
    return {
        "method": {"name": "cmsc", "objectives": WEIGHTS, "off_diagonals": "equal"},
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
    train(load_training_data(Path(folder)), Path(target), int(steps), int(rest[0]) if rest else 0)
