"""Data of preview plots: the first batch of a config, and a frame under each augmentation."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from clocs.augmentations import AUGMENTATIONS
from clocs.augmentations.compose import describe_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.drawing.batch import Similarity, Views
from clocs.methods import Method
from clocs.methods.method import encode_views
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import canonical_lead
from clocs.store.frames import Frames
from clocs.store.store import Store
from clocs.training.batches import policy_for_views
from clocs.training.config import PretrainConfig
from clocs.training.data import build_training_data, open_training_store
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.frame_dataset import FrameDataset
from clocs.training.initialization import build_initial_method
from clocs.training.shipped import find_encoder_folder

Ints = npt.NDArray[np.int64]

MAX_CELLS = 32
"""Largest number of instances of a readable similarity matrix."""
FRAME_POLICY = FramePolicy(num_samples=2500, sampling_rate=500)
"""Frames of 5 s, for which the defaults of the augmentations are made."""


def preview_batch(
    config: PretrainConfig, *, instances: int = 4, cells: int = MAX_CELLS, checkpoint: Path | None = None
) -> tuple[Views, Similarity]:
    """Return the views and the similarities of the first batch of training.

    Args:
        config: Config of the run.
        instances: Number of instances to draw.
        cells: Largest number of instances in the similarity matrix.
        checkpoint: Encoder for the embeddings, in eval mode. None for the initial encoder as the first training step
            uses it, with dropout.

    Returns:
        Views in mV, and cosine similarities.
    """
    if not 1 <= instances <= config.batch_size:
        raise ConfigError(f"instances must be 1 to {config.batch_size}, the batch size, not {instances}")
    part = open_training_store(config)
    with torch.random.fork_rng(devices=[]):
        method = build_initial_method(config, (part,))
    policy = part.policy
    view_policy = policy_for_views(policy, method)
    data = build_training_data(config, method, (replace(part, policy=view_policy),))
    batch = data.train.make(data.sampler.batch(0, 0), 0, "train", 0, 0)
    (dataset,) = data.train.datasets
    drawn = _views(method, dataset, batch["item"][:instances].numpy(), batch["views"][:instances, :, 0])
    views = batch["views"]
    normalized = views if view_policy is policy else torch.from_numpy(policy.normalize(views.numpy()))
    embeddings, encoder = _embeddings(config, method.encoder, policy, normalized, checkpoint)
    return drawn, _similarity(embeddings, batch["patient"].numpy(), drawn.names, cells, encoder)


def preview_augmentations(store: Store, record: str, *, lead: str | None = None, seed: int = 0) -> Views:
    """Return a recording's first frame of 5 s at 500 Hz, unchanged and under every augmentation that keeps its lead.

    Args:
        store: The store.
        record: Id of the recording.
        lead: Name of the lead; None for the first one.
        seed: Seed of the augmentations, which are applied with probability 1.
    """
    mask = np.zeros(len(store), bool)
    mask[store.index_of(record)] = True
    recording = store.recording(record)
    lead = None if lead is None else canonical_lead(lead)
    if lead is not None and lead not in recording.leads:
        raise ConfigError(f"Record '{record}' has no lead '{lead}'. It has {', '.join(recording.leads)}.")
    frames = Frames(store, FRAME_POLICY.model_copy(update={"leads": (lead,) if lead else ()}), records=mask)
    if not len(frames):
        raise ConfigError(f"Record '{record}' has no whole frame of 5 s. Choose another record or lead.")
    plain = torch.from_numpy(frames.gather([0])[0])
    names = [name for name in AUGMENTATIONS.names() if not AUGMENTATIONS.get(name).drops_leads]
    steps = parse_augmentations([{"name": name, "probability": 1.0} for name in names])
    draws = (torch.Generator().manual_seed(derived_seed(seed, "preview", name)) for name in names)
    made = [plain, *(step(plain[:, None], draw)[:, 0] for step, draw in zip(steps, draws, strict=True))]
    values = torch.stack(made, dim=1).numpy()
    return Views(
        values=values,
        original=np.broadcast_to(plain.numpy()[:, None], values.shape),
        sampling_rates=np.array([FRAME_POLICY.sampling_rate]),
        offsets=np.zeros(len(made), np.int64),
        names=("original", *names),
        instances=(f"record {record}, lead {frames.locate([0])[2][0]}",),
        unit=recording.unit,
    )


def _views(method: Method, dataset: FrameDataset, items: Ints, values: Tensor) -> Views:
    """Return views (first channel) with their names, and the signals before augmentation."""
    plain = _unaugmented(method, dataset.batch(items, targets=False)["signal"])
    labels = _view_labels(method, dataset, values.shape[1], 0 if plain is None else plain.shape[1])
    numbers, _, leads = dataset.locate(items)
    recordings = [dataset.store.recording(int(number)) for number in numbers]
    fits = plain is not None and plain.shape[1] in (1, values.shape[1])
    return Views(
        values=values.numpy(),
        original=plain.expand_as(values).numpy() if plain is not None and fits else None,
        sampling_rates=np.array([_rate(dataset.policy, item.sampling_rate, item.num_samples) for item in recordings]),
        offsets=np.array([offset for _, offset in labels], np.int64),
        names=tuple(name for name, _ in labels),
        instances=tuple(
            f"record {item.record_id}" + (f", lead {lead}" if lead else "") + f", patient {item.patient_id}"
            for item, lead in zip(recordings, leads, strict=True)
        ),
        unit=recordings[0].unit if dataset.policy.normalization == "none" else "normalized",
    )


def _unaugmented(method: Method, signals: Tensor) -> Tensor | None:
    """Return the first channel of the views without augmentations; None without augmentations or for random views."""
    if not method.augmentations:
        return None
    bare = copy.copy(method)
    bare.augmentations = ()
    return None if bare.is_stochastic else bare.views(signals, torch.Generator())[:, :, 0]


def _view_labels(method: Method, dataset: FrameDataset, views: int, plain: int) -> list[tuple[str, int]]:
    """Return name and offset in samples of each view. The name lists segment, lead, copy and augmentations."""
    policy = dataset.policy
    cut = [
        (f"segment {at + 1}" if policy.num_segments > 1 else "", at * policy.num_samples)
        for at in range(policy.num_segments)
    ]
    if method.leads_as_views and views >= len(cut) * len(dataset.leads):  # fewer: a drawn lead a view
        cut = [(f"lead {lead} {name}".strip(), offset) for lead in dataset.leads for name, offset in cut]
    steps = [step["name"] for step in describe_augmentations(method.augmentations)]
    if plain == 1 < views == 1 + len(steps):  # one view an augmentation
        return [("original", 0), *((step, 0) for step in steps)]
    if views % len(cut):
        return [(f"view {at + 1}", 0) for at in range(views)]
    copies = views // len(cut)
    named = [(f"copy {at + 1} {name}".strip() if copies > 1 else name, o) for at in range(copies) for name, o in cut]
    done = f": {', '.join(steps)}" if steps else ""
    return [((name or "frame") + done, offset) for name, offset in named]


def _rate(policy: FramePolicy, sampling_rate: float, num_samples: int) -> float:
    """Return the samples of a view per second of the recording, which the paper's policies may stretch."""
    return (
        sampling_rate * policy.num_segments * policy.num_samples / (policy.window_length(sampling_rate) or num_samples)
    )


