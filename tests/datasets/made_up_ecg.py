"""Made-up twelve-lead signals that pass the quality gate, for trees in the layout of a publisher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from clocs.core.sources.folder_source import FolderSource
from clocs.datasets.synthetic import SYNTHETIC, SyntheticOptions


def millivolts(number: int, sampling_rate: float, seconds: float = 7.0) -> npt.NDArray[np.float64]:
    """Return the signal of a synthetic recording in mV, (12, samples), in the standard order of leads."""
    options = SyntheticOptions(num_records=number + 1, sampling_rate=sampling_rate, seconds=seconds)
    *_, entry = SYNTHETIC.entries(FolderSource(Path()), options)
    return SYNTHETIC.load(FolderSource(Path()), entry, options).signal.astype(np.float64)


def padded(signal: npt.NDArray[np.float64], before: int, length: int = 4096) -> npt.NDArray[np.float64]:
    """Return a signal as a row (samples, leads) with zeros before and after it."""
    row = np.zeros((length, len(signal)))
    row[before : before + signal.shape[1]] = signal.T
    return row
