"""A part of a store as a table for a classifier: one row a lead and frame."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.training.frame_dataset import FrameDataset
from clocs.training.labels import no_classes_message

BATCH = 512


@dataclass(frozen=True)
class ModelOutputs:
    """N rows of a part."""

    values: npt.NDArray[np.float32]
    """(N, E) embeddings, or (N, K) scores."""
    truth: npt.NDArray[np.bool_]
    """(N, K)"""
    record: npt.NDArray[np.int64]
    """(N,) the recording's number in the store."""
    patient: npt.NDArray[np.int64]
    """(N,) the patient's number in the store."""
    classes: tuple[str, ...]
    """(K,)"""

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several classes, or none."""
        return bool((self.truth.sum(1) != 1).any())

    def with_values(self, values: npt.NDArray[np.float32]) -> ModelOutputs:
        """The same rows with other values."""
        return replace(self, values=values)

    def pick(self, chosen: npt.NDArray[np.int64]) -> ModelOutputs:
        """Some rows."""
        return ModelOutputs(
            self.values[chosen], self.truth[chosen], self.record[chosen], self.patient[chosen], self.classes
        )


def require_classes(store: Store) -> None:
    """What is fitted or judged by classes takes a store that names some."""
    if not store.manifest.dataset["classes"]:
        raise ConfigError(no_classes_message(store))


def require_patients(store: Store, split: Split, *parts: str) -> None:
    """Parts that train, choose or judge must have somebody in them."""
    for part in parts:
        if not split.mask(part).any():
            raise ConfigError(
                f"split '{split.name}' of {store.folder} has nobody in its {part} part. Name another split, or make "
                "one of more patients or with other shares: clocs.split(store, name, policy=...)"
            )


def compute_outputs(
    module: nn.Module,
    store: Store,
    policy: FramePolicy,
    records: npt.NDArray[np.bool_],
    *,
    in_channels: int = 1,
    train_mode: bool = False,
) -> ModelOutputs:
    """Return what a module makes of a part's frames, without changing it.

    Args:
        module: (N, C, S) -> (N, anything). With several channels it also takes a lead mask (N, C).
        store: The store.
        policy: The frames.
        records: Which recordings of the store, a mask.
        in_channels: C. With 1, a row is a lead of a frame; else a frame with all leads.
        train_mode: As the released code had it, with BatchNorm's statistics of each batch and with dropout.
    """
    dataset = FrameDataset(store, policy=policy, records=records, all_leads=in_channels > 1)
    items = np.arange(len(dataset))
    kept = {name: value.clone() for name, value in module.state_dict().items()}
    module.train(train_mode)
    values = []
    with torch.no_grad():
        for begin in range(0, len(items), BATCH):
            batch = dataset.batch(items[begin : begin + BATCH], targets=False)
            masks = (batch["lead_mask"],) if in_channels > 1 else ()
            values.append(module(batch["signal"][:, 0], *masks).numpy())
    if train_mode:  # BatchNorm's running statistics have moved
        module.load_state_dict(kept)
    module.eval()
    if not all(torch.equal(value, kept[name]) for name, value in module.state_dict().items()):
        raise AssertionError("an encoder changed while it was evaluated")
    record = dataset.locate(items)[0]
    patient = store.patient_codes()[0][record]
    return ModelOutputs(np.concatenate(values), dataset.frames.targets(items), record, patient, dataset.classes)
