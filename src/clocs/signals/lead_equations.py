"""Check recordings against Einthoven's and Goldberger's equations, and find swapped leads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
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
BLOCK = 1750 * 12
"""Values that are compared at once. A product of larger matrices starts threads."""


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
    limbs = _measured_limbs(recording)
    usable = _usable_samples(recording, limbs, present, max_amplitude)
    if not usable.any():
        return []
    products = _inner_products(recording, limbs, usable)
    faults = _equation_errors(products, limbs, max_error)
    if faults or _distance_from_plane(products, limbs) <= SWAP_FLOOR * np.sqrt(np.trace(products)):
        return faults
    kept = slice(None) if usable.all() else usable
    chest = sorted(
        lead for row, lead in enumerate(recording.leads) if lead not in LIMB_LEADS and present[row, kept].all()
    )
    return _find_swap(limbs, (*limbs, *chest), _inner_products(recording, (*limbs, *chest), usable))


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
    limbs = _measured_limbs(recording)
    usable = _usable_samples(recording, limbs, present, None)
    products = _inner_products(recording, limbs, usable) if usable.any() else np.zeros((1, 1))
    size = float(np.trace(products))
    if not size > 0:
        return None
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


def _measured_limbs(recording: Recording) -> tuple[str, ...]:
    """Return the measured limb leads."""
    return tuple(
        lead for lead in LIMB_LEADS if lead in recording.leads and lead not in recording.provenance.derived_leads
    )


def _usable_samples(
    recording: Recording, limbs: tuple[str, ...], present: npt.NDArray[np.bool_], max_amplitude: float | None
) -> npt.NDArray[np.bool_]:
    """Return the mask of the samples at which limb leads can be compared, false with fewer than three of them."""
    if len(limbs) < 3:
        return np.zeros(recording.num_samples, np.bool_)
    usable = np.asarray(present[[recording.leads.index(lead) for lead in limbs]].all(axis=0))
    for part, values in _blocks(recording, limbs):
        if max_amplitude is not None:  # simultaneous spikes on all leads violate the equations
            usable[part] &= (np.abs(values) <= max_amplitude).all(axis=0)
        # Equal values other than zero on all limb leads are a calibration pulse.
        usable[part] &= (values != values[0]).any(axis=0) | (values[0] == 0)
    return usable


def _blocks(recording: Recording, leads: tuple[str, ...]) -> Iterator[tuple[slice, Values]]:
    """Yield leads in the unit of the recording by blocks of samples that fit into the processor's cache."""
    rows = [recording.leads.index(lead) for lead in leads]
    zero, gain = recording.baseline[rows, None].astype(np.float64), recording.gain[rows, None]
    length = BLOCK // len(leads)
    for start in range(0, recording.num_samples, length):
        part = slice(start, start + length)
        values = recording.digital[rows, part].astype(np.float64)
        values -= zero
        values /= gain
        yield part, values


def _equation_errors(products: Values, limbs: tuple[str, ...], limit: float) -> list[Fault]:
    """Return the leads that differ from their equation, given the leads' inner products, if I and II are measured."""
    if not {"I", "II"} <= set(limbs):
        return []
    size = float(max(products[row, row] for row in (limbs.index("I"), limbs.index("II"))))
    faults: list[Fault] = []
    for lead in (lead for lead in LEAD_EQUATIONS if lead in limbs):
        difference = np.array([float(name == lead) - LEAD_EQUATIONS[lead].get(name, 0.0) for name in limbs])
        error = float(np.sqrt(max(difference @ products @ difference, 0.0) / size)) if size else 0.0
        if error > limit:
            faults.append((lead, f"deviates from its equation by {error:.2f} of the limb leads' amplitude"))
    return faults


def _find_swap(limbs: tuple[str, ...], names: tuple[str, ...], products: Values) -> list[Fault]:
    """Find a limb lead and another lead that fit the equations much better with their names swapped.

    The inner products are those of the leads ``names``, limb leads first.
    """
    pairs, weights = _swaps(limbs, len(names))
    unswapped, *swapped = np.sqrt(np.maximum(weights @ products.reshape(-1), 0.0)).tolist()
    best, pair = min(zip(swapped, pairs, strict=True))
    if unswapped <= SWAP_FACTOR * best:
        return []
    size = float(np.sqrt(np.trace(products[: len(limbs), : len(limbs)])))
    one, other = (names[row] for row in pair)
    detail = (
        f"limb leads deviate from their equations by {unswapped / size:.2g} of their amplitude, "
        f"{best / size:.2g} if this lead is "
    )
    return [(one, detail + other), (other, detail + one)]


@functools.cache
def _swaps(limbs: tuple[str, ...], num_leads: int) -> tuple[list[tuple[int, int]], Values]:
    """Return the pairs of a limb lead and another one, and weights of the inner products of all leads.

    The weights, of shape (1 + pairs, leads * leads), give the squared distance of the limb leads from their plane:
    first as they are, then after a swap of each pair.
    """
    normals = _normals(limbs)
    rows = range(len(limbs))
    pairs = [(one, other) for one in rows for other in range(one + 1, num_leads)]
    weights = np.zeros((1 + len(pairs), num_leads, num_leads))
    for weight, (one, other) in zip(weights, [(0, 0), *pairs], strict=True):
        order = [{one: other, other: one}.get(row, row) for row in rows]
        weight[np.ix_(order, order)] = normals.T @ normals
    return pairs, weights.reshape(len(weights), -1)


def _inner_products(recording: Recording, leads: tuple[str, ...], usable: npt.NDArray[np.bool_]) -> Values:
    """Return the inner products of leads without their means, over usable samples, of shape (leads, leads)."""
    is_complete, count = bool(usable.all()), int(np.count_nonzero(usable))
    products, total, origin = np.zeros((len(leads), len(leads))), np.zeros((len(leads), 1)), None
    for part, values in _blocks(recording, leads):
        kept = values if is_complete else values[:, usable[part]]
        if origin is None and kept.size:
            origin = kept[:, :1].copy()  # near the mean, so that its square hides nothing
        if origin is not None:
            kept -= origin
            total += kept.sum(axis=1, keepdims=True)
            products += kept @ kept.T.copy()  # faster than a product with itself
    return np.asarray(products - total @ total.T / count)


def _distance_from_plane(products: Values, limbs: tuple[str, ...]) -> float:
    """Return the distance (root of the sum of squares) of limb leads from their plane, given their inner products."""
    normals = _normals(limbs)
    return float(np.sqrt(max(np.sum(normals @ products * normals), 0.0)))


@functools.cache
def _normals(limbs: tuple[str, ...]) -> Values:
    """Return unit vectors orthogonal to the plane of limb leads, of shape (limbs - 2, limbs)."""
    directions = np.linalg.svd(np.array([LIMB_LEADS[lead] for lead in limbs]))[0]
    return np.asarray(directions[:, 2:].T)
