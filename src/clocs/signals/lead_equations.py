"""Check recordings against Einthoven's and Goldberger's equations, and find swapped leads."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording
from clocs.signals.leads import LEAD_EQUATIONS

Values = npt.NDArray[np.float64]
Fault = tuple[str, str]
"""Name of a lead, and its measured deviation as text."""

LIMB_LEADS = {"I": (1.0, 0.0), "II": (0.0, 1.0)} | {
    lead: (sums["I"], sums["II"]) for lead, sums in LEAD_EQUATIONS.items()
}
"""Weights of I and II in each limb lead. The six leads lie in one plane, so any three of them satisfy an equation."""
SWAP_FACTOR = 2.0
"""Two leads count as swapped if the lead equations fit this much better with their names swapped. The factor is at most
1.5 in the 10,606 Chapman records that are not flat, and above 2 in 98 to 100 % of them after a swap of two names."""
SWAP_FLOOR = 0.02
"""Deviation from the equations, as a fraction of the limb leads' amplitude, below which no swap is searched."""


def equation_faults(
    recording: Recording, present: npt.NDArray[np.bool_], max_error: float, max_amplitude: float | None
) -> list[Fault]:
    """Return the leads that violate the lead equations, or that are swapped.

    The check needs at least three measured limb leads.

    Args:
        recording: The recording.
        present: Mask of shape (leads, samples), false for missing samples.
        max_error: Maximum deviation from the equations, as a fraction of the amplitude of the limb leads (both RMS).
        max_amplitude: Amplitude beyond which samples are ignored, in the unit of the recording; None for no limit.

    Returns:
        Leads with a description of their fault.
    """
    signals, usable = _limb_signals(recording, present, max_amplitude)
    if not signals:
        return []
    faults = _equation_errors(signals, max_error)
    products = _inner_products(list(signals.values()))
    if faults or _distance_from_plane(products, tuple(signals)) <= SWAP_FLOOR * np.sqrt(np.trace(products)):
        return faults
    chest = sorted(
        lead for row, lead in enumerate(recording.leads) if lead not in LIMB_LEADS and present[row, usable].all()
    )
    chest_values = _physical(recording, [recording.leads.index(lead) for lead in chest])[:, usable]
    return _find_swap(signals, dict(zip(chest, chest_values, strict=True)))


@dataclass(frozen=True)
class OrderFit:
    """Agreement of limb leads with the lead equations, in their declared order and in the order that fits best."""

    error: float
    """Deviation in the declared order, as a fraction of the amplitude of the limb leads (both RMS)."""
    order: dict[str, str]
    """Lead that each misnamed lead seems to be; empty if the declared order fits."""


def fit_order(recording: Recording, present: npt.NDArray[np.bool_]) -> OrderFit | None:
    """Compare the declared order of the limb leads with all their permutations.

    Args:
        recording: The recording.
        present: Mask of shape (leads, samples), false for missing samples.

    Returns:
        The fit; None with fewer than three measured limb leads, or if they are flat.
    """
    signals, _ = _limb_signals(recording, present, None)
    products = _inner_products(list(signals.values())) if signals else np.zeros((1, 1))
    size = float(np.trace(products))
    if not size > 0:
        return None
    limbs = tuple(signals)
    permutations, weights = _permutations(limbs)
    errors = np.sqrt(np.maximum(weights @ products.reshape(-1), 0.0) / size)
    declared, best = float(errors[0]), int(np.argmin(errors))
    if declared <= max(SWAP_FLOOR, SWAP_FACTOR * float(errors[best])):
        return OrderFit(declared, {})
    pairs = zip(limbs, (limbs[row] for row in permutations[best]), strict=True)
    return OrderFit(declared, {name: lead for name, lead in pairs if name != lead})


@functools.cache
def _permutations(limbs: tuple[str, ...]) -> tuple[list[tuple[int, ...]], Values]:
    """Return the permutations of limb leads, those that move the fewest first, and weights of the inner products.

    The weights, of shape (permutations, limbs * limbs), give the squared distance from the plane.
    """
    normals = _normals(limbs)
    projection, rows = normals.T @ normals, range(len(limbs))
    permutations = sorted(itertools.permutations(rows), key=lambda order: sum(map(int.__ne__, order, rows)))
    return permutations, np.stack([projection[np.ix_(order, order)].reshape(-1) for order in permutations])


