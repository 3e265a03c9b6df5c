"""WFDB records in the layout of PhysioNet's challenges, for tests of datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from clocs.signals.leads import STANDARD_LEADS

MATLAB_HEADER = bytes(24)
"""Place of the header of a MATLAB file, which WFDB skips."""


def limb_leads(num_samples: int = 5000, seed: int = 0) -> npt.NDArray[np.int16]:
    """Return twelve leads of about 1 mV in steps of 1 uV that satisfy the lead equations, (12, samples)."""
    walk = np.cumsum(np.random.default_rng(seed).normal(size=(8, num_samples)), axis=1)
    one, two, *chest = 1000 * walk / np.abs(walk).max(axis=1, keepdims=True)
    rows = [one, two, two - one, -(one + two) / 2, one - two / 2, two - one / 2, *chest]
    return np.rint(rows).astype(np.int16)


def write_challenge_record(
    folder: Path, name: str, comments: str, *, sampling_rate: int = 500, unit: str = "mV", num_samples: int = 5000
) -> Path:
    """Write NAME.hea and NAME.mat as the challenges do, with comment lines as given."""
    folder.mkdir(parents=True, exist_ok=True)
    digital = limb_leads(num_samples, seed=len(name) + sum(name.encode()))
    (folder / f"{name}.mat").write_bytes(MATLAB_HEADER + digital.T.astype("<i2").tobytes())
    lines = [f"{name} 12 {sampling_rate} {num_samples} 05-Feb-2020 11:39:16"]
    lines += [
        f"{name}.mat 16+24 1000/{unit} 16 0 {row[0]} 0 0 {lead}"
        for row, lead in zip(digital, STANDARD_LEADS, strict=True)
    ]
    (folder / f"{name}.hea").write_text("\n".join([*lines, comments.strip("\n")]) + "\n")
    return folder / f"{name}.hea"
