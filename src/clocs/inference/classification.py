"""Classification of a recording by the largest set of leads that a classifier and the recording have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from clocs.core.errors import LeadError
from clocs.core.recording import Recording
from clocs.inference.classifier import Classifier
from clocs.inference.frame_pooling import OVERLAP, POOLING, pool_frames
from clocs.inference.input_checks import lead_faults, recording_label
from clocs.inference.preparation import EncoderInput, PreparedFrames, format_leads, prepare
from clocs.inference.results import ClassProbability
from clocs.signals.leads import LEAD_SETS, available_leads
from clocs.signals.resampling import Floats

SET_NAMES: Final = dict(zip(LEAD_SETS, ("all twelve leads", "the six limb leads", "lead I", "lead II"), strict=True))
"""Names of common sets of leads for sentences."""


@dataclass(frozen=True)
class ClassifierInput:
    """Frames of a recording for one set of leads of a classifier."""

    name: str
    """Name of the classifier."""
    set_index: int
    """Index of the set in ``card.lead_sets``."""
    prepared: PreparedFrames
    """Overlapping frames of the leads of the set."""


def choose_input(
    recording: Recording, expected: EncoderInput, classifiers: Mapping[str, Classifier]
) -> ClassifierInput:
    """Return the frames that classify a recording.

    The first classifier with a set of leads that the recording has is used, with its largest one. Leads that fail the
    quality gate are left out with a note, unless no set remains.

    Args:
        recording: The recording.
        expected: The encoder's input format.
        classifiers: Classifiers by name, in order of preference.

    Raises:
        LeadError: No classifier has a set of leads that the recording has.
        SignalError: The recording fails the quality gate, or is too short.
    """
    faults = lead_faults(recording)
    sound = tuple(lead for lead in recording.leads if lead not in faults)
    notes = tuple(f"{format_leads((lead,))} not used: {fault}" for lead, fault in faults.items())
    chosen = _largest_set(sound, classifiers)
    if chosen is None:
        chosen, notes = _largest_set(recording.leads, classifiers), ()
    if chosen is None:
        raise _no_lead_set(recording, classifiers)
    name, index = chosen
    leads = classifiers[name].card.lead_sets[index].leads
    prepared = prepare(recording, expected, only_leads=leads, overlap=OVERLAP)
    return ClassifierInput(name, index, replace(prepared, notes=(*prepared.notes, *notes)))


def _largest_set(leads: tuple[str, ...], classifiers: Mapping[str, Classifier]) -> tuple[str, int] | None:
    """Return the first classifier with a set of leads among these, and the index of its largest one."""
    available = available_leads(leads)
    for name, classifier in classifiers.items():
        if usable := classifier.card.usable_sets(available):
            return name, usable[0]
    return None


def pool_recording_features(embeddings: Floats, num_frames: int) -> Floats:
    """Return the features (D,) of a recording.

    Args:
        embeddings: Embeddings (rows, E), ordered by time, then by lead.
        num_frames: Number of frames. Leads of a frame are concatenated.
    """
    frames = embeddings.reshape(num_frames, -1)
    return np.asarray(pool_frames(frames, np.zeros(num_frames, np.int64), 1, POOLING)[0])


def classify_features(classifier: Classifier, features: Floats, set_index: int) -> tuple[ClassProbability, ...]:
    """Return the classes of a recording by descending probability.

    Args:
        classifier: The classifier.
        features: Features (D,) of the recording, computed from the leads of the set.
        set_index: Index of the set in ``card.lead_sets``.
    """
    lead_set = classifier.card.lead_sets[set_index]
    (probabilities,) = classifier.probabilities(features[None], set_index).tolist()
    classes = [
        ClassProbability(item.name, item.meaning, value, item.prevalence, lead_set.bin_of(index, value))
        for index, (item, value) in enumerate(zip(classifier.card.classes, probabilities, strict=True))
    ]
    return tuple(sorted(classes, key=lambda item: -item.probability))


def format_set(leads: tuple[str, ...]) -> str:
    """Return a set of leads for a sentence: ``all twelve leads``, or ``leads II, V2``."""
    return SET_NAMES.get(leads, format_leads(leads))


def _no_lead_set(recording: Recording, classifiers: Mapping[str, Classifier]) -> LeadError:
    """Return the error for a recording without any set of leads of the classifiers."""
    needs = "; ".join(
        f"'{name}' needs {' or '.join(format_set(item.leads) for item in classifier.card.lead_sets)}"
        for name, classifier in classifiers.items()
    )
    return LeadError(
        f"{recording_label(recording)} has {format_leads(recording.leads) if recording.leads else 'no lead'}, which no "
        f"classifier was fitted on: {needs}. Use a recording with such leads, or name the lead correctly."
    )
