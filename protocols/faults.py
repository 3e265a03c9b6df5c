"""Measurements of protocol faults. Each function adds rows to a file of results."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from clocs.signals.resampling import Floats
from clocs.store.duplicates import duplicate_groups
from protocols.encoders import SCRATCH, Subject
from protocols.epoch_training import Mode, Trajectory, probe_network, train_epochs
from protocols.inputs import InputKind, Ints, input_frames
from protocols.pretraining import PAPER_LEADS
from protocols.problems import Bools, Problem, class_aucs, macro_auc, probe_scores
from protocols.results import Row
from protocols.setting import Setting

CROSSED: Final = {"ISC_": "_AVB", "_AVB": "RAO/RAE", "RAO/RAE": "ISC_"}
"""Class of validation and test in columns 10 to 12, and the class that the training lists have in the same column."""


def crossed_labels(labels: Bools, classes: tuple[str, ...], train: Bools) -> Bools:
    """Return labels whose training rows have three classes in each other's columns.

    Args:
        labels: True labels, (recordings, classes).
        classes: Names of the classes.
        train: Training recordings, a mask.
    """
    crossed = labels.copy()
    for column, source in CROSSED.items():
        crossed[train, classes.index(column)] = labels[train, classes.index(source)]
    return crossed


def measure_crossed(setting: Setting) -> None:
    """Measure sub-class probes that were fitted on crossed label columns (fault 1)."""
    problem, rows = setting.ptbxl("sub"), setting.rows("crossed")
    variants = {"true": problem.truth, "crossed": crossed_labels(problem.truth, problem.classes, problem.train)}
    positives = {
        name: [int(problem.truth[part, problem.classes.index(name)].sum()) for part in (problem.train, problem.test)]
        for name in CROSSED
    }

    def scored(scores: Floats | list[Floats]) -> Row:
        return {**macro_auc(problem, scores), "classes": class_aucs(problem, scores, tuple(CROSSED))}

    def probed(values: Floats, labels: Bools) -> Row:
        return scored(probe_scores(problem, values, labels=labels))

    def from_scratch(name: str, labels: Bools) -> Row:
        return scored(setting.scores_from_scratch(problem, "whole", f"sub-{name}", labels=labels))

    rows.compute({"encoder": "labels"}, {}, lambda: {"positives": positives})
    for subject in setting.subjects(problem, "paper-ptbxl"):
        values = setting.features(subject, problem.store)
        for name, labels in variants.items():
            key = {"encoder": subject.name, "labels": name}
            rows.compute(key, subject.about, partial(probed, values, labels))
    for name, labels in variants.items() if setting.has_scratch else ():
        rows.compute({"encoder": SCRATCH, "labels": name}, setting.about_seeds, partial(from_scratch, name, labels))


def find_twins(problem: Problem) -> tuple[Bools, Bools, dict[str, int]]:
    """Find identical signals across the parts of a split.

    Returns:
        Test recordings with an identical signal in training, those training recordings, and counts: ``groups`` of
        identical signals, those that ``straddle`` two parts, test recordings with a twin (``twins``), and
        those whose labels are the twin's (``same_labels``).
    """
    in_test, in_train = (np.zeros(len(problem.store), np.bool_) for _ in range(2))
    groups, straddling, alike = duplicate_groups(problem.store), 0, 0
    parts = (problem.train, problem.validation, problem.test)
    for group in groups:
        straddling += sum(bool(part[group].any()) for part in parts) > 1
        if problem.train[group].any() and problem.test[group].any():
            in_test[group[problem.test[group]]] = True
            in_train[group[problem.train[group]]] = True
            alike += _same_labels(problem, group)
    counts = {"groups": len(groups), "straddle": straddling, "twins": int(in_test.sum()), "same_labels": alike}
    return in_test, in_train, {**counts, "test": int(problem.test.sum())}


def _same_labels(problem: Problem, group: Ints) -> int:
    """Return the number of test recordings of a group whose labels equal those of a training recording of it."""
    trained = problem.truth[group[problem.train[group]]]
    return sum(bool((trained == row).all(axis=1).any()) for row in problem.truth[group[problem.test[group]]])


def measure_duplicates(setting: Setting) -> None:
    """Measure CPSC 2018 with and without test recordings whose signal is in training (fault 2)."""
    problem, rows = setting.cpsc(), setting.rows("duplicates")
    twins, sources, counts = find_twins(problem)
    rows.compute({"encoder": "signals"}, {}, lambda: {"counts": counts})

    def scored(given: Floats | list[Floats], without: Floats | list[Floats]) -> Row:
        return {
            "all": macro_auc(problem, given),
            "without_twins": macro_auc(problem, given, problem.test & ~twins),
            "twins_not_trained": macro_auc(problem, without),
        }

    cleaned = problem.train & ~sources

    def probed(subject: Subject) -> Row:
        values = setting.features(subject, problem.store)
        return scored(probe_scores(problem, values), probe_scores(problem, values, train=cleaned))

    def from_scratch() -> Row:
        given = setting.scores_from_scratch(problem, "whole", "cpsc-whole")
        return scored(given, setting.scores_from_scratch(problem, "whole", "cpsc-without-twins", train=cleaned))

    for subject in setting.subjects(problem, "paper-cpsc"):
        rows.compute({"encoder": subject.name}, subject.about, partial(probed, subject))
    if setting.has_scratch:
        rows.compute({"encoder": SCRATCH}, setting.about_seeds, from_scratch)


def measure_epochs(setting: Setting) -> None:
    """Measure BatchNorm in train mode, and epochs chosen on the test set, on the copied input (fault 3)."""
    problem, rows = setting.cpsc(), setting.rows("epochs")
    modes: tuple[Mode, ...] = ("eval", "train")
    inputs = input_frames(problem.store, "copied", PAPER_LEADS)

    def probed(subject: Subject, mode: Mode) -> Row:
        network = probe_network(subject.embedder.encoder, inputs, len(problem.classes))
        return _chosen_epochs(train_epochs(network, inputs, problem, mode=mode))

    for subject in setting.subjects(problem, "paper-cpsc"):
        for mode in modes:
            rows.compute({"encoder": subject.name, "mode": mode}, subject.about, partial(probed, subject, mode))
    if setting.has_scratch:
        key = {"encoder": SCRATCH, "mode": "all"}
        rows.compute(key, {}, lambda: _chosen_epochs(setting.train_from_scratch(problem, "copied", "cpsc-copied")))


def _chosen_epochs(found: Trajectory) -> Row:
    return {
        "by_validation": found.test_auc[found.best],
        "by_test": max(found.test_auc),
        "last": found.test_auc[-1],
        "test_auc": list(found.test_auc),
        "validation_auc": list(found.validation_auc),
    }


def measure_inputs(setting: Setting) -> None:
    """Measure the copied input of CPSC 2018 beside the first 5 s and whole recordings (fault 4)."""
    problem, rows = setting.cpsc(), setting.rows("inputs")
    kinds: tuple[InputKind, ...] = ("copied", "first", "whole")

    def probed(subject: Subject, kind: InputKind) -> Row:
        return macro_auc(problem, probe_scores(problem, setting.features(subject, problem.store, kind)))

    def from_scratch(kind: InputKind) -> Row:
        return macro_auc(problem, setting.scores_from_scratch(problem, kind, f"cpsc-{kind}"))

    for subject in setting.subjects(problem, "paper-cpsc"):
        for kind in kinds:
            rows.compute({"encoder": subject.name, "input": kind}, subject.about, partial(probed, subject, kind))
    for kind in kinds if setting.has_scratch else ():
        rows.compute({"encoder": SCRATCH, "input": kind}, setting.about_seeds, partial(from_scratch, kind))


def measure_controls(setting: Setting) -> None:
    """Measure PTB-XL's super-classes with random weights, beside training (fault 5). CPSC 2018 is among the inputs."""
    problem, rows = setting.ptbxl("super"), setting.rows("controls")

    def probed(subject: Subject) -> Row:
        return macro_auc(problem, probe_scores(problem, setting.features(subject, problem.store)))

    def from_scratch() -> Row:
        return macro_auc(problem, setting.scores_from_scratch(problem, "whole", "super-whole"))

    for subject in setting.subjects(problem, "paper-ptbxl"):
        rows.compute({"encoder": subject.name}, subject.about, partial(probed, subject))
    if setting.has_scratch:
        rows.compute({"encoder": SCRATCH}, setting.about_seeds, from_scratch)
