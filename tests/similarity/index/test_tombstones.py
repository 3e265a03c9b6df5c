"""Random sequences of add, withdraw, rebuild and search, compared with a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.patient_index import PatientIndex, open_index
from clocs.similarity.index.updates import add_archive, build_index, rebuild_index
from clocs.similarity.index.withdraw import withdraw_from_index
from clocs.similarity.segments import Vectors, unit_length
from tests.similarity.archives import Row, clustered, near, people, write_archive

pytest.importorskip("faiss", reason="needs the extra 'search'")
PATIENTS, RECORDINGS, E = 12, 3, 8
ROWS = people(PATIENTS, recordings=RECORDINGS)
VECTORS = clustered(len(ROWS), E, clusters=5)
ADD = st.tuples(st.just("add"), st.lists(st.integers(0, len(ROWS) - 1), min_size=1, max_size=10, unique=True))
WITHDRAW = st.tuples(st.just("withdraw"), st.lists(st.integers(0, PATIENTS - 1), min_size=1, max_size=3, unique=True))
REBUILD = st.tuples(st.just("rebuild"), st.just([0]))


class Model:
    """Expected content of an index: recordings by patient, and withdrawn patients."""

    def __init__(self) -> None:
        self.recordings: dict[str, list[int]] = {}
        self.withdrawn: set[str] = set()

    def add(self, chosen: list[int]) -> None:
        for number in chosen:
            patient = ROWS[number]["patient_id"]
            if patient not in self.withdrawn and number not in self.recordings.get(patient, []):
                self.recordings.setdefault(patient, []).append(number)

    def withdraw(self, patients: set[str]) -> None:
        for patient in patients:
            del self.recordings[patient]
        self.withdrawn |= patients

    def nearest(self, query: Vectors, k: int, wanted: Filter) -> list[tuple[str, float]]:
        """Search by a loop over patients. The site of a patient is that of the first recording."""
        found = []
        for patient, numbers in self.recordings.items():
            facts = [ROWS[number] for number in numbers]
            if wanted.site is not None and facts[0]["site"] != wanted.site:
                continue
            if wanted.label is not None and wanted.label not in facts[0]["labels"]:
                continue
            mean = unit_length(VECTORS[numbers].mean(axis=0, dtype=np.float64)[None])[0]
            found.append((patient, float(mean @ query)))
        return sorted(found, key=lambda pair: -pair[1])[:k]


def check(index: PatientIndex, model: Model, seed: int) -> None:
    assert len(index) == len(model.recordings)
    assert index.manifest.recordings == sum(map(len, model.recordings.values()))
    snapshot = index.snapshot
    query = near(VECTORS, 1, seed)
    for k in (1, 4, PATIENTS + 3):
        for wanted in (Filter(), Filter(site="north"), Filter(label="RBBB")):
            if wanted != Filter() and not model.nearest(query[0], 1, wanted):
                with pytest.raises(ConfigError, match="No patient of the index has"):
                    index.search(query, k, wanted)
                continue
            hits = index.search(query, k, wanted)
            rows = [int(row) for row in hits.rows[0] if row >= 0]
            expected = model.nearest(query[0], k, wanted)
            assert [snapshot.patient_info(row)["patient_id"] for row in rows] == [patient for patient, _ in expected]
            np.testing.assert_allclose(hits.cosines[0][: len(rows)], [cosine for _, cosine in expected], atol=1e-5)


@pytest.mark.parametrize(("kind", "per_volume"), [("exact", 7), ("hnsw", 10_000)])
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.one_of(ADD, ADD, WITHDRAW, REBUILD), max_size=6), seed=st.integers(0, 1000))
def test_as_a_dictionary(
    kind: str, per_volume: int, steps: list[tuple[str, list[int]]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clocs.similarity.index.incremental.ROWS_PER_VOLUME", per_volume)
    monkeypatch.setattr("clocs.similarity.index.volume.EXACT_ROWS", 0)
    monkeypatch.setattr("clocs.similarity.index.volume.EXACT_SHARE", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = Model()
        first = list(range(0, len(ROWS), 4))
        build_index(
            write_archive(place / "archive", [ROWS[row] for row in first], VECTORS[first]), place / "index", kind
        )
        model.add(first)
        index = open_index(place / "index")
        for number, (step, chosen) in enumerate(steps):
            _change(place, number, step, chosen, model)
            check(index, model, seed + number)


def _change(place: Path, number: int, step: str, chosen: list[int], model: Model) -> None:
    if step == "add":
        rows: list[Row] = [ROWS[row] for row in chosen]
        add_archive(place / "index", write_archive(place / f"archive-{number}", rows, VECTORS[chosen]))
        model.add(chosen)
    elif step == "withdraw":
        patients = {f"p{row}" for row in chosen} & set(model.recordings)
        if patients | model.withdrawn:
            withdraw_from_index(place / "index", sorted(patients) or sorted(model.withdrawn))
        model.withdraw(patients)
    else:
        rebuild_index(place / "index")
