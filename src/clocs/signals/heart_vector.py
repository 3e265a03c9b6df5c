"""Simulated heart vector: dipoles of P, QRS, ST and T over time, projected onto the leads by Dower's matrix.

A wave is a smooth bump with an exact start, peak and end, so that PR, QRS and QT are known exactly. Dipoles are in mV,
with axes to the left (x), down (y) and back (z).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SOURCE_LEADS: Final = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
"""The eight independent leads."""
DOWER: Final = np.array(
    [
        (0.632, 0.235, -0.515, 0.044, 0.882, 1.213, 1.125, 0.831),
        (-0.235, 1.066, 0.157, 0.164, 0.098, 0.127, 0.127, 0.076),
        (0.059, -0.132, -0.917, -1.387, -1.277, -0.601, -0.086, 0.230),
    ]
).T
"""Projection of a dipole onto the eight independent leads, of shape (source leads, 3) (Dower et al., 1980)."""

P_WAVE: Final = np.array([(0.0, 0.38, 0.76, 0.060, 0.075, -0.065), (0.24, 0.62, 1.0, 0.080, 0.050, 0.025)])
"""Waves of the right and the left atrium, of shape (2, 6): start, peak and end as fractions of the P duration, and the
dipole."""
ECTOPIC_P: Final = np.array([(0.0, 0.4, 0.75, 0.050, -0.095, 0.020), (0.25, 0.6, 1.0, 0.020, -0.080, -0.050)])
"""Waves of an ectopic beat from the lower atrium, of shape (2, 6)."""
_NORMAL_QRS: Final = np.array(
    [
        (0.00, 0.20, 0.44, -0.19, 0.02, -0.25),  # septum: q in left leads, r in V1
        (0.14, 0.48, 0.76, 1.12, 0.66, 0.24),  # free walls: R
        (0.44, 0.72, 1.00, -0.10, -0.12, 0.58),  # base: S
    ]
)
_LEFT_BLOCK_QRS: Final = np.array(
    [
        (0.00, 0.22, 0.46, 0.25, 0.16, 0.10),
        (0.12, 0.38, 0.70, 0.90, 0.38, 0.98),
        (0.38, 0.69, 1.00, 0.98, 0.10, 1.05),
    ]
)
_RIGHT_BLOCK_QRS: Final = np.array(
    [
        (0.00, 0.14, 0.30, -0.20, 0.02, -0.30),
        (0.09, 0.32, 0.54, 1.25, 0.75, 0.24),
        (0.38, 0.64, 1.00, -0.50, -0.05, -0.62),
    ]
)
_LEFT_HYPERTROPHY_QRS: Final = np.array(
    [
        (0.00, 0.18, 0.38, -0.20, 0.02, -0.36),
        (0.13, 0.50, 0.80, 2.25, 0.70, 0.90),
        (0.46, 0.74, 1.00, -0.05, -0.20, 0.95),
    ]
)
_RIGHT_HYPERTROPHY_QRS: Final = np.array(
    [
        (0.00, 0.24, 0.48, 0.42, 0.25, -0.25),
        (0.18, 0.50, 0.80, -0.45, 0.95, -0.85),
        (0.48, 0.76, 1.00, -0.60, -0.10, 0.05),
    ]
)
_PACED_QRS: Final = np.array(
    [
        (0.00, 0.24, 0.50, 0.15, -0.25, 0.25),
        (0.12, 0.44, 0.74, 0.42, -1.00, 1.00),
        (0.42, 0.72, 1.00, 0.22, -0.60, 0.65),
    ]
)
_ECTOPIC_QRS: Final = (
    np.array([(0.0, 0.36, 0.72, 0.60, 1.45, 0.85), (0.34, 0.68, 1.0, 0.45, 0.75, 0.85)]),  # right outflow tract
    np.array([(0.0, 0.40, 0.74, -0.55, -1.25, -0.95), (0.36, 0.68, 1.0, -0.60, -0.85, -0.40)]),  # left posterior wall
    np.array([(0.0, 0.34, 0.70, 0.60, -1.05, 1.05), (0.36, 0.70, 1.0, 0.35, -0.90, 0.60)]),  # right apex
)


@dataclass(frozen=True)
class Shape:
    """Ventricular waves of one kind of beat.

    Args:
        qrs: Waves of shape (waves, 6): start, peak and end as fractions of the QRS duration, and the dipole.
        qrs_duration: Range of the QRS duration in seconds.
        t: Dipole of the T wave.
        st: Dipole of the ST segment; zero if it is isoelectric.
        anatomical: Whether QRS and T rotate with the axis of the heart of the patient.
    """

    qrs: Array
    qrs_duration: tuple[float, float] = (0.082, 0.104)
    t: tuple[float, ...] = (0.30, 0.18, -0.14)
    st: tuple[float, ...] = (0.0, 0.0, 0.0)
    anatomical: bool = True


SHAPES: Final = {
    "": Shape(_NORMAL_QRS),
    "LBBB": Shape(_LEFT_BLOCK_QRS, (0.134, 0.164), (-0.30, -0.04, -0.42), (-0.07, 0.0, -0.16)),
    "RBBB": Shape(_RIGHT_BLOCK_QRS, (0.126, 0.150), (0.32, 0.18, 0.17), (0.01, 0.0, 0.05)),
    "LVH": Shape(_LEFT_HYPERTROPHY_QRS, (0.094, 0.112), (-0.22, 0.05, -0.36), (-0.09, -0.02, -0.09)),
    "RVH": Shape(_RIGHT_HYPERTROPHY_QRS, (0.084, 0.106), (0.26, -0.06, 0.26), (0.02, -0.05, 0.08)),
    "PACE": Shape(_PACED_QRS, (0.140, 0.176), (-0.18, 0.42, -0.34), (-0.04, 0.10, -0.09), anatomical=False),
    "STE-ANT": Shape(_NORMAL_QRS, t=(0.34, 0.10, -0.32), st=(0.12, -0.03, -0.27)),
    "STE-INF": Shape(_NORMAL_QRS, t=(0.12, 0.42, -0.06), st=(-0.12, 0.28, 0.06)),
    "STE-LAT": Shape(_NORMAL_QRS, t=(0.48, 0.08, 0.00), st=(0.29, -0.09, 0.06)),
    "STD-ANT": Shape(_NORMAL_QRS, t=(0.22, 0.16, 0.14), st=(-0.03, 0.01, 0.17)),
    "STD-INF": Shape(_NORMAL_QRS, t=(0.26, -0.08, -0.16), st=(-0.09, -0.18, -0.01)),
    "STD-LAT": Shape(_NORMAL_QRS, t=(-0.10, 0.14, -0.16), st=(-0.20, 0.02, -0.02)),
}
"""Finding -> shape of the usual beats. The empty finding is a normal beat."""
ESCAPE: Final = Shape(_LEFT_BLOCK_QRS, (0.130, 0.160), (-0.30, -0.10, -0.40), (-0.05, 0.0, -0.10))
"""Wide escape beat of a complete AV block."""
ECTOPIC: Final = tuple(
    Shape(qrs, (0.136, 0.172), tuple(-0.42 * qrs[:, 3:].mean(axis=0)), tuple(-0.08 * qrs[:, 3:].mean(axis=0)), False)
    for qrs in _ECTOPIC_QRS
)
"""Ventricular ectopic beats by origin: right outflow tract, left posterior wall, right apex."""
SPIKE: Final = np.array([-0.25, 0.75, -0.35])
"""Dipole of a pacing spike."""
P, QRS, T = slice(None), slice(-3), slice(-2, None)
"""Rows of the waves: P in an atrial beat, QRS and T in a ventricular beat."""
_MAX_WAVES = 3
T_FALL: Final = 0.112
"""Seconds from the peak of T to its end at a heart rate of 60 beats per minute."""
ISOELECTRIC: Final = 0.02
"""Seconds from the end of QRS to the start of T."""
T_PEAKED: Final = 0.65
"""Fraction of the T wave that rises late. The remainder rises from the start of T."""


@dataclass(frozen=True)
class Heart:
    """Properties of the heart and body of a patient, which all of the patient's recordings share.

    Args:
        turn: Rotation of the heart in the chest, of shape (3, 3).
        size: Factor on every dipole.
        qrs: Logarithm of the amplitude of each wave and relative deviation of its dipole, of shape (waves, 4).
        t: Relative deviation of the T dipole, of shape (3,).
        st: Relative deviation of the ST dipole, of shape (3,).
        p: Relative deviations of the P dipoles, of shape (2, 3).
        strength: Logarithms of the amplitudes of P, T and ST, of shape (3,).
        chest: Projection of the dipole onto the leads, of shape (source leads, 3).
        tempo: Position in the range of heart rates of a rhythm, 0 to 1.
        pr: PR interval in seconds at a heart rate of 60 beats per minute.
        p_duration: Duration of the P wave in seconds.
        qrs_position: Position in the range of QRS durations, 0 to 1.
        qt: QT interval in seconds at a heart rate of 60 beats per minute with a QRS of 90 ms.
        origin: Index in ``ECTOPIC`` of the origin of ectopic ventricular beats.
        wide_escape: Whether escape beats originate below the bundle of His.
    """

    turn: Array
    size: float
    qrs: Array
    t: Array
    st: Array
    p: Array
    strength: Array
    chest: Array
    tempo: float
    pr: float
    p_duration: float
    qrs_position: float
    qt: float
    origin: int
    wide_escape: bool


def make_heart(random: np.random.Generator) -> Heart:
    """Draw the heart of a patient at random."""
    tilt, turn = np.radians(clipped_normal(random, 2) * (19.0, 9.0))
    return Heart(
        turn=_rotation(tilt, turn),
        size=float(np.exp(0.16 * clipped_normal(random))),
        qrs=clipped_normal(random, _MAX_WAVES, 4) * (0.16, 0.09, 0.09, 0.09),
        t=0.16 * clipped_normal(random, 3),
        st=0.10 * clipped_normal(random, 3),
        p=0.14 * clipped_normal(random, 2, 3),
        strength=clipped_normal(random, 3) * (0.15, 0.25, 0.25),
        chest=DOWER * np.exp(0.09 * clipped_normal(random, len(DOWER), 1)),
        tempo=float(random.random()),
        pr=float(random.uniform(0.128, 0.184)),
        p_duration=float(random.uniform(0.088, 0.114)),
        qrs_position=float(random.random()),
        qt=float(random.uniform(0.370, 0.415)),
        origin=int(random.integers(len(ECTOPIC))),
        wide_escape=bool(random.random() < 0.5),
    )


def vary_heart(heart: Heart, random: np.random.Generator) -> Heart:
    """Vary a heart slightly, as posture and electrode placement do between recordings."""
    tilt, turn = np.radians(clipped_normal(random, 2) * (2.5, 1.5))
    changed = {
        "turn": _rotation(tilt, turn) @ heart.turn,
        "size": heart.size * float(np.exp(0.03 * clipped_normal(random))),
        "chest": heart.chest * np.exp(0.03 * clipped_normal(random, len(DOWER), 1)),
        "strength": heart.strength + 0.05 * clipped_normal(random, 3),
        "tempo": float(np.clip(heart.tempo + 0.06 * clipped_normal(random), 0, 1)),
        "pr": heart.pr * (1 + 0.02 * float(clipped_normal(random))),
        "qt": heart.qt * (1 + 0.01 * float(clipped_normal(random))),
    }
    return Heart(**(vars(heart) | changed))


@dataclass(frozen=True)
class Beat:
    """Heart vector of an atrial or ventricular beat, which begins at 0 seconds.

    Args:
        times: Start, peak and end of the waves in seconds, of shape (waves, 3).
        dipoles: Dipoles of the waves in mV, of shape (waves, 3).
        duration: Duration of the P wave or QRS complex in seconds.
        end: Seconds from the onset to the end of the last wave: the QT interval, or the P duration.
    """

    times: Array
    dipoles: Array
    duration: float
    end: float

    def vector(self, time: Array) -> Array:
        """Return the vector in mV, of shape (3, times), at times in seconds after the onset."""
        return np.asarray(self.dipoles.T @ self._bumps(time))

    def area(self, waves: slice) -> Array:
        """Return the time integral of the vector of some waves in mV s, of shape (3,)."""
        spans = (self.times[waves, 2] - self.times[waves, 0]) * 8 / 15
        return np.asarray(spans @ self.dipoles[waves])

    def _bumps(self, time: Array) -> Array:
        distance = time - self.times[:, 1:2]
        distance /= np.where(
            distance < 0, self.times[:, 1:2] - self.times[:, :1], self.times[:, 2:] - self.times[:, 1:2]
        )
        return np.square(np.maximum(1 - distance * distance, 0))


def ventricular_beat(heart: Heart, shape: Shape, interval: float) -> Beat:
    """Return QRS, ST and T of a heart with an interval between beats in seconds."""
    shortest, longest = shape.qrs_duration
    duration = shortest + (longest - shortest) * heart.qrs_position
    pace = math.cbrt(interval)
    end = heart.qt * pace + 0.6 * (duration - 0.09)
    count = len(shape.qrs)
    deviation = np.linalg.norm(shape.qrs[:, 3:], axis=1, keepdims=True) * heart.qrs[:count, 1:]
    qrs = shape.qrs[:, 3:] * np.exp(heart.qrs[:count, :1]) + deviation
    t = np.array(shape.t) * np.exp(heart.strength[1]) + np.linalg.norm(shape.t) * heart.t
    st = np.array(shape.st) * np.exp(heart.strength[2]) + np.linalg.norm(shape.st) * heart.st
    if shape.anatomical:
        qrs, t = qrs @ heart.turn.T, t @ _half_rotation(heart.turn).T
    peak = end - T_FALL * pace
    late = [
        (0.55 * duration, duration + 0.03, 0.8 * end),
        (duration + ISOELECTRIC, peak, end),
        (peak - 0.5 * (peak - duration), peak, end),
    ]
    return Beat(
        times=np.concatenate([shape.qrs[:, :3] * duration, late]),
        dipoles=np.concatenate([qrs, [st, (1 - T_PEAKED) * t, T_PEAKED * t]]) * heart.size,
        duration=duration,
        end=end,
    )


def atrial_beat(heart: Heart, waves: Array) -> Beat:
    """Return the P wave of a heart for ``P_WAVE`` or ``ECTOPIC_P``."""
    dipoles = waves[:, 3:] * np.exp(heart.strength[0])
    dipoles = dipoles + np.linalg.norm(waves[:, 3:], axis=1, keepdims=True) * heart.p
    duration = heart.p_duration
    return Beat(waves[:, :3] * duration, dipoles @ _half_rotation(heart.turn).T * heart.size, duration, duration)


def frontal_axis(leads: Array) -> float:
    """Return the frontal axis of a wave in degrees, given its areas in the source leads."""
    one, two = float(leads[0]), float(leads[1])
    return math.degrees(math.atan2((two - one / 2) * 2 / math.sqrt(3), one))


def clipped_normal(random: np.random.Generator, *shape: int) -> Array:
    """Draw standard normal numbers, clipped at two standard deviations to keep patients plausible."""
    return np.asarray(random.standard_normal(shape)).clip(-2, 2)


def _rotation(tilt: float, turn: float) -> Array:
    """Return a rotation in the frontal plane followed by one in the transverse plane."""
    frontal = np.array([(np.cos(tilt), -np.sin(tilt), 0), (np.sin(tilt), np.cos(tilt), 0), (0, 0, 1)])
    transverse = np.array([(np.cos(turn), 0, -np.sin(turn)), (0, 1, 0), (np.sin(turn), 0, np.cos(turn))])
    return np.asarray(transverse @ frontal)


def _half_rotation(turn: Array) -> Array:
    """Return about half of a small rotation, because P and T follow the position of the heart less than QRS."""
    mixed = np.eye(3) + turn
    return np.asarray(mixed / np.linalg.norm(mixed, axis=0))
