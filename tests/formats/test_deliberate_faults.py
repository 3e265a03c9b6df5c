"""Files with deliberate faults are corrected or rejected with a reason, if the fault is detectable."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.formats.case_files import EIGHT_LEADS, FORMAT_CASES, Case, adapt_case, real_cases
from tests.formats.faulty_files import FAULTS, faulty_files, outcome

SHARE = 3
STATED = {"muse-xml", "aecg", "philips-xml", "cardiosoft-xml", "dicom", "scp"}
"""Formats with a field for the heart rate that the device reports."""
ALWAYS = {
    *(fault for fault in FAULTS if fault.startswith("unit") or "announced" in fault or fault == "cut short"),
    "names in another order than the leads",
}
"""Faults that are detected in every format that can have them."""
EXCEPT = {("chapman-csv", "cut short"), ("apple-watch", "cut short")}
"""Formats without a declared length. Most truncations are detected, except within a number or the last second."""
LIMB_NAMES = ("names of two limb leads exchanged", "names of a limb and a chest lead exchanged")
"""Faults that are detected if a file has more than two limb leads."""
UNSEEN = {"names of two chest leads exchanged", "left arm and leg exchanged"}
"""Faults that cannot be detected with certainty."""


@cache
def cases(archive: Path) -> list[Case]:
    return list(real_cases(archive))


def outcomes(form: str, fault: str, some: list[Case]) -> Counter[str]:
    """Count the outcomes of the faulty files of some recordings. Return none for an impossible fault."""
    found: Counter[str] = Counter()
    for number, case in enumerate(some):
        files = faulty_files(case, FORMAT_CASES[form], fault, random.Random(f"{form} {fault} {number}"))
        if files is not None:
            found[outcome(files, adapt_case(case, FORMAT_CASES[form]).recording)] += 1
    return found


@pytest.mark.parametrize("form", FORMAT_CASES)
def test_files_without_a_fault_are_stored(form: str, originals: Path) -> None:
    for case in cases(originals)[::40]:
        right = adapt_case(case, FORMAT_CASES[form])
        assert outcome(FORMAT_CASES[form].write(right), right.recording) == "corrected"


@pytest.mark.parametrize("form", FORMAT_CASES)
def test_detectable_faults_are_never_stored(form: str, originals: Path) -> None:
    some = cases(originals)[:: len(cases(originals)) // SHARE][:SHARE]
    limbs = set(LIMB_NAMES) if FORMAT_CASES[form].leads != EIGHT_LEADS else set()
    for fault in (fault for fault in ALWAYS | limbs if (form, fault) not in EXCEPT):
        assert not outcomes(form, fault, some)["stored"], fault


@pytest.mark.parametrize("form", sorted({*STATED, "alivecor", "apple-watch", "clocs-csv"}))
def test_wrong_sampling_rate_is_detected_by_other_information(form: str, originals: Path) -> None:
    """The reported heart rate, the fixed sampling rate of a device, or a column of times reveals it."""
    some = cases(originals)[:: len(cases(originals)) // SHARE][:SHARE]
    found = outcomes(form, "rate halved", some) + outcomes(form, "rate doubled", some)
    assert found["sampling_rate"] + found["unreadable"] >= (SHARE if form in STATED else 2 * SHARE)


@pytest.mark.slow
def test_fraction_of_detected_faults(originals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Print the table of docs/background/faulty-files.md over all real recordings."""
    every = cases(originals)
    rows = []
    for fault in FAULTS:
        found = {form: outcomes(form, fault, every) for form in FORMAT_CASES}
        rows.append(" | ".join([f"| {fault}", *map(_share, found.values())]) + " |")
        stored = {form: counts["stored"] for form, counts in found.items() if (form, fault) not in EXCEPT}
        assert fault not in ALWAYS or not any(stored.values()), (fault, stored)
        assert fault in UNSEEN or any(counts - Counter({"stored": len(every)}) for counts in found.values())
    with capsys.disabled():
        print(f"\n{len(every)} recordings\n| fault | {' | '.join(FORMAT_CASES)} |\n" + "\n".join(rows))


def _share(found: Counter[str]) -> str:
    total = sum(found.values())
    return f"{1 - found['stored'] / total:.0%}" if total else "–"