def _embeddings(
    config: PretrainConfig, initial: nn.Module, policy: FramePolicy, views: Tensor, checkpoint: Path | None
) -> tuple[Tensor, str]:
    """Return embeddings (B, V, E) and the name of their encoder. Torch's generator does not change."""
    if checkpoint is not None:
        encoder, about = load_encoder_folder(find_encoder_folder(checkpoint))
        _refuse_other_input(about["input"], policy)
        return _encode(encoder, views), f"encoder of epoch {about['epoch']}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.seed, "step", 0, 0))  # the dropout of rank 0
        return _encode(initial.train(), views), "fresh encoder"


@torch.no_grad()
def _encode(encoder: nn.Module, views: Tensor) -> Tensor:
    return encode_views(encoder, views)


def _refuse_other_input(expected: dict[str, object], policy: FramePolicy) -> None:
    configured = policy.model_dump(mode="json")
    differences = [
        f"{key} {expected[key]}, not {configured[key]}"
        for key in ("num_samples", "sampling_rate", "normalization")
        if expected[key] != configured[key]
    ]
    if differences:
        raise ConfigError(f"This encoder takes {'; '.join(differences)}. Pass the config that it was trained with.")


def _similarity(embeddings: Tensor, patients: Ints, names: tuple[str, ...], cells: int, encoder: str) -> Similarity:
    """Return similarities between the first two views, or within a single view, grouped by patient."""
    first, second = 0, min(1, embeddings.shape[1] - 1)
    chosen = _group_by_patient(patients)[:cells]
    unit = normalize(embeddings[torch.from_numpy(chosen)].double(), dim=-1)
    part = f"{len(chosen)} of the batch's {len(patients)} instances, repeated patients first"
    return Similarity(
        values=(unit[:, first] @ unit[:, second].T).numpy(),
        patients=patients[chosen],
        names=(names[first], names[second]),
        title=f"cosine similarity, {encoder}\n{part}",
    )


def _group_by_patient(patients: Ints) -> Ints:
    """Return an order that groups the instances of each patient, those with the most instances first."""
    _, first, inverse, counts = np.unique(patients, return_index=True, return_inverse=True, return_counts=True)
    return np.lexsort((first[inverse], -counts[inverse]))
