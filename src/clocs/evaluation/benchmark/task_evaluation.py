"""Linear evaluation of recording features on one task, by the protocol ``clocs-bench-1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.feature_transforms import FeaturePCA, Standardization
from clocs.evaluation.benchmark.linear_probe import LinearProbe, Solver, fit_probe
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.metrics.challenges import CPSC2018, Challenge, CinC2017
from clocs.metrics.task_scores import score_task
from clocs.signals.resampling import Floats
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets
from clocs.training.labels import sample_patients

PROTOCOL: Final = "clocs-bench-1"
"""Name of the protocol. A change of what follows needs another name."""
NUM_DRAWS: Final = {0.01: 5, 0.1: 3}
"""Draws of labelled patients by label fraction; one for other fractions."""
FEW_LABELS: Final = 0.1
MAX_CLASSES_OF_FEW_LABELS: Final = 10
"""Smaller fractions than a tenth are evaluated for tasks of at most ten classes; of more, most would have no label."""
REDUCED_DIMENSION: Final = 768
"""Number of principal components of the second set of features."""
Selection = Literal["validation", "cross-validation"]
"""Recordings that select the regularization: all of the validation part, or folds of the labelled ones."""
Bools = npt.NDArray[np.bool_]


class BenchmarkOptions(BaseModel):
    """Label fractions, selections and replicates of a benchmark.

    Example:
        >>> BenchmarkOptions(label_fractions=(1.0,)).selections
        ('validation', 'cross-validation')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label_fractions: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.01, 0.1, 1.0)
    """Fractions of the training patients whose labels are used."""
    selections: tuple[Selection, ...] = ("validation", "cross-validation")
    """Ways to select the regularization. Each has rows of its own; with all labels, ``validation`` alone has."""
    replicates: int = Field(default=1000, ge=100)
    """Bootstrap replicates of the intervals."""


@dataclass(frozen=True)
class TaskProblem:
    """A task on the parts of a split."""

    store: Store
    targets: TaskTargets
    train: Bools
    validation: Bools
    test: Bools
    patients: npt.NDArray[np.int64]

    @property
    def truth(self) -> npt.NDArray[Any]:
        """Classes (N, K), or numbers (N, 1) of a regression."""
        is_regression = self.targets.task.kind == "regression"
        return np.nan_to_num(self.targets.values)[:, None] if is_regression else self.targets.truth


def evaluate_task(
    features: Mapping[str, RecordingFeatures],
    store: Store,
    split: Split,
    targets: TaskTargets,
    options: BenchmarkOptions | None = None,
    *,
    solver: Solver = "logistic",
) -> list[dict[str, Any]]:
    """Fit linear models on features of recordings, and score them on the test part.

    Features are standardized by all training recordings, whether they have labels or not. Label fractions draw
    patients; a draw of a smaller fraction is part of the same draw of a larger one.

    Args:
        features: Features by name, such as ``embedding``.
        store: The store.
        split: Its split.
        targets: Targets of the task.
        options: Label fractions and ways to select the regularization. None: the protocol's.
        solver: Algorithm of the linear models.

    Returns:
        A row for each set of features, label fraction and selection: what was fitted, and the result of
        :func:`clocs.metrics.task_scores.score_task` as ``scores``.

    Raises:
        ConfigError: A part of the split has no recording of the task.
    """
    options = options or BenchmarkOptions()
    problem = task_problem(store, split, targets)
    rows = []
    for name, values in _feature_sets(features, split.mask("train")):
        for fraction in label_fractions(options, targets):
            for selection in selections(options, fraction):
                fitted = _fit_draws(values, problem, fraction, selection, solver)
                about = {"features": name, "dimension": values.shape[1], "label_fraction": fraction}
                rows.append({**about, "selection": selection, **_scored(fitted, values, problem, options)})
    return rows


def label_fractions(options: BenchmarkOptions, targets: TaskTargets) -> list[float]:
    """Return the label fractions that are evaluated for a task."""
    many_classes = len(targets.classes) > MAX_CLASSES_OF_FEW_LABELS
    return [fraction for fraction in options.label_fractions if not (many_classes and fraction < FEW_LABELS)]


def selections(options: BenchmarkOptions, fraction: float) -> tuple[Selection, ...]:
    """Return the selections of a label fraction. With all labels those of the validation part are known as well."""
    return ("validation",) if fraction == 1 and "validation" in options.selections else options.selections