def _limb_signals(
    recording: Recording, present: npt.NDArray[np.bool_], max_amplitude: float | None
) -> tuple[dict[str, Values], npt.NDArray[np.bool_]]:
    """Return the usable samples of the measured limb leads, empty if there are too few, and their mask."""
    limbs = [lead for lead in LIMB_LEADS if lead in recording.leads and lead not in recording.provenance.derived_leads]
    if len(limbs) < 3:
        return {}, np.zeros(0, np.bool_)
    rows = [recording.leads.index(lead) for lead in limbs]
    values = _physical(recording, rows)
    usable = present[rows].all(axis=0)
    if max_amplitude is not None:  # simultaneous spikes on all leads violate the equations
        usable &= (np.abs(values) <= max_amplitude).all(axis=0)
    # Equal values other than zero on all limb leads are a calibration pulse.
    usable &= (values != values[0]).any(axis=0) | (values[0] == 0)
    if not usable.any():
        return {}, usable
    return dict(zip(limbs, values if usable.all() else values[:, usable], strict=True)), usable


def _equation_errors(signals: dict[str, Values], limit: float) -> list[Fault]:
    """Return the leads that differ from their equation, if I and II are measured."""
    if not {"I", "II"} <= set(signals):
        return []
    size = max(_rms(signals["I"]), _rms(signals["II"]))
    faults: list[Fault] = []
    for lead in (lead for lead in LEAD_EQUATIONS if lead in signals):
        expected = sum(weight * signals[name] for name, weight in LEAD_EQUATIONS[lead].items())
        error = _rms(signals[lead] - expected) / size if size else 0.0
        if error > limit:
            faults.append((lead, f"deviates from its equation by {error:.2f} of the limb leads' amplitude"))
    return faults


def _find_swap(limbs: dict[str, Values], chest: dict[str, Values]) -> list[Fault]:
    """Find a limb lead and another lead that fit the equations much better with their names swapped."""
    names = (*limbs, *chest)
    products = _inner_products([*limbs.values(), *chest.values()])

    def distance_after_swap(one: int, other: int) -> float:
        """Return the distance from the plane after a swap of two rows."""
        order = [{one: other, other: one}.get(row, row) for row in range(len(limbs))]
        return _distance_from_plane(products[np.ix_(order, order)], tuple(limbs))

    pairs = [(one, other) for one in range(len(limbs)) for other in range(one + 1, len(names))]
    best, pair = min((distance_after_swap(*pair), pair) for pair in pairs)
    unswapped = distance_after_swap(0, 0)
    if unswapped <= SWAP_FACTOR * best:
        return []
    size = float(np.sqrt(np.trace(products[: len(limbs), : len(limbs)])))
    one, other = (names[row] for row in pair)
    detail = (
        f"limb leads deviate from their equations by {unswapped / size:.2g} of their amplitude, "
        f"{best / size:.2g} if this lead is "
    )
    return [(one, detail + other), (other, detail + one)]


def _inner_products(rows: list[Values]) -> Values:
    """Return the inner products of centered rows, of shape (rows, rows)."""
    centered = np.stack([values - values.mean() for values in rows])
    return np.asarray(np.einsum("is,js->ij", centered, centered))  # faster than @, which starts threads


def _distance_from_plane(products: Values, limbs: tuple[str, ...]) -> float:
    """Return the distance (root of the sum of squares) of limb leads from their plane, given their inner products."""
    normals = _normals(limbs)
    return float(np.sqrt(max(np.sum(normals @ products * normals), 0.0)))


@functools.cache
def _normals(limbs: tuple[str, ...]) -> Values:
    """Return unit vectors orthogonal to the plane of limb leads, of shape (limbs - 2, limbs)."""
    directions = np.linalg.svd(np.array([LIMB_LEADS[lead] for lead in limbs]))[0]
    return np.asarray(directions[:, 2:].T)


def _physical(recording: Recording, rows: list[int]) -> Values:
    """Return rows of a recording in its unit, of shape (rows, samples)."""
    digital, zero = recording.digital[rows], recording.baseline[rows, None].astype(np.float64)
    return np.asarray((digital - zero) / recording.gain[rows, None])


def _rms(values: Values) -> float:
    return float(np.sqrt(np.mean(np.square(values - values.mean()))))
