"""Patient maps: PCA compared with an SVD, UMAP, and several stores on one map."""

from __future__ import annotations

import builtins
import json
import warnings
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.similarity.patient_map import class_names, map_patients, project, read_metadata, reduce_dimensions
from clocs.similarity.scoring.cohort import open_cohort
from clocs.store.store import Store


def test_principal_components_match_the_svd() -> None:
    """numpy's singular value decomposition of the centred rows; a direction has no sign of its own."""
    random = np.random.default_rng(0)
    values = random.normal(size=(50, 6)) * np.array([5, 3, 1, 1, 0.5, 0.1])
    points, explained = project(values)
    centred = values - values.mean(0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    for axis in range(2):
        expected = left[:, axis] * lengths[axis]
        np.testing.assert_allclose(np.abs(points[:, axis]), np.abs(expected), atol=1e-9)
    assert explained == pytest.approx(tuple((lengths**2 / (lengths**2).sum())[:2]))
    again = project(values)
    assert np.array_equal(points, again[0]), "the same map each time"
    reduced, shares = reduce_dimensions(values, 10)
    assert reduced.shape == (50, 6)
    assert shares.sum() == pytest.approx(1)


def test_identical_patients_map_to_one_point() -> None:
    points, explained = project(np.ones((5, 4)))
    assert np.abs(points).max() < 1e-9
    assert explained == (0.0, 0.0)


@pytest.mark.slow
def test_umap_keeps_clusters_apart() -> None:
    random = np.random.default_rng(1)
    cluster = np.repeat(np.arange(3), 25)
    values = np.eye(3)[cluster] + 0.05 * random.normal(size=(75, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numba and of UMAP
        points, explained = project(values, "umap")
    assert explained is None
    centres = np.array([points[cluster == one].mean(0) for one in range(3)])
    distance = np.linalg.norm(points[:, None] - centres, axis=2)
    assert (distance.argmin(1) == cluster).mean() > 0.95


def test_without_umap_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name == "umap":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"clocs\[umap\]"):
        project(np.eye(5), "umap")


def test_invalid_maps_raise_an_error() -> None:
    with pytest.raises(ConfigError, match=r"Unknown projection 'tsne'\. Available: pca, umap"):
        project(np.eye(5), "tsne")
    with pytest.raises(ConfigError, match="at least 3 patients for a map, got 2"):
        project(np.eye(2))


def test_two_stores_share_a_map(judged_store: Store, chapman_part: Store) -> None:
    cohorts = [open_cohort("random", store, part="test") for store in (judged_store, chapman_part)]
    found = map_patients(cohorts)
    counts = [len(np.unique(cohort.rows.patient)) for cohort in cohorts]
    assert found.points.shape == (sum(counts), 2)
    assert [str(name) for name in found.metadata.site] == ["synthetic"] * counts[0] + ["chapman"] * counts[1]
    told = found.as_dict()
    json.dumps(told, allow_nan=False)
    assert told["points"] == found.points.tolist()
    assert told["record_id"][-1] in chapman_part.table(["record_id"]).column(0).to_pylist()
    assert found.axis_labels()[0] == f"PC 1, {found.explained[0]:.0%} of the variance" if found.explained else False


def test_metadata_comes_from_the_recording(judged_store: Store) -> None:
    patients = open_cohort("random", judged_store, part="test").patients()
    metadata = read_metadata(judged_store, patients)
    assert len(metadata.age) == len(patients.values)
    for place, record in enumerate(patients.record):
        recording = judged_store.recording(int(record))
        assert metadata.record_id[place] == recording.record_id
        assert metadata.age[place] == recording.age
        assert metadata.sex[place] == recording.sex
        assert metadata.site[place] == (recording.site or "synthetic")
    assert set(metadata.color_columns()) == {"label", "age", "sex", "site"}


def test_a_label_is_one_class_several_or_none() -> None:
    truth = np.array([[True, False], [True, True], [False, False], [False, True]])
    rows = ModelOutputs(np.zeros((4, 2), np.float32), truth, np.arange(4), np.arange(4), ("AF", "SR"))
    assert class_names(rows).tolist() == ["AF", "several", "none", "SR"]
    nothing_named = ModelOutputs(rows.values, np.zeros((4, 0), bool), rows.record, rows.patient, ())
    assert class_names(nothing_named).tolist() == ["none"] * 4
