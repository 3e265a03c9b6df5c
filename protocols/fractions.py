"""Three meanings of 1 % of the labels (fault 7), measured on PTB-XL's super-classes."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from clocs.signals.resampling import Floats
from clocs.training.labels import sample_patients
from protocols.encoders import SCRATCH
from protocols.problems import Bools, Problem, point_auc, probe_scores, sample_recordings
from protocols.results import Row
from protocols.setting import Setting

FRACTION: Final = 0.01
NUM_DRAWS: Final = 5
NUM_SCRATCH_DRAWS: Final = 2
SCRATCH_EPOCHS, SCRATCH_PASSES = 8, 10
RECORDINGS, REDUCED, PATIENTS = "recordings", "recordings, reduced validation", "patients"
CROSS_VALIDATION = "patients, cross-validation"
"""Names of the meanings. The last uses no validation labels."""


def labelled_recordings(problem: Problem, meaning: str, draw: int) -> Bools:
    """Return the training recordings whose labels are used."""
    if meaning in (PATIENTS, CROSS_VALIDATION):
        return sample_patients(problem.store, problem.train, FRACTION, draw)
    return sample_recordings(problem.train, FRACTION, draw)


def selecting_recordings(problem: Problem, meaning: str, draw: int) -> Bools:
    """Return the validation recordings whose labels are used."""
    return sample_recordings(problem.validation, FRACTION, draw) if meaning == REDUCED else problem.validation


def measure_fractions(setting: Setting) -> None:
    """Measure what 1 % of the labels gives by each meaning, draw by draw."""
    problem, rows = setting.ptbxl("super"), setting.rows("fractions")

    def probed(values: Floats, meaning: str) -> Row:
        found = [_probe_draw(problem, values, meaning, draw) for draw in range(NUM_DRAWS)]
        return {"draws": found, "labelled": _labelled(problem, meaning)}

    def from_scratch(meaning: str) -> Row:
        found = [_scratch_draw(setting, problem, meaning, draw) for draw in range(NUM_SCRATCH_DRAWS)]
        return {"draws": found, "labelled": _labelled(problem, meaning)}

    for subject in setting.subjects(problem, "paper-ptbxl"):
        values = setting.features(subject, problem.store)
        for meaning in (RECORDINGS, REDUCED, PATIENTS, CROSS_VALIDATION):
            key = {"encoder": subject.name, "meaning": meaning}
            rows.compute(key, subject.about, partial(probed, values, meaning))
    for meaning in (RECORDINGS, REDUCED, PATIENTS) if setting.has_scratch else ():
        rows.compute({"encoder": SCRATCH, "meaning": meaning}, {}, partial(from_scratch, meaning))


def _labelled(problem: Problem, meaning: str) -> dict[str, int]:
    """Return the labelled recordings of the first draw, by part."""
    has_validation = meaning != CROSS_VALIDATION
    selecting = selecting_recordings(problem, meaning, 0).sum() if has_validation else 0
    return {"train": int(labelled_recordings(problem, meaning, 0).sum()), "validation": int(selecting)}


def _probe_draw(problem: Problem, values: Floats, meaning: str, draw: int) -> float:
    scores = probe_scores(
        problem,
        values,
        train=labelled_recordings(problem, meaning, draw),
        validation=selecting_recordings(problem, meaning, draw),
        cross_validate=meaning == CROSS_VALIDATION,
    )
    return point_auc(problem, scores, problem.test)


def _scratch_draw(setting: Setting, problem: Problem, meaning: str, draw: int) -> float:
    unit = "patients" if meaning == PATIENTS else "recordings"
    found = setting.train_from_scratch(
        problem,
        "whole",
        f"super-{unit}-{draw}",
        train=labelled_recordings(problem, meaning, draw),
        num_epochs=SCRATCH_EPOCHS,
        passes_per_epoch=SCRATCH_PASSES,
        seed=draw,
    )
    selecting = selecting_recordings(problem, meaning, draw)
    best = int(np.argmax([point_auc(problem, scores, selecting) for scores in found.scores]))
    return found.test_auc[best]
