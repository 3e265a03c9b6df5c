"""Lead numbers, held against DICOM's context group 3001 as pydicom publishes it."""

from __future__ import annotations

import re

from pydicom.sr.codedict import codes
from pydicom.sr.coding import Code

from clocs.formats.lead_codes import CALCULATED_LEADS, LEADS
from clocs.signals.leads import STANDARD_LEADS


def published() -> dict[int, str]:
    """Meanings by number: Lead V3R, aVL, augmented voltage, left, EASI Lead AI and so on."""
    found = [getattr(codes.cid3001, name) for name in dir(codes.cid3001)]
    group = [code for code in found if isinstance(code, Code)]
    return {int(code.value.removeprefix("2:")): code.meaning for code in group}


def test_every_plain_lead_has_the_number_that_dicom_gives_it() -> None:
    meanings = published()
    found = {
        number: re.fullmatch(r"(?:EASI )?Lead (\w{1,3})(?: \(.*\)|,.*)?|(aV\w), .*", text)
        for number, text in meanings.items()
    }
    named = {number: match.group(1) or match.group(2) for number, match in found.items() if match}
    assert set(STANDARD_LEADS) <= set(named.values())
    assert len(named) > 35
    assert named == {number: LEADS[number] for number in named}


def test_leads_of_a_placement_and_of_franks_have_their_numbers() -> None:
    forms = {r"Frank Lead (\w)": "f{}", r"Modified chest lead per V(\d) placement": "MCL{}"}
    for number, text in published().items():
        for pattern, name in forms.items():
            if match := re.fullmatch(pattern, text):
                assert LEADS[number] == name.format(match.group(1))


def test_calculated_leads_have_the_numbers_that_dicom_gives_derived_ones() -> None:
    derived = {
        number: match.group(1)
        for number, text in published().items()
        if (match := re.fullmatch(r"Derived Lead (\w+)", text))
    }
    assert set(derived.values()) == set(STANDARD_LEADS)
    assert derived == {number: CALCULATED_LEADS[number] for number in derived}
    assert not set(CALCULATED_LEADS) & set(LEADS)
