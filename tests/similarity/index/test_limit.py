"""The maximum distance of similar patients, chosen on validation recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, StoreError
from clocs.similarity.index import limit
from clocs.similarity.index.patient_index import PatientIndex, open_index
from tests.inference.conftest import make_encoder


@pytest.fixture
def index(tmp_path: Path) -> PatientIndex:
    """Twelve patients with two recordings each, of a store with a split."""
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 24, "leads": 4})
    clocs.split(store)
    clocs.build_index(
        clocs.embed_store(make_encoder(tmp_path / "encoder"), store, tmp_path / "archive"), tmp_path / "index"
    )
    return open_index(tmp_path / "index")


def test_the_limit_is_the_conformal_quantile_of_the_nearest_distances(
    index: PatientIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against distances computed one by one; the own patient does not count."""
    monkeypatch.setattr(limit, "EXCEEDED", 0.2)
    archive = clocs.open_archive(index.folder.parent / "archive")
    patients = np.array(archive.table(["patient_id"]).column(0).to_pylist())
    pooled = {name: archive.vectors()[patients == name].sum(axis=0) for name in set(patients)}
    in_part = archive.open_store().split("default").mask("train")
    nearest = []
    for vector, own in zip(archive.vectors()[in_part], patients[in_part], strict=True):
        others = [total / np.linalg.norm(total) for name, total in pooled.items() if name != own]
        nearest.append(1 - max(float(vector @ other) for other in others))
    rank = int(0.2 * (len(nearest) + 1))
    found = index.limit_distance(part="train")
    assert rank > 1
    assert found.distance == pytest.approx(sorted(nearest)[-rank], abs=1e-6)
    assert (found.recordings, found.exceeded) == (len(nearest), 0.2)
    assert index.manifest.limit == found
    index.withdraw([str(patients[0])])
    index.rebuild()
    assert index.manifest.limit == found, "other changes keep it"
    hidden = [index.similar(name, k=3).num_hidden for name in archive.table(["record_id"]).column(0).to_pylist()[2:]]
    assert max(hidden) > 0


def test_too_few_recordings_and_unknown_splits_are_errors(index: PatientIndex) -> None:
    with pytest.raises(ConfigError, match=r"Expected at least 99 recordings, got \d+ of the part 'validation'"):
        index.limit_distance()
    with pytest.raises(StoreError, match="no split 'other'"):
        index.limit_distance("other")
    assert index.manifest.limit is None
