"""Outputs of a module for the frames of a store, with labels, recordings and patients."""

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
from clocs.training.devices import device_of, to_device
from clocs.training.frame_dataset import FrameDataset
from clocs.training.labels import no_classes_message

BATCH = 512
"""Frames in a batch."""


@dataclass(frozen=True)
class ModelOutputs:
    """Embeddings or scores of N rows, with their labels.

    A row is a lead of a frame, a frame of several leads, or, after pooling, a recording or a patient.
    """

    values: npt.NDArray[np.float32]
    """Embeddings (N, E), or scores (N, K)."""
    truth: npt.NDArray[np.bool_]
    """Labels, (N, K)."""
    record: npt.NDArray[np.int64]
    """Index of the recording in the store, (N,)."""
    patient: npt.NDArray[np.int64]
    """Code of the patient in the store, (N,)."""
    classes: tuple[str, ...]
    """Class names, (K,)."""

    @property
    def multi_label(self) -> bool:
        """True if a row may have several classes, or none."""
        return bool((self.truth.sum(1) != 1).any())

    def with_values(self, values: npt.NDArray[np.float32]) -> ModelOutputs:
        """Return the same rows with other values."""
        return replace(self, values=values)

    def select(self, rows: npt.NDArray[np.int64]) -> ModelOutputs:
        """Return the rows with these indices."""
        return ModelOutputs(self.values[rows], self.truth[rows], self.record[rows], self.patient[rows], self.classes)


def require_classes(store: Store) -> None:
    """Raise an error if the store has no classes."""
    if not store.manifest.dataset["classes"]:
        raise ConfigError(no_classes_message(store))


def require_patients(store: Store, split: Split, *parts: str) -> None:
    """Raise an error if one of these parts of a split is empty."""
    for part in parts:
        if not split.mask(part).any():
            raise ConfigError(
                f"split '{split.name}' of {store.folder} has no patient in its {part} part. Use another split, or make "
                "one with other fractions: clocs.split(store, name, policy=...)."
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
    """Run a module on the frames of a store, on the module's device and without changing it.

    Args:
        module: Maps frames (N, C, S) to (N, anything). With several channels it also takes a lead mask (N, C).
        store: The store.
        policy: The frame policy.
        records: Mask of the recordings of the store.
        in_channels: C. With 1, a row is a lead of a frame; otherwise a frame with all leads.
        train_mode: Run the module in train mode, as the paper's released code does: BatchNorm uses the statistics of
            each batch, and dropout is active.

    Returns:
        The outputs, ordered by recording.
    """
    dataset = FrameDataset(store, policy=policy, records=records, all_leads=in_channels > 1)
    items = np.arange(len(dataset))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.train(train_mode)
    values, device = [], device_of(module)
    with torch.no_grad():
        for begin in range(0, len(items), BATCH):
            batch = dataset.batch(items[begin : begin + BATCH], targets=False)
            inputs = [batch["signal"][:, 0], *([batch["lead_mask"]] if in_channels > 1 else [])]
            values.append(module(*(to_device(value, device) for value in inputs)).cpu().numpy())
    if train_mode:  # restore the running statistics of BatchNorm
        module.load_state_dict(before)
    module.eval()
    if not all(torch.equal(value, before[name]) for name, value in module.state_dict().items()):
        raise AssertionError("The module changed while it was evaluated.")
    record = dataset.locate(items)[0]
    patient = store.patient_codes()[0][record]
    return ModelOutputs(np.concatenate(values), dataset.frames.targets(items), record, patient, dataset.classes)
