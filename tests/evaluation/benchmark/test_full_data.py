"""All of PTB-XL, twelve leads: the solver against scikit-learn's, and the figures of the documentation."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from clocs.datasets.task import TaskKind
from clocs.evaluation.benchmark.embedders import load_embedder
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.linear_probe import fit_probe
from clocs.evaluation.benchmark.recording_features import recording_features
from clocs.signals.quality import GATE_OFF
from clocs.signals.resampling import Floats
from clocs.store.column_splits import split_by
from clocs.store.ingest import ingest
from clocs.store.store import Store

Bools = npt.NDArray[np.bool_]
Data = tuple[Store, Floats, tuple[Bools, Bools, Bools]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The store, standardised features of ``clocs-small``, and the masks of folds 1 to 8, 9 and 10."""
    source = Path(os.environ.get("CLOCS_TWELVE", "")) / "ptbxl"
    if not source.is_dir():
        pytest.skip("no twelve-lead data; set CLOCS_TWELVE to the folder that has ptbxl")
    store = ingest("ptbxl", source, tmp_path_factory.mktemp("ptbxl") / "store", gate=GATE_OFF)
    split = split_by(store, "strat_fold", train=range(1, 9), validation=9, test=10)
    train, validation, test = (split.mask(part) for part in ("train", "validation", "test"))
    features = recording_features(load_embedder("clocs-small"), store)["embedding"]
    assert features.values.shape == (21_799, 4608)
    return store, Standardization.fit(features.values[train]).transform(features.values), (train, validation, test)


def task(store: Store, kind: TaskKind) -> Bools:
    """Five super-classes, those of recordings that have one alone, or female sex."""
    frames = store.frames("evaluation", all_leads=True)
    truth = np.zeros((len(store), len(frames.classes)), bool)
    items = np.arange(len(frames))
    truth[frames.recording_indices(items)] = frames.targets(items)
    if kind == "binary":
        return store.where(sex="female")[:, None]
    return truth if kind == "multi-label" else truth & (truth.sum(1) == 1)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi-label", "multi-class", "binary"])
def test_the_auc_equals_that_of_scikit_learn(data: Data, kind: TaskKind) -> None:
    store, values, parts = data
    truth = task(store, kind)
    included = np.ones(len(store), bool) if kind == "binary" else truth.any(1)
    train, validation, test = (part & included for part in parts)
    found = fit_probe(values, truth, kind=kind, train=train, validation=validation)
    base = LogisticRegression(C=found.strength, tol=1e-5, max_iter=5000)
    model = base if kind == "multi-class" else OneVsRestClassifier(base)
    model.fit(values[train], truth[train].argmax(1) if kind == "multi-class" else truth[train])
    expected = model.predict_proba(values[test])[:, -truth.shape[1] :]
    ours, theirs = (roc_auc_score(truth[test], scores) for scores in (found.scores(values[test]), expected))
    assert ours == pytest.approx(theirs, abs=1e-3)
    if kind == "multi-label":
        assert [int(part.sum()) for part in (train, validation, test)] == [17_088, 2_147, 2_159]
        assert ours == pytest.approx(0.916, abs=0.003)
