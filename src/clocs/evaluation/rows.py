"""A part of a store as a table for a classifier: one row a lead and frame."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.training.labels import without_classes

BATCH = 512


@dataclass(frozen=True)
class Rows:
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

    def with_values(self, values: npt.NDArray[np.float32]) -> Rows:
        """The same rows with other values."""
        return replace(self, values=values)

    def pick(self, chosen: npt.NDArray[np.int64]) -> Rows:
        """Some rows."""
        return Rows(self.values[chosen], self.truth[chosen], self.record[chosen], self.patient[chosen], self.classes)


def refuse_without_classes(store: Store) -> None:
    """What is fitted or judged by classes takes a store that names some."""
    if not store.manifest.dataset["classes"]:
        raise ConfigError(without_classes(store))


def refuse_empty(store: Store, split: Split, *parts: str) -> None:
    """Parts that train, choose or judge must have somebody in them."""
    for part in parts:
        if not split.mask(part).any():
            raise ConfigError(
                f"split '{split.name}' of {store.folder} has nobody in its {part} part. Name another split, or make "
                "one of more patients or with other shares: clocs.split(store, name, policy=...)"
            )


def rows_of(
    module: nn.Module, store: Store, policy: FramePolicy, records: npt.NDArray[np.bool_], *, train_mode: bool = False
) -> Rows:
    """What a module makes of a part's frames, (N, C, S) -> (N, anything), without changing it.

    ``train_mode``: as the released code had it, with BatchNorm's statistics of each batch and with dropout.
    """
    frames = Frames(store, policy, records=records)
    if not len(frames):
        raise ConfigError(f"no frame of this part fits the policy {policy.model_dump(exclude_defaults=True)}")
    items = np.arange(len(frames))
    kept = {name: value.clone() for name, value in module.state_dict().items()}
    module.train(train_mode)
    values = []
    with torch.no_grad():
        for begin in range(0, len(items), BATCH):
            part = items[begin : begin + BATCH]
            signals = np.ascontiguousarray(frames.gather(part)[:, 0])
            values.append(module(torch.from_numpy(signals).unsqueeze(1)).numpy())
    if train_mode:  # BatchNorm's running statistics have moved
        module.load_state_dict(kept)
    module.eval()
    if not all(torch.equal(value, kept[name]) for name, value in module.state_dict().items()):
        raise AssertionError("an encoder changed while it was evaluated")
    record = frames.locate(items)[0]
    patient = store.patients()[0][record]
    return Rows(np.concatenate(values), frames.targets(items), record, patient, tuple(frames.classes))
