"""Files with deliberate faults: the metadata does not match the samples."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from clocs.core.errors import FormatError, SignalError
from clocs.core.recording import Recording
from clocs.datasets.folder import FOLDER
from clocs.formats.reading import read_from
from clocs.service.parsing.reading import MemorySource
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import REASONS, assess
from tests.formats.case_files import Case, Files, FormatCase, adapt_case
from tests.formats.writers.recordings import millivolts

Fault = Callable[[Case, random.Random], Case | None]
"""Function that returns a faulty case, or None if the leads of the format do not allow it."""


def _renamed(case: Case, leads: tuple[str, ...]) -> Case:
    return case.holding(replace(case.recording, leads=leads))


def _exchange(first: tuple[str, ...], second: tuple[str, ...]) -> Fault:
    """Return a fault that exchanges the names of two leads, one of each set."""

    def exchanged(case: Case, choice: random.Random) -> Case | None:
        leads = list(case.recording.leads)
        one = [lead for lead in leads if lead in first]
        other = [lead for lead in leads if lead in second]
        if not one or not set(other) - set(one[:1] if one == other else ()):
            return None
        here = choice.choice(one)
        there = choice.choice([lead for lead in other if lead != here])
        swapped = {here: there, there: here}
        return _renamed(case, tuple(swapped.get(lead, lead) for lead in leads))

    return exchanged


def _alphabetical(case: Case, choice: random.Random) -> Case | None:
    """Return a case with the names of the leads in alphabetical order."""
    leads = tuple(sorted(case.recording.leads))
    return _renamed(case, leads) if leads != case.recording.leads else None


def _scaled(factor: float) -> Fault:
    return lambda case, choice: case.holding(replace(case.recording, gain=case.recording.gain / factor))


def _timed(factor: float) -> Fault:
    return lambda case, choice: replace(case, sampling_rate=case.sampling_rate * factor)


def _announced(factor: float) -> Fault:
    return lambda case, choice: replace(case, num_samples=round(case.num_samples * factor))


def _fewer_leads(case: Case, choice: random.Random) -> Case | None:
    return replace(case, leads=case.leads - 1)


def _electrodes(one: str, other: str) -> Fault:
    """Return a fault that exchanges two limb electrodes, with the leads that are then measured."""

    def exchanged(case: Case, choice: random.Random) -> Case | None:
        rows = dict(zip(case.recording.leads, case.recording.digital.astype(np.float64), strict=True))
        if "I" not in rows or ("II" not in rows and "LL" in (one, other)):
            return None
        at = {"RA": np.zeros(case.recording.num_samples), "LA": rows["I"], "LL": rows.get("II", rows["I"])}
        at[one], at[other] = at[other], at[one]
        middle = (at["RA"] + at["LA"] + at["LL"]) / 3
        measured = {"I": at["LA"] - at["RA"], "II": at["LL"] - at["RA"], "III": at["LL"] - at["LA"]}
        measured |= {lead: 1.5 * (at[limb] - middle) for lead, limb in (("aVR", "RA"), ("aVL", "LA"), ("aVF", "LL"))}
        digital = np.stack([measured.get(lead, values) for lead, values in rows.items()]).round().astype(np.int16)
        return case.holding(replace(case.recording, digital=digital))

    return exchanged


LIMBS, CHEST = STANDARD_LEADS[:6], STANDARD_LEADS[6:]
FAULTS: dict[str, tuple[Fault, str]] = {
    "names of two limb leads exchanged": (_exchange(LIMBS, LIMBS), "names"),
    "names of a limb and a chest lead exchanged": (_exchange(LIMBS, CHEST), "names"),
    "names of two chest leads exchanged": (_exchange(CHEST, CHEST), "names"),
    "names in another order than the leads": (_alphabetical, "names"),
    "unit 1,000 times too large": (_scaled(1000), "unit"),
    "unit 1,000 times too small": (_scaled(0.001), "unit"),
    "rate halved": (_timed(0.5), "sampling_rate"),
    "rate doubled": (_timed(2), "sampling_rate"),
    "arm electrodes exchanged": (_electrodes("RA", "LA"), ""),
    "right arm and leg exchanged": (_electrodes("RA", "LL"), ""),
    "left arm and leg exchanged": (_electrodes("LA", "LL"), ""),
    "twice the samples announced": (_announced(2), "num_samples"),
    "half the samples announced": (_announced(0.5), "num_samples"),
    "a lead fewer announced": (_fewer_leads, "leads"),
    "cut short": (lambda case, choice: case, ""),
}
"""Faults, each with the metadata that a format must state to have it."""
CUT = "cut short"


def faulty_files(case: Case, form: FormatCase, fault: str, choice: random.Random) -> Files | None:
    """Return the files of a case with a fault, or None if the format cannot have it."""
    change, needed = FAULTS[fault]
    wrong = change(adapt_case(case, form), choice) if needed not in form.missing_fields else None
    if wrong is None:
        return None
    try:
        files = form.write(wrong)
    except (struct.error, SignalError, OverflowError):  # the format has no such numbers
        return None
    if fault == CUT:
        largest = max(files, key=lambda name: len(files[name]))
        files[largest] = files[largest][: int(len(files[largest]) * choice.uniform(0.1, 0.999))]
    return files


def outcome(files: Files, truth: Recording) -> str:
    """Return the outcome of ``clocs data ingest folder``: the reason of a rejection, ``corrected`` or ``stored``."""
    try:
        read = read_from(MemorySource(files), next(iter(files)))
    except FormatError:
        return "unreadable"
    if found := assess(read, FOLDER.gate):
        return min((finding.reason for finding in found), key=REASONS.index)
    same = (
        read.leads == truth.leads
        and read.sampling_rate == truth.sampling_rate
        and read.num_samples == truth.num_samples
    )
    return "corrected" if same and np.allclose(millivolts(read), millivolts(truth), rtol=0, atol=6e-4) else "stored"
