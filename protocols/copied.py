"""The copied protocol: CLOCS on the common CPSC 2018 split and PTB-XL's super-classes, beside the copied values."""

from __future__ import annotations

from functools import partial
from typing import Final

from clocs.evaluation.benchmark.unlabelled_fits import untrained_embedder
from clocs.signals.leads import STANDARD_LEADS
from protocols.encoders import PRETRAINED, RANDOM, Subject, paper_network, pretrained
from protocols.inputs import InputKind, input_features
from protocols.pretraining import PAPER_LEADS
from protocols.problems import Problem, macro_auc, probe_scores, sample_recordings
from protocols.results import Row
from protocols.setting import Setting

FRACTIONS: Final = (0.01, 0.1, 1.0)
"""Fractions of the training recordings, drawn once. All validation labels are used, as in the copied protocol."""
COPIED_VALUES: Final = {"cpsc": (0.5959, 0.7778, 0.7749), "ptbxl": (0.6894, 0.7336, 0.7631)}
"""Values of CLOCS that papers copy (repository PKUDigitalHealth/HeartLang), by label fraction."""
KINDS: Final[tuple[InputKind, ...]] = ("copied", "whole")


def measure_copied(setting: Setting) -> None:
    """Measure all pre-trained encoders and their networks with random weights on both datasets."""
    for dataset, problem in (("cpsc", setting.cpsc()), ("ptbxl", setting.ptbxl("super"))):
        for subject, leads in _subjects(setting, problem, dataset):
            for kind in KINDS:
                key = {"dataset": dataset, "encoder": subject.name, "leads": len(leads), "input": kind}
                measure = partial(_measure, setting, problem, subject, leads, kind)
                about = {name: value for name, value in subject.about.items() if name != "encoder"}
                setting.rows("copied").compute(key, about, measure)


def _subjects(setting: Setting, problem: Problem, dataset: str) -> list[tuple[Subject, tuple[str, ...]]]:
    """Return what is measured, and the leads that are probed."""
    found: list[tuple[Subject, tuple[str, ...]]] = []
    if RANDOM in setting.encoders:
        found.append((Subject("cnn, random", paper_network(problem).embedder), PAPER_LEADS))
    if PRETRAINED not in setting.encoders:
        return found
    for name in ("paper", "equal"):
        trained = pretrained(f"{name}-{dataset}", setting.runs)
        if trained is not None:
            found.append((Subject(name, trained.embedder, trained.progress), PAPER_LEADS))
            if name == "paper":
                found.append((Subject(name, trained.embedder, trained.progress), STANDARD_LEADS))
    trained = pretrained(f"resnet-{dataset}", setting.runs)
    if trained is not None:
        untrained = untrained_embedder(trained.embedder, problem.store, problem.train)
        found.append((Subject("resnet, random", untrained), STANDARD_LEADS))
        found.append((Subject("resnet", trained.embedder, trained.progress), STANDARD_LEADS))
    return found


def _measure(setting: Setting, problem: Problem, subject: Subject, leads: tuple[str, ...], kind: InputKind) -> Row:
    values = input_features(subject.embedder, problem.store, kind, leads, setting.cache)
    found = []
    for fraction in FRACTIONS:
        train = sample_recordings(problem.train, fraction, 0)
        found.append(macro_auc(problem, probe_scores(problem, values, train=train)))
    return {"dimension": values.shape[1], "fractions": found}
