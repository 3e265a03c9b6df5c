"""Patients that are hidden because they are too distant, and patients without a lead of the query."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.similarity.index.manifest import DistanceLimit, read_index_manifest, write_index_manifest
from clocs.similarity.index.patient_index import PatientIndex, open_index
from tests.similarity.archives import clustered, people, write_archive


def index_of(folder: Path, **lacks: list[str]) -> PatientIndex:
    """Twelve patients; the named ones lack leads."""
    rows = [{**row, "lacks": lacks.get(row["patient_id"], [])} for row in people(12)]
    write_archive(folder / "archive", rows, clustered(12, 16, clusters=12))
    clocs.build_index(folder / "archive", folder / "index")
    return open_index(folder / "index")


def limit_to(index: PatientIndex, distance: float) -> None:
    limit = DistanceLimit(distance=distance, split="default", part="validation", recordings=200, exceeded=0.01)
    manifest = read_index_manifest(index.folder)
    write_index_manifest(index.folder, manifest.model_copy(update={"limit": limit}))


def test_patients_beyond_the_limit_are_hidden_with_a_sentence(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    all_ten = index.similar("r0-0", k=10)
    assert (len(all_ten.neighbors), all_ten.num_hidden, all_ten.notes) == (10, 0, ())
    limit_to(index, (all_ten.neighbors[3].distance + all_ten.neighbors[4].distance) / 2)
    found = index.similar("r0-0", k=10)
    assert found.neighbors == all_ten.neighbors[:4]
    assert found.num_hidden == found.as_dict()["num_hidden"] == 6
    assert found.notes[0].startswith("6 of the 10 nearest patients are hidden: their distance is over ")
    assert found.notes[0].endswith("Of 200 validation recordings, 1% have no patient within this distance.")
    limit_to(index, all_ten.neighbors[0].distance / 2)
    none = index.similar("r0-0", k=10)
    assert (none.neighbors, none.num_hidden) == ((), 10)
    assert none.notes[0].startswith("All patients are hidden: their distance is over ")
    own = index.similar("r0-0", k=10, include_own_patient=True)
    assert [item.patient_id for item in own.neighbors] == ["p0"]


def test_patients_without_a_lead_of_the_query_are_not_compared(tmp_path: Path) -> None:
    index = index_of(tmp_path, p0=["V2"], p1=["II"], p2=["II"], p3=["V2"])
    found = index.similar("r0-0", k=12)
    assert {item.patient_id for item in found.neighbors} == {f"p{number}" for number in range(3, 12)}
    assert [lead.lead for item in found.neighbors for lead in item.why] == ["II"] * 9
    assert found.notes == (
        "2 patients are not compared: no embedding of lead II.",
        "Only 9 patients of the index match.",
    )
    assert len(index.similar("r4-0", k=12).neighbors) == 11, "it has both leads"
    named = index.similar("r1-0", k=12, label="AFIB")
    assert {item.patient_id for item in named.neighbors} == {"p4", "p7", "p10"}
    assert named.notes == ("Only 3 patients of the index match.",), "all patients with this label have lead V2"


@pytest.mark.parametrize("shared", [True, False])
def test_the_recording_that_is_shown_shares_a_lead(shared: bool, tmp_path: Path) -> None:
    """The second recording of p1 is the query itself, in another lead."""
    rows = [{**row, "lacks": ["II"] if row["record_id"] == "r1-1" and not shared else []} for row in people(2)]
    rows.append({**rows[1], "record_id": "r1-1", "lacks": [] if shared else ["II"]})
    rows[0]["lacks"] = ["V2"]
    vectors = clustered(3, 16, clusters=3)
    vectors[2] = 0.99 * vectors[0] + 0.01 * vectors[1]
    vectors /= (vectors**2).sum(axis=1, keepdims=True) ** 0.5
    write_archive(tmp_path / "archive", rows, vectors)
    clocs.build_index(tmp_path / "archive", tmp_path / "index")
    (neighbor,) = open_index(tmp_path / "index").similar("r0-0", k=1).neighbors
    assert neighbor.record_id == ("r1-1" if shared else "r1-0")
