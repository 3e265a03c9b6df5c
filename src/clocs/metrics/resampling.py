"""Random draws of patients with all of their rows, as a bootstrap over patients needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.seeds import generator
from clocs.metrics.pooling import pool_truth
from clocs.metrics.ranking import Bools, Floats

Patients = npt.NDArray[np.int64]

MIN_PATIENTS: Final = 3
"""Minimum number of patients with a class, and of patients without it, for an interval of the class."""
MAX_DRAWS_PER_REPLICATE: Final = 100
"""Maximum number of draws per replicate. If they do not suffice, classes are too rare for an interval."""
DRAWS_PER_CHECK: Final = 64
"""Number of draws that are checked for lost classes at once."""
WEIGHTS_PER_BLOCK: Final = 1 << 16
"""Approximate number of row weights in a block of replicates. Larger blocks do not fit into the processor's cache."""


def draw_counts(size: int, replicates: int, seed: int) -> Iterator[Floats]:
    """Yield how often each of ``size`` patients is drawn, with spare draws, because some are rejected.

    Args:
        size: Number of patients.
        replicates: Number of replicates.
        seed: Seed of the draws.

    Yields:
        Counts of shape (size,).

    Raises:
        ValueError: There are fewer than two replicates.
    """
    if replicates < 2:
        raise ValueError(f"Expected replicates of at least 2, got {replicates}.")
    random = generator(seed, "bootstrap")
    for _ in range(MAX_DRAWS_PER_REPLICATE * replicates if size > 1 else 0):
        yield np.bincount(random.integers(0, size, size), minlength=size).astype(np.float64)


class PatientResampler:
    """Random draws of patients with all of their rows.

    A draw without positives or negatives of a class is repeated, so that every replicate averages the same classes. If
    such classes were skipped instead, a rare and difficult class would raise the average of some replicates.

    Args:
        truth: Labels of shape (N, K).
        patients: Patient of each row, of shape (N,).
    """

    def __init__(self, truth: Bools, patients: Patients) -> None:
        self._patients, sides = pool_truth(np.concatenate([truth, ~truth], axis=1), patients)
        self.size = len(self._patients)
        self.positive, self.negative = np.split(sides.sum(axis=0), 2)
        """Number of patients with rows of a class, and with rows without it, of shape (K,) each."""
        self.rare = np.minimum(self.positive, self.negative) < MIN_PATIENTS
        """True if a class has too few positive or negative patients for an interval, of shape (K,)."""
        pairs = self.positive * self.negative
        self.half_pair = 0.5 / np.where(pairs, pairs, np.nan)
        """Half of the contribution of a pair of patients to the AUC of each class, of shape (K,); NaN without pairs."""
        self._needed = sides[:, np.tile(pairs > 0, 2)].astype(np.float32)

    def patient_indices(self, patients: Patients) -> npt.NDArray[np.intp]:
        """Return the index of the patient of each row, of shape (N,)."""
        if not np.array_equal(np.unique(patients), self._patients):
            raise ValueError("Both sides of a comparison need the same patients.")
        return np.searchsorted(self._patients, patients)

    def draws(self, replicates: int, seed: int) -> Iterator[Floats]:
        """Yield how often each patient is drawn, of shape (patients,). Draws without all classes are skipped.

        There are fewer draws than ``replicates`` if nearly every draw loses a class.
        """
        return islice(self._complete_draws(draw_counts(self.size, replicates, seed)), replicates)

    def blocks(self, replicates: int, seed: int, num_rows: int) -> Iterator[Floats]:
        """Yield the draws in blocks of shape (patients, B), with B for metrics of ``num_rows`` rows."""
        draws = self.draws(replicates, seed)
        while block := list(islice(draws, max(WEIGHTS_PER_BLOCK // max(num_rows, 1), 1))):
            yield np.stack(block, axis=1)

    def _complete_draws(self, draws: Iterator[Floats]) -> Iterator[Floats]:
        while candidates := list(islice(draws, DRAWS_PER_CHECK)):
            drawn = np.stack(candidates, dtype=np.float32, casting="same_kind") @ self._needed
            yield from (candidates[index] for index in np.flatnonzero((drawn > 0).all(axis=1)))
