"""Classes of recordings with and without the gate: counts, reasons, and AUC before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import clocs
from clocs.core.errors import ClocsError
from clocs.core.recording import Recording
from clocs.inference.classification import classify_features
from clocs.inference.frame_pooling import OVERLAP, FeatureAverage
from clocs.inference.input_checks import lead_faults
from clocs.inference.preparation import prepare
from clocs.inference.results import Classification
from clocs.metrics.ranking import auc, macro_average
from clocs.signals.leads import available_leads

REASONS: Final = {
    "heartbeats": "no clear heartbeats",
    "no lead": "no usable lead",
    "lead_equations": "lead equations",
    "no classifier": "no set of usable leads",
    "the patient": "under 16",
    "paced": "paced",
    "heart rate": "heart rate",
    "unlike": "distance",
}
"""Reasons by the words that their sentences have."""
CLASSIFIER: Final = "physionet2020"
"""The classifier that ``clocs-small`` prefers."""
CLASSES: Final = ("AF", "I-AVB", "LBBB", "Normal", "PAC", "PVC", "RBBB", "STD", "STE")
"""Classes of the classifier."""
TRUTH: Final[dict[str, dict[str, str]]] = {
    "physionet2020": {name: name for name in CLASSES},
    "ptbxl": {
        "AF": "AFIB",
        "I-AVB": "1AVB",
        "LBBB": "CLBBB",
        "Normal": "NORM",
        "PAC": "PAC",
        "PVC": "PVC",
        "RBBB": "CRBBB",
        "STD": "STD_",
    },
    "chapman": {
        "AF": "AFIB",
        "I-AVB": "1AVB",
        "LBBB": "LBBB",
        "PAC": "APB",
        "PVC": "VPB",
        "RBBB": "RBBB",
        "STD": "STDD",
    },
}
"""Label of each dataset that means a class of the classifier. Classes without such a label are not judged."""


@dataclass(frozen=True)
class Outcome:
    """Classes of a recording with and without the gate."""

    labels: tuple[str, ...]
    before: dict[str, float] | None
    """Probabilities without the gate; None if the recording could not be classified without it either."""
    now: Classification
    """Classes with the gate."""


def classified(encoder: clocs.PretrainedEncoder, recordings: Iterable[Recording]) -> Iterator[Outcome]:
    """Classify recordings with and without the gate."""
    for recording in recordings:
        found = encoder.classify(recording)
        is_changed = bool(found.withheld or found.findings) or len(found.leads) < len(recording.leads)
        before = without_gate(encoder, recording) if is_changed else _probabilities(found)
        yield Outcome(recording.labels, before, found)


def _probabilities(found: Classification) -> dict[str, float]:
    return {item.name: item.probability for item in found.classes}


def without_gate(encoder: clocs.PretrainedEncoder, recording: Recording) -> dict[str, float] | None:
    """Return the probabilities that a recording had before there was a gate, from all leads without gaps."""
    faults = lead_faults(recording)
    sound = tuple(lead for lead in recording.leads if lead not in faults)
    for classifier in encoder.classifiers.values():
        for index in classifier.card.usable_sets(available_leads(sound)):
            leads = classifier.card.lead_sets[index].leads
            try:
                prepared = prepare(recording, encoder.input, only_leads=leads, overlap=OVERLAP)
            except ClocsError:
                return None
            average = FeatureAverage(len(prepared.windows))
            average.add(encoder.embed_prepared(prepared).reshape(len(prepared.windows), -1))
            return {item.name: item.probability for item in classify_features(classifier, average.features, index)}
    return None


def summary(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the number of recordings, those with classes before and now, and counts of reasons."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for outcome in outcomes:
        found = outcome.now
        counts["recordings"] += 1
        counts["before"] += outcome.before is not None
        counts["now"] += bool(found.classes)
        counts["leads_dropped"] += bool(found.classes) and len(found.leads) < 12
        named = {title for words, title in REASONS.items() for reason in found.withheld if words in reason}
        reasons.update(named or ({"other"} if found.withheld else ()))
        counts["withheld_not_paced_or_child"] += bool(named - {"paced", "under 16"}) or (
            bool(found.withheld) and not named
        )
    return {**counts, "reasons": dict(reasons)}


def auc_before_and_now(outcomes: Sequence[Outcome], truth: Mapping[str, str]) -> dict[str, Any]:
    """Return the AUC of each class over all recordings without the gate, and over those that it passes.

    Args:
        outcomes: Classified recordings.
        truth: Label of each class.
    """
    before = [
        (one.labels, one.before) for one in outcomes if one.before is not None and truth.keys() <= one.before.keys()
    ]
    now = [
        (one.labels, _probabilities(one.now))
        for one in outcomes
        if one.now.classifier == CLASSIFIER and not one.now.withheld and truth.keys() <= _probabilities(one.now).keys()
    ]
    result: dict[str, Any] = {}
    for time, rows in (("before", before), ("now", now)):
        labels = np.array([[label in known for label in truth.values()] for known, _ in rows], bool)
        areas = auc(labels, np.array([[values[name] for name in truth] for _, values in rows]))
        classes = {
            name: {"auc": float(area), "recordings": int(count)}
            for name, area, count in zip(truth, areas, labels.sum(axis=0), strict=True)
        }
        result[time] = {"recordings": len(rows), "macro": macro_average(areas), "classes": classes}
    return result