def task_problem(store: Store, split: Split, targets: TaskTargets) -> TaskProblem:
    """Return a task on the parts of a split.

    Raises:
        ConfigError: A part of the split has no recording of the task.
    """
    parts = {part: targets.included & split.mask(part) for part in ("train", "validation", "test")}
    empty = [part for part, records in parts.items() if not records.any()]
    if empty:
        raise ConfigError(
            f"Task '{targets.name}' has no recording in the {' and '.join(empty)} part of split '{split.name}'."
        )
    return TaskProblem(store, targets, **parts, patients=store.patient_codes()[0])


def _feature_sets(features: Mapping[str, RecordingFeatures], train: Bools) -> Iterator[tuple[str, Floats]]:
    """Iterate over standardized features: all of them, and their principal components if there are more than 768.

    Components keep their variance. Scaled to the same one, those of noise would weigh as much as those of signal: with
    1 % of the labels of CPSC 2018, the macro AUC of ``clocs-small`` fell from 0.82 to 0.60.
    """
    for name, found in features.items():
        values = Standardization.fit(found.values[train]).transform(found.values)
        yield name, values
        if values.shape[1] > REDUCED_DIMENSION and train.sum() > REDUCED_DIMENSION:
            yield f"{name}, PCA", FeaturePCA.fit(values[train], REDUCED_DIMENSION).transform(values)


def _fit_draws(
    values: Floats, problem: TaskProblem, fraction: float, selection: Selection, solver: Solver
) -> list[tuple[LinearProbe, int]] | str:
    """Fit a model for each draw of labels, with its number of labelled recordings; the reason if that is impossible."""
    fitted = []
    for draw in range(NUM_DRAWS.get(fraction, 1)):
        labelled = sample_patients(problem.store, problem.train, fraction, draw)
        try:
            model = fit_probe(
                values,
                problem.truth,
                kind=problem.targets.task.kind,
                train=labelled,
                validation=problem.validation if selection == "validation" else None,
                patients=problem.patients,
                solver=solver,
                seed=draw,
            )
        except ConfigError as error:
            return str(error)
        fitted.append((model, int(labelled.sum())))
    return fitted


def _scored(
    fitted: list[tuple[LinearProbe, int]] | str, values: Floats, problem: TaskProblem, options: BenchmarkOptions
) -> dict[str, Any]:
    if isinstance(fitted, str):
        return {"not_possible": fitted}
    models = [model for model, _ in fitted]
    validation, test = (
        [model.scores(values[records]) for model in models] for records in (problem.validation, problem.test)
    )
    return {
        "num_labelled": [count for _, count in fitted],
        "strengths": [model.strength for model in models],
        "scores": score_runs(problem, validation, test, [model.absent for model in models], options.replicates),
    }


def score_runs(
    problem: TaskProblem, validation: Sequence[Floats], test: Sequence[Floats], absent: Sequence[Bools], replicates: int
) -> dict[str, Any]:
    """Score the models of all draws on the test part, with thresholds of the validation part.

    Args:
        problem: The task.
        validation: Scores of the validation recordings for each draw, (N, K) each.
        test: Scores of the test recordings for each draw, (N, K) each.
        absent: Classes without a labelled positive for each draw, (K,) each.
        replicates: Bootstrap replicates of the intervals.

    Returns:
        The result of :func:`clocs.metrics.task_scores.score_task`.
    """
    kind, truth = problem.targets.task.kind, problem.truth
    return score_task(
        kind,
        truth[problem.test] if kind != "regression" else truth[problem.test, 0],
        test if kind != "regression" else [run[:, 0] for run in test],
        problem.patients[problem.test],
        validation=None if kind == "regression" else (truth[problem.validation], validation),
        untrained=None if kind == "regression" else absent,
        classes=None if kind == "regression" else problem.targets.classes,
        challenge=_challenge(problem.targets),
        replicates=replicates,
    )


def _challenge(targets: TaskTargets) -> Challenge | None:
    """Return the score of the challenge whose classes a task has."""
    if set(targets.classes) == set(CPSC2018.ORDER):
        return CPSC2018(targets.classes)
    if targets.task.kind == "multi-class" and set(targets.classes) == {"Normal", "AF", "Other", "Noisy"}:
        return CinC2017(targets.classes)
    return None
