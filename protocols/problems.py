"""Classification problems of the measurements: a task on the parts of a split, and how results are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.seeds import generator
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.linear_probe import fit_probe
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.ranking import auc, macro_average
from clocs.signals.resampling import Floats
from clocs.store.store import Store
from clocs.store.task_targets import task_targets
from protocols.pretraining import open_split

Bools = npt.NDArray[np.bool_]
REPLICATES: Final = 500
"""Bootstrap replicates of an interval."""


@dataclass(frozen=True)
class Problem:
    """A multi-label task on the parts of a split. All masks and labels are over the recordings of the store."""

    store: Store
    classes: tuple[str, ...]
    truth: Bools
    """Labels, (recordings, classes)."""
    train: Bools
    validation: Bools
    test: Bools
    patients: npt.NDArray[np.int64]


def open_problem(stores: Path, dataset: str, task: str, common_split: Path | None = None) -> Problem:
    """Open a task on the copied split of a dataset. Recordings without a label of the task are in no part."""
    store, split = open_split(stores, dataset, common_split)
    targets = task_targets(store, task)
    parts = {part: targets.included & split.mask(part) for part in ("train", "validation", "test")}
    return Problem(store, targets.classes, targets.truth, **parts, patients=store.patient_codes()[0])


def macro_auc(problem: Problem, runs: Floats | Sequence[Floats], records: Bools | None = None) -> dict[str, float]:
    """Return the macro AUC of test recordings with its 95 % interval over patients and runs.

    Args:
        problem: The problem.
        runs: Scores of all recordings, (recordings, classes), or a sequence of them for several runs.
        records: Test recordings to score, a mask over the store; None for all.
    """
    chosen = problem.test if records is None else records
    truth, patients = problem.truth[chosen], problem.patients[chosen]
    scores = [runs] if isinstance(runs, np.ndarray) else runs
    metrics = [ClassMetrics(truth, run[chosen], patients, names=("auc",)) for run in scores]
    found = bootstrap(metrics, replicates=REPLICATES).macro("auc", resample_runs=True)
    return {"auc": found.value, "low": found.low, "high": found.high}


def probe_scores(
    problem: Problem,
    values: Floats,
    *,
    train: Bools | None = None,
    validation: Bools | None = None,
    labels: Bools | None = None,
    cross_validate: bool = False,
) -> Floats:
    """Fit a linear model on features, and return the scores of all recordings.

    Args:
        problem: The problem.
        values: Features, (recordings, D). Training recordings standardize them.
        train: Labelled recordings; None for the training part.
        validation: Recordings that select the regularization; None for the validation part.
        labels: Labels to fit and select with, (recordings, classes); None for the true ones.
        cross_validate: Select the regularization within the labelled recordings instead.
    """
    scaled = Standardization.fit(values[problem.train]).transform(values)
    selecting = problem.validation if validation is None else validation
    model = fit_probe(
        scaled,
        problem.truth if labels is None else labels,
        kind="multi-label",
        train=problem.train if train is None else train,
        validation=None if cross_validate else selecting,
        patients=problem.patients,
    )
    return model.scores(scaled)


def sample_recordings(records: Bools, fraction: float, seed: int) -> Bools:
    """Return a random fraction of recordings as a mask, whoever their patients are."""
    chosen = np.zeros(len(records), np.bool_)
    found = np.flatnonzero(records)
    chosen[generator(seed, "recordings").permutation(found)[: max(1, round(fraction * len(found)))]] = True
    return chosen


def point_auc(problem: Problem, scores: Floats, records: Bools) -> float:
    """Return the macro AUC of recordings, without an interval."""
    return macro_average(auc(problem.truth[records], scores[records]))


def class_aucs(problem: Problem, runs: Floats | Sequence[Floats], classes: tuple[str, ...]) -> dict[str, float]:
    """Return the AUC of single classes on the test recordings, as the mean over runs."""
    columns = [problem.classes.index(name) for name in classes]
    truth = problem.truth[problem.test][:, columns]
    scores = [runs] if isinstance(runs, np.ndarray) else runs
    values = np.mean([auc(truth, run[problem.test][:, columns]) for run in scores], axis=0)
    return dict(zip(classes, values.tolist(), strict=True))
