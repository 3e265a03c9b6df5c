"""De-identification of recordings and texts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.recording import Episode, Provenance
from clocs.datasets.redaction import deidentify_recording, patient_id_from, replace_values
from tests.conftest import make_recording

KEY = PatientKey(b"k" * 32)
TYPED = replace(
    make_recording(leads=("I", "Smith, John", "V2"), record_id="Smith"),
    site="St Mary",
    age=97.0,
    sex="female",
    labels=("seen by Smith",),
    episodes=(Episode(0, 9, "Smith"),),
    provenance=Provenance("ward/Smith.xml", "muse-xml", "ab" * 32, 5000, notes=("lead Smith was off",)),
)


def test_typed_text_is_removed_and_the_signal_is_kept() -> None:
    plain = deidentify_recording(TYPED, KEY, name="ward/Smith.xml", patient="123")
    assert "Smith" not in repr(plain)
    assert (plain.record_id, plain.provenance.source) == (KEY.record("ward/Smith.xml"),) * 2
    assert plain.patient_id == KEY.patient("123")
    assert plain.leads == ("I", "lead 2", "V2")
    assert (plain.age, plain.sex, plain.site, plain.labels, plain.episodes) == (90.0, "female", "", (), ())
    assert plain.provenance.sha256 == KEY.file("ab" * 32) != "ab" * 32
    np.testing.assert_array_equal(plain.digital, TYPED.digital)


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        (("lead 3", "V2", "Foo"), ("lead 3", "V2", "lead 4")),
        (("Foo", "lead 1", "Bar"), ("lead 2", "lead 1", "lead 3")),
        (("Foo", "Bar", "lead 2"), ("lead 1", "lead 3", "lead 2")),
        (("lead 2", "Foo", "lead 3", "Bar"), ("lead 2", "lead 4", "lead 3", "lead 5")),
    ],
)
def test_lead_numbers_in_use_are_skipped(typed: tuple[str, ...], plain: tuple[str, ...]) -> None:
    assert deidentify_recording(make_recording(typed), KEY, name="n", patient="").leads == plain


def test_listed_fields_are_kept() -> None:
    kept = deidentify_recording(TYPED, KEY, name="n", patient="", keep=("labels", "notes", "leads", "site"))
    assert (kept.labels, kept.episodes, kept.leads, kept.site) == (
        TYPED.labels,
        TYPED.episodes,
        TYPED.leads,
        TYPED.site,
    )
    assert kept.provenance.notes == TYPED.provenance.notes
    assert kept.patient_id == kept.record_id, "without a number, a patient of its own"


@pytest.mark.parametrize(("age", "shown"), [(None, None), (0.5, 0.5), (89.0, 89.0), (90.0, 90.0), (150.0, 90.0)])
def test_ages_from_90_are_pooled(age: float | None, shown: float | None) -> None:
    assert deidentify_recording(replace(TYPED, age=age), KEY, name="n", patient="").age == shown


@pytest.mark.parametrize(
    ("values", "patient"),
    [
        (("2.16.840.1.113883.3.456", "SBJ-123"), "SBJ-123"),
        (("2.16.840.1.113883.3.456",), "2.16.840.1.113883.3.456"),
        (("159357456",), "159357456"),
        (("0", "17"), "17"),
        (("0000",), ""),
        (("xxxxxx",), ""),
        (("removed",), ""),
        (("Unknown",), ""),
        ((), ""),
    ],
)
def test_placeholders_are_not_patient_ids(values: tuple[str, ...], patient: str) -> None:
    assert patient_id_from({"patient_id": values}) == patient


def test_values_are_replaced_only_as_whole_words() -> None:
    said = "atc/test_123.atc: does not match the checksum of TEST_123"
    assert replace_values(said, ("atc/test_123.atc", "test_123", "atc"), "X") == "X: does not match the checksum of X"


@given(st.text("ABcd, ", max_size=60), st.lists(st.text("abcd", min_size=4, max_size=12), max_size=4))
def test_replaced_values_do_not_remain(text: str, values: list[str]) -> None:
    left = replace_values(f"{text}, {' '.join(values)}.", values, "|").lower()
    assert not [value for value in values if len(value) > 8 and value in left]
    assert not set(values) & set(re.split(r"\W+", left))
