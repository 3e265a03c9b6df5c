"""Lead numbers, compared with DICOM context group 3001 in pydicom."""

from __future__ import annotations

import re

from pydicom.sr.codedict import codes
from pydicom.sr.coding import Code

from clocs.formats.lead_codes import CALCULATED_LEADS, LEADS
from clocs.signals.leads import STANDARD_LEADS


def published() -> dict[int, str]:
    """Return code meanings by number, such as Lead V3R or EASI Lead AI."""
    found = [getattr(codes.cid3001, name) for name in dir(codes.cid3001)]
    group = [code for code in found if isinstance(code, Code)]
    return {int(code.value.removeprefix("2:")): code.meaning for code in group}


def test_leads_have_the_numbers_of_dicom() -> None:
    meanings = published()
    found = {
        number: re.fullmatch(r"(?:EASI )?Lead (\w{1,3})(?: \(.*\)|,.*)?|(aV\w), .*", text)
        for number, text in meanings.items()
    }
    named = {number: match.group(1) or match.group(2) for number, match in found.items() if match}
    assert set(STANDARD_LEADS) <= set(named.values())
    assert len(named) > 35
    assert named == {number: LEADS[number] for number in named}


def test_frank_and_other_leads_have_the_numbers_of_dicom() -> None:
    forms = {r"Frank Lead (\w)": "f{}", r"Modified chest lead per V(\d) placement": "MCL{}"}
    for number, text in published().items():
        for pattern, name in forms.items():
            if match := re.fullmatch(pattern, text):
                assert LEADS[number] == name.format(match.group(1))


def test_calculated_leads_have_the_numbers_of_dicom() -> None:
    derived = {
        number: match.group(1)
        for number, text in published().items()
        if (match := re.fullmatch(r"Derived Lead (\w+)", text))
    }
    assert set(derived.values()) == set(STANDARD_LEADS)
    assert derived == {number: CALCULATED_LEADS[number] for number in derived}
    assert not set(CALCULATED_LEADS) & set(LEADS)
