"""Signals besides beats in simulated ECGs: fibrillating atria, baseline wander, mains hum and noise."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.signals.heart_vector import clipped_normal

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

FIBRILLATION_DIPOLES: Final = np.array([(-0.036, 0.030, -0.056), (-0.018, 0.048, -0.038)])
"""Dipoles of the fibrillating atria in mV, of shape (components, 3). They are largest in V1 and V2."""
WANDER_SCALE: Final = 0.040
"""Scale of baseline wander in mV."""
NOISE_STD: Final = 0.009
"""Typical standard deviation of noise in mV."""
HUM_AMPLITUDE: Final = (0.004, 0.018)
"""Range of the amplitude of mains hum in mV."""
BYTE_PAIR_STD: Final = 104.5
"""Standard deviation of the sum of two random bytes."""
HUM_PROBABILITY: Final = 0.25
"""Fraction of recordings with mains hum."""


def fibrillation(chest: Array, num_samples: int, sampling_rate: float, random: np.random.Generator) -> Floats:
    """Simulate the waves of fibrillating atria: 5 to 8 Hz, slightly irregular.

    Args:
        chest: Projection of a dipole in mV onto the leads, of shape (leads, 3). It determines the unit of the result.
        num_samples: Number of samples.
        sampling_rate: Sampling rate in Hz.
        random: Random generator of the recording.

    Returns:
        Waves of shape (leads, num_samples).
    """
    phase_shift = np.float32(1.8) * _sines(random.uniform(0.4, 1.4, 2), num_samples, sampling_rate, random)
    waves = _sines(random.uniform((5.0, 6.0), (6.5, 8.0)), num_samples, sampling_rate, random, phase_shift)
    weights = chest @ FIBRILLATION_DIPOLES.T * np.exp(0.35 * clipped_normal(random))
    return np.asarray(weights.astype(np.float32) @ waves)


def artifacts(
    num_leads: int, num_samples: int, sampling_rate: float, breathing: tuple[float, float], random: np.random.Generator
) -> Floats:
    """Simulate baseline wander, noise and, in some recordings, mains hum.

    Args:
        num_leads: Number of independent leads.
        num_samples: Number of samples.
        sampling_rate: Sampling rate in Hz.
        breathing: Frequency in Hz and phase in radians of breathing, which moves the baseline.
        random: Random generator of the recording.

    Returns:
        Artifacts in mV of shape (num_leads, num_samples).
    """
    frequencies = np.array([breathing[0], random.uniform(0.04, 0.1), random.choice((50.0, 60.0))])
    waves = _sines(frequencies, num_samples, sampling_rate, random)
    weights = (
        clipped_normal(random, num_leads, 3) * (WANDER_SCALE, WANDER_SCALE, 1.0) * np.exp(0.6 * clipped_normal(random))
    )
    weights[:, 2] = (
        random.uniform(0.4, 1.6, num_leads) * random.uniform(*HUM_AMPLITUDE) * (random.random() < HUM_PROBABILITY)
    )
    raw = random.bit_generator.random_raw(-(-num_leads * (num_samples + 1) // 8))  # 30 times faster than normal numbers
    flat = raw.astype("<u8", copy=False).view(np.int8)[: num_leads * (num_samples + 1)]
    steps = flat.reshape(num_leads, num_samples + 1).astype(np.float32)
    level = (
        NOISE_STD * np.exp(0.45 * clipped_normal(random) + 0.3 * clipped_normal(random, num_leads, 1)) / BYTE_PAIR_STD
    )
    noise = steps[:, 1:] + steps[:, :-1]  # reduces noise at the highest frequencies
    noise *= level.astype(np.float32)
    noise += weights.astype(np.float32) @ waves
    return np.asarray(noise)


def _sines(
    frequencies: Array, num_samples: int, sampling_rate: float, random: np.random.Generator, shift: Floats | None = None
) -> Floats:
    """Return a sine of random phase, shifted by radians, for each frequency; of shape (frequencies, num_samples)."""
    time = np.arange(num_samples, dtype=np.float32) / np.float32(sampling_rate)
    phases = (2 * np.pi * frequencies[:, None]).astype(np.float32) * time
    phases += random.uniform(0, 2 * np.pi, (len(frequencies), 1)).astype(np.float32)
    if shift is not None:
        phases += shift
    return np.asarray(np.sin(phases, out=phases))
