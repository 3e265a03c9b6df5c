"""Files that are wrong on purpose are corrected or refused with a reason, as far as anything in them shows it."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.formats.case_files import EIGHT, FORMS, Case, case_of, real_cases
from tests.formats.wrong_files import FAULTS, outcome, wrong_files

SHARE = 3
STATED = {"muse-xml", "aecg", "philips-xml", "cardiosoft-xml", "dicom", "scp"}
"""Formats with a place for the heart rate that the device measured."""
ALWAYS = {
    *(fault for fault in FAULTS if fault.startswith("unit") or "announced" in fault or fault == "cut short"),
    "names in another order than the leads",
}
"""Faults that are caught wherever a format can have them."""
EXCEPT = {("chapman-csv", "cut short"), ("apple-watch", "cut short")}
"""They state no length: a cut is seen but where it falls into the last number of a row, or into the last second."""
LIMB_NAMES = ("names of two limb leads exchanged", "names of a limb and a chest lead exchanged")
"""Caught where a file holds more limb leads than two."""
UNSEEN = {"names of two chest leads exchanged", "left arm and leg exchanged"}
"""Nothing in a file shows these for certain."""


@cache
def cases(archive: Path) -> list[Case]:
    return list(real_cases(archive))


def outcomes(form: str, fault: str, some: list[Case]) -> Counter[str]:
    """What becomes of the faulty files of some recordings; nothing where the format cannot have the fault."""
    found: Counter[str] = Counter()
    for number, case in enumerate(some):
        files = wrong_files(case, FORMS[form], fault, random.Random(f"{form} {fault} {number}"))
        if files is not None:
            found[outcome(files, case_of(case, FORMS[form]).recording)] += 1
    return found


@pytest.mark.parametrize("form", FORMS)
def test_the_same_files_without_a_fault_are_stored_as_they_are(form: str, originals: Path) -> None:
    for case in cases(originals)[::40]:
        right = case_of(case, FORMS[form])
        assert outcome(FORMS[form].write(right), right.recording) == "corrected"


@pytest.mark.parametrize("form", FORMS)
def test_what_can_be_seen_is_never_silently_stored(form: str, originals: Path) -> None:
    some = cases(originals)[:: len(cases(originals)) // SHARE][:SHARE]
    limbs = set(LIMB_NAMES) if FORMS[form].leads != EIGHT else set()
    for fault in (fault for fault in ALWAYS | limbs if (form, fault) not in EXCEPT):
        assert not outcomes(form, fault, some)["stored"], fault


@pytest.mark.parametrize("form", sorted({*STATED, "alivecor", "apple-watch", "clocs-csv"}))
def test_a_wrong_rate_is_seen_where_something_else_tells_it(form: str, originals: Path) -> None:
    """The heart rate that a device states, the rate that a device always has, or a column of times."""
    some = cases(originals)[:: len(cases(originals)) // SHARE][:SHARE]
    found = outcomes(form, "rate halved", some) + outcomes(form, "rate doubled", some)
    assert found["sampling_rate"] + found["unreadable"] >= (SHARE if form in STATED else 2 * SHARE)


@pytest.mark.slow
def test_the_share_that_is_caught(originals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over all real recordings at hand: the table of docs/format-campaigns.md."""
    every = cases(originals)
    rows = []
    for fault in FAULTS:
        found = {form: outcomes(form, fault, every) for form in FORMS}
        rows.append(" | ".join([f"| {fault}", *map(_share, found.values())]) + " |")
        stored = {form: counts["stored"] for form, counts in found.items() if (form, fault) not in EXCEPT}
        assert fault not in ALWAYS or not any(stored.values()), (fault, stored)
        assert fault in UNSEEN or any(counts - Counter({"stored": len(every)}) for counts in found.values())
    with capsys.disabled():
        print(f"\n{len(every)} recordings\n| fault | {' | '.join(FORMS)} |\n" + "\n".join(rows))


def _share(found: Counter[str]) -> str:
    total = sum(found.values())
    return f"{1 - found['stored'] / total:.0%}" if total else "–"
