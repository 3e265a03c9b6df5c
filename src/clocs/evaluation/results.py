"""Test scores as files, so that two evaluations can be compared patient by patient."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.files import write_bytes
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import LEVELS, scores_by_level
from clocs.metrics.bootstrap import Difference, paired_difference
from clocs.metrics.calibration import reliability
from clocs.metrics.ranking import roc_curves
from clocs.training.runs import read_config

FILE = "scores.npz"


def save_scores(folder: Path, scores: ModelOutputs) -> None:
    """Write the test rows with their truth."""
    raw = io.BytesIO()
    np.savez_compressed(
        raw,
        scores=scores.values,
        truth=scores.truth,
        record=scores.record,
        patient=scores.patient,
        classes=np.array(scores.classes),
    )
    write_bytes(folder / FILE, raw.getvalue())


def load_scores(folder: Path) -> ModelOutputs:
    """Return the test rows of an evaluation; each array has a checksum in the file."""
    path = folder / FILE
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            classes = tuple(str(name) for name in kept["classes"])
            return ModelOutputs(kept["scores"], kept["truth"], kept["record"], kept["patient"], classes)
    except OSError as error:
        raise StoreError(f"{folder} holds no evaluation: {error}") from error
    except Exception as error:  # damaged bytes make numpy raise what they will
        raise IntegrityError(f"{path}: cannot be read: {error!r:.200}. Evaluate again into another folder.") from error


def compare(first: list[Path], second: list[Path], *, replicates: int = 1000) -> dict[str, Difference]:
    """The macro AUC of the first evaluations (one a seed) minus that of the second, level by level, with intervals.

    Both sides must have been tested on the same patients of the same store.
    """
    data = {_data(folder) for folder in (*first, *second)}
    if len(data) != 1:
        raise ConfigError("these evaluations were made with different stores or splits: their patients differ")
    sides = [[load_scores(folder) for folder in folders] for folders in (first, second)]
    return differences(*sides, replicates=replicates)


def differences(
    first: Sequence[ModelOutputs],
    second: Sequence[ModelOutputs],
    *,
    among: Sequence[str] = LEVELS,
    replicates: int = 1000,
) -> dict[str, Difference]:
    """As ``compare``, for scores of one store's patients, at the levels ``among``."""
    sides = [[dict(scores_by_level(run)) for run in side] for side in (first, second)]
    found = {}
    for level in among:
        a, b = ([run[level] for run in side] for side in sides)
        _check_rows(a, b)
        found[level] = paired_difference(
            a[0].truth,
            [run.values for run in a],
            [run.values for run in b],
            a[0].patient,
            other=(b[0].truth, b[0].patient),
            replicates=replicates,
        )
    return found


def _check_rows(first: list[ModelOutputs], second: list[ModelOutputs]) -> None:
    """Refuse runs of one side with other rows, and sides with other patients."""
    for one, *others in (first, second):
        if not all(np.array_equal(one.record, run.record) and np.array_equal(one.truth, run.truth) for run in others):
            raise ConfigError("evaluations that differ by their seed alone have the same frames; these have not")
    if not np.array_equal(np.unique(first[0].patient), np.unique(second[0].patient)):
        raise ConfigError("some patients have frames on one side only: the two cannot be compared")


def draw_scores(folder: Path, out: Path, level: str = "recording") -> list[Path]:
    """ROC curves and a reliability diagram of an evaluation's test part, as pictures in ``out``."""
    from clocs.drawing.curves import draw_reliability, draw_roc

    known = dict(scores_by_level(load_scores(folder)))
    if level not in known:
        raise ConfigError(f"no level '{level}'; there are {', '.join(known)}")
    rows = known[level]
    paths = [out / f"{kind}-{level}.png" for kind in ("roc", "reliability")]
    draw_roc(dict(zip(rows.classes, roc_curves(rows.truth, rows.values), strict=True)), paths[0])
    found = reliability(rows.truth, rows.values)
    draw_reliability(rows.classes, found.edges, found.count, found.mean_probability, found.observed, paths[1])
    return paths


def _data(folder: Path) -> tuple[str, str]:
    try:
        known = read_config(folder)
        return known["store_sha256"], known["split_sha256"]
    except (OSError, KeyError) as error:
        raise StoreError(f"{folder} holds no evaluation: {error}") from error
