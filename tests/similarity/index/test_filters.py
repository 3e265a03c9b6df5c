"""Filters, compared with a Python loop over patients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError, OptionError
from clocs.similarity.index.filters import NO_FILTER, Filter, parse_columns
from clocs.similarity.index.patient_index import PatientIndex, open_index
from clocs.similarity.index.patients import SCHEMA
from clocs.similarity.index.updates import add_archive, build_index
from tests.similarity.archives import clustered, people, write_archive

SITES, SEXES, LABELS = ("", "north", "south"), (None, "female", "male"), ("AFIB", "SB", "SR")
EXTRA = tuple({"name": name, "value": value} for name in ("fold", "ward") for value in ("1", "2"))
TYPES = {"fold": pa.int64(), "ward": pa.string()}
PATIENT = st.fixed_dictionaries(
    {
        "patient_id": st.just("p"),
        "site": st.sampled_from(SITES),
        "age": st.one_of(st.none(), st.sampled_from([0.0, 59.5, 60.0, 70.0, 70.5])),
        "sex": st.sampled_from(SEXES),
        "labels": st.lists(st.sampled_from(LABELS), unique=True),
        "extra": st.lists(st.sampled_from(EXTRA), unique_by=str),
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
    columns=st.sampled_from(({}, {"fold": 1}, {"fold": [1, "2"]}, {"ward": "2", "fold": None}, {"ward": [None, "1"]})),
)


def has(patient: dict[str, Any], wanted: Filter) -> bool:
    if wanted.site is not None and patient["site"] != wanted.site:
        return False
    if wanted.sex is not None and patient["sex"] != wanted.sex:
        return False
    if wanted.age is not None and not (patient["age"] is not None and wanted.age[0] <= patient["age"] <= wanted.age[1]):
        return False
    for name, values in wanted.columns.items():
        held = {item["value"] for item in patient["extra"] if item["name"] == name}
        if not (held & {str(value) for value in values}) and not (None in values and not held):
            return False
    return wanted.label is None or wanted.label in patient["labels"]


@settings(max_examples=150)
@given(st.lists(PATIENT, max_size=12), WANTED)
def test_as_a_loop_over_patients(patients: list[dict[str, Any]], wanted: Filter) -> None:
    batch = pa.RecordBatch.from_pylist(patients, SCHEMA)
    assert wanted.mask(batch, TYPES).tolist() == [has(patient, wanted) for patient in patients]
    assert NO_FILTER.mask(batch).all()


@pytest.mark.parametrize("wrong", [{"age": (70, 60)}, {"age": (float("nan"), 60)}, {"sex": "other"}])
def test_invalid_filters_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Filter(**wrong)


def test_conditions_are_read_from_text() -> None:
    found = parse_columns(["device=CS-12", " fold =3", "device = AT=6", "ward="])
    assert found == {"device": ["CS-12", "AT=6"], "fold": ["3"], "ward": [None]}
    for wrong in ("device", "=3", " =3"):
        with pytest.raises(OptionError, match=r"Expected a condition such as device=CS-12"):
            parse_columns([wrong])


@pytest.fixture
def index(tmp_path: Path) -> PatientIndex:
    """Two volumes. The column ``dose`` has integers in one and numbers in the other, ``code`` integers and text."""
    values = [{"dose": str(number), "code": f"{number:02d}" if number > 8 else str(number)} for number in range(12)]
    rows = [{**row, "extra": extra} for row, extra in zip(people(12), values, strict=True)]
    rows[10]["extra"] = {"dose": "2.5", "code": "010", "device": "CS-12"}
    rows[11]["extra"] = {}
    build_index(write_archive(tmp_path / "one", rows[:6], clustered(6, 8)), tmp_path / "index")
    add_archive(tmp_path / "index", write_archive(tmp_path / "two", rows[6:], clustered(6, 8, seed=2)))
    return open_index(tmp_path / "index")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"dose": 3}, {"p3"}),
        ({"dose": "3.0"}, {"p3"}),
        ({"dose": [2.5, 7]}, {"p10", "p7"}),
        ({"code": "010"}, {"p10"}),
        ({"code": 10}, set()),
        ({"device": None}, {f"p{number}" for number in range(12)} - {"p10"}),
        ({"dose": None}, {"p11"}),
        ({"dose": [None, 1], "code": "1"}, {"p1"}),
    ],
)
def test_columns_have_the_type_of_all_their_values(
    index: PatientIndex, columns: dict[str, Any], expected: set[str]
) -> None:
    found = index.search(np.eye(1, 8), 12, Filter(columns=columns))
    assert set(found.patient_ids[0]) - {""} == expected


def test_an_unknown_column_is_answered_with_those_that_exist(index: PatientIndex) -> None:
    with pytest.raises(OptionError, match=r"Unknown column 'devise'\. Extra columns .* index: code, device, dose\."):
        index.search(np.eye(1, 8), 1, Filter(columns={"devise": "CS-12"}))
    with pytest.raises(OptionError, match=r"Column 'dose' has values of type double, got \['high'\]"):
        index.search(np.eye(1, 8), 1, Filter(columns={"dose": "high"}))


def test_values_of_all_recordings_count_and_stay_after_a_rebuild(tmp_path: Path) -> None:
    rows = [{**row, "extra": {"ward": str(number)}} for number, row in enumerate(people(3, recordings=2))]
    build_index(write_archive(tmp_path / "one", rows[:5], clustered(5, 8)), tmp_path / "index")
    add_archive(tmp_path / "index", write_archive(tmp_path / "two", rows[5:], clustered(1, 8)))
    index = open_index(tmp_path / "index")
    for _ in range(2):
        found = [index.search(np.eye(1, 8), 3, Filter(columns={"ward": ward})).patient_ids[0, 0] for ward in range(6)]
        assert found == ["p0", "p0", "p1", "p1", "p2", "p2"]
        index.rebuild()
