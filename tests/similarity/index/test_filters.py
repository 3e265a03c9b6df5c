"""Filters, compared with a Python loop over patients."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.similarity.index.filters import NO_FILTER, Filter
from clocs.similarity.index.patients import SCHEMA

SITES, SEXES, LABELS = ("", "north", "south"), (None, "female", "male"), ("AFIB", "SB", "SR")
PATIENT = st.fixed_dictionaries(
    {
        "patient_id": st.just("p"),
        "site": st.sampled_from(SITES),
        "age": st.one_of(st.none(), st.sampled_from([0.0, 59.5, 60.0, 70.0, 70.5])),
        "sex": st.sampled_from(SEXES),
        "labels": st.lists(st.sampled_from(LABELS), unique=True),
        "recordings": st.just([]),
        "coherence": st.just(1.0),
    }
)
WANTED = st.builds(
    Filter,
    site=st.sampled_from((None, *SITES)),
    age=st.sampled_from((None, (60, 70), (0, 59.5))),
    sex=st.sampled_from(SEXES),
    label=st.sampled_from((None, *LABELS)),
)


def has(patient: dict[str, Any], wanted: Filter) -> bool:
    if wanted.site is not None and patient["site"] != wanted.site:
        return False
    if wanted.sex is not None and patient["sex"] != wanted.sex:
        return False
    if wanted.age is not None and not (patient["age"] is not None and wanted.age[0] <= patient["age"] <= wanted.age[1]):
        return False
    return wanted.label is None or wanted.label in patient["labels"]


@settings(max_examples=150)
@given(st.lists(PATIENT, max_size=12), WANTED)
def test_as_a_loop_over_patients(patients: list[dict[str, Any]], wanted: Filter) -> None:
    batch = pa.RecordBatch.from_pylist(patients, SCHEMA)
    assert wanted.mask(batch).tolist() == [has(patient, wanted) for patient in patients]
    assert NO_FILTER.mask(batch).all()


@pytest.mark.parametrize("wrong", [{"age": (70, 60)}, {"age": (float("nan"), 60)}, {"sex": "other"}])
def test_invalid_filters_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Filter(**wrong)
