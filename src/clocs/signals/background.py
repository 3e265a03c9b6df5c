"""What a lead shows besides beats: fibrillating atria, baseline wander, mains hum and noise."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.signals.heart_vector import bounded

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

FIBRILLATION: Final = np.array([(-0.036, 0.030, -0.056), (-0.018, 0.048, -0.038)])
"""(components, 3): dipoles of the fibrillating atria in mV, largest in V1 and V2."""
WANDER: Final = 0.040
"""mV: scale of a lead's baseline wander, with the breath and slower."""
NOISE: Final = 0.009
"""mV: usual standard deviation of noise."""
HUM: Final = (0.004, 0.018)
"""mV: range of the amplitude of mains hum."""
PAIR_DEVIATION: Final = 104.5
"""Standard deviation of the sum of two random bytes."""
HUMMING: Final = 0.25
"""Share of recordings with mains hum."""


def fibrillation(chest: Array, num_samples: int, sampling_rate: float, random: np.random.Generator) -> Floats:
    """Return the waves of fibrillating atria, 5 to 8 Hz and never quite regular.

    Args:
        chest: (leads, 3): projection of a dipole onto the leads; its unit is that of the result, per mV.
        num_samples: Length.
        sampling_rate: Samples per second.
        random: Generator of the recording.

    Returns:
        Waves of shape (leads, num_samples).
    """
    turns = np.float32(1.8) * _sines(random.uniform(0.4, 1.4, 2), num_samples, sampling_rate, random)
    waves = _sines(random.uniform((5.0, 6.0), (6.5, 8.0)), num_samples, sampling_rate, random, turns)
    weights = chest @ FIBRILLATION.T * np.exp(0.35 * bounded(random))
    return np.asarray(weights.astype(np.float32) @ waves)


def artifacts(
    num_leads: int, num_samples: int, sampling_rate: float, breath: tuple[float, float], random: np.random.Generator
) -> Floats:
    """Return baseline wander, noise and, in some recordings, mains hum.

    Args:
        num_leads: Number of independent leads.
        num_samples: Length.
        sampling_rate: Samples per second.
        breath: Frequency in Hz and phase of breathing, which moves the baseline.
        random: Generator of the recording.

    Returns:
        Disturbances in mV, (num_leads, num_samples).
    """
    hertz = np.array([breath[0], random.uniform(0.04, 0.1), random.choice((50.0, 60.0))])
    waves = _sines(hertz, num_samples, sampling_rate, random)
    weights = bounded(random, num_leads, 3) * (WANDER, WANDER, 1.0) * np.exp(0.6 * bounded(random))
    weights[:, 2] = random.uniform(0.4, 1.6, num_leads) * random.uniform(*HUM) * (random.random() < HUMMING)
    raw = random.bit_generator.random_raw(-(-num_leads * (num_samples + 1) // 8))  # 30 x faster than normal numbers
    flat = raw.astype("<u8", copy=False).view(np.int8)[: num_leads * (num_samples + 1)]
    steps = flat.reshape(num_leads, num_samples + 1).astype(np.float32)
    level = NOISE * np.exp(0.45 * bounded(random) + 0.3 * bounded(random, num_leads, 1)) / PAIR_DEVIATION
    noise = steps[:, 1:] + steps[:, :-1]  # less noise at the highest frequencies
    noise *= level.astype(np.float32)
    noise += weights.astype(np.float32) @ waves
    return np.asarray(noise)


def _sines(
    hertz: Array, num_samples: int, sampling_rate: float, random: np.random.Generator, shift: Floats | None = None
) -> Floats:
    """Return (waves, num_samples): a sine for each frequency, with a random phase, shifted by radians over time."""
    time = np.arange(num_samples, dtype=np.float32) / np.float32(sampling_rate)
    phases = (2 * np.pi * hertz[:, None]).astype(np.float32) * time
    phases += random.uniform(0, 2 * np.pi, (len(hertz), 1)).astype(np.float32)
    if shift is not None:
        phases += shift
    return np.asarray(np.sin(phases, out=phases))
