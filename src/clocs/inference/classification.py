"""Classification of a recording by the largest set of leads that a classifier and the usable leads have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from clocs.core.errors import LeadError, SignalError
from clocs.core.recording import Recording
from clocs.inference.abstention import (
    PACED,
    PACED_REASON,
    PACING_CLASSES,
    InputVerdict,
    judge_features,
    judge_patient,
    judge_signal,
)
from clocs.inference.classifier import Classifier
from clocs.inference.frame_pooling import OVERLAP, POOLING, pool_frames
from clocs.inference.input_checks import recording_label, warnings_for
from clocs.inference.preparation import EncoderInput, PreparedFrames, check_length, check_unit, format_leads, prepare
from clocs.inference.results import Classification, ClassProbability
from clocs.metrics.conformal import prediction_sets
from clocs.signals.leads import LEAD_SETS, available_leads
from clocs.signals.resampling import Floats

SET_NAMES: Final = dict(zip(LEAD_SETS, ("all twelve leads", "the six limb leads", "lead I", "lead II"), strict=True))
"""Names of common sets of leads for sentences."""
PARTS_NOTE: Final = (
    "classes describe the recording on average, over {} parts of at most {:g} s, as long as the recordings that the "
    "classifier was fitted on; a finding of a few seconds may be missed"
)


class JudgedRecording:
    """A recording whose signal is judged, and whose leads are embedded, once for all classifiers.

    Args:
        recording: The recording.
        expected: The encoder's input format.
        embed: Function that returns the embeddings (rows, E) of frames.
    """

    def __init__(self, recording: Recording, expected: EncoderInput, embed: Callable[[PreparedFrames], Floats]) -> None:
        self.recording, self.expected, self._embed = recording, expected, embed
        self._embedded: dict[tuple[str, ...], tuple[PreparedFrames, Floats]] = {}

    @cached_property
    def verdict(self) -> InputVerdict:
        """The judgement of the signal: usable leads, findings, and reasons to withhold classes.

        Raises:
            SignalError: The recording is too short, or its length differs from its header.
            UnitError: The recording has another unit.
        """
        check_unit(self.recording, self.expected)
        check_length(self.recording, self.expected)
        return judge_signal(self.recording)

    def _frames(self, leads: tuple[str, ...]) -> tuple[PreparedFrames, Floats]:
        """Return the frames of these leads, and their embeddings (frames, D'), with leads concatenated."""
        if leads not in self._embedded:
            usable = self.recording.select(self.verdict.leads)
            prepared = prepare(usable, self.expected, only_leads=leads, overlap=OVERLAP)
            num_frames = len(prepared.lead) // (1 if self.expected.all_leads else len(prepared.leads))
            self._embedded[leads] = prepared, self._embed(prepared).reshape(num_frames, -1)
        return self._embedded[leads]

    def _seconds(self, num_frames: int) -> float:
        """Return the time that overlapping frames take."""
        rate, length = self.expected.sampling_rate, self.expected.policy.num_samples
        assert rate is not None  # of the prepared frames
        return (OVERLAP + (1 - OVERLAP) * num_frames) * length / rate

    def classify(self, classifiers: Mapping[str, Classifier]) -> Classification:
        """Return the classes of the recording, or the reasons for which they are withheld.

        The first classifier with a set of leads that the recording has is used, with its largest set of usable leads.

        Args:
            classifiers: Classifiers by name, in order of preference.

        Raises:
            LeadError: No classifier has a set of leads that the recording has.
            SignalError: The recording is too short, or its length differs from its header.
            UnitError: The recording has another unit.
        """
        intended = next(largest_sets(self.recording.leads, classifiers), None)
        if intended is None:
            raise _no_lead_set(self.recording, classifiers)
        verdict = self.verdict
        reasons, age_notes = judge_patient(self.recording)
        notes = (*verdict.notes, *age_notes)
        chosen = next(largest_sets(verdict.leads, classifiers), None) if verdict.leads else None
        if verdict.leads and chosen is None:
            reasons += (f"no classifier was validated on {format_leads(verdict.leads)} alone",)
        if verdict.reasons or chosen is None:
            return _withheld(intended[0], classifiers, verdict, (*verdict.reasons, *reasons), notes)
        name, index = chosen
        classifier = classifiers[name]
        lead_set = classifier.card.lead_sets[index]
        try:
            prepared, frames = self._frames(lead_set.leads)
        except SignalError as error:  # a lead is flat for a frame
            return _withheld(name, classifiers, verdict, (*reasons, error.message), notes)
        notes = (*prepared.notes, *notes, *warnings_for(self.recording))
        most = classifier.card.max_frames
        num_parts = -(-len(frames) // most)
        if num_parts > 1:
            notes = (*notes, PARTS_NOTE.format(num_parts, self._seconds(most)))
        features = pool_recording_features(frames, num_parts)
        reasons += judge_features(classifier, index, features, verdict.heart_rate)
        if reasons:
            return _withheld(name, classifiers, verdict, reasons, notes)
        classes = classify_features(classifier, features, index)
        if PACED in verdict.findings:
            classes = tuple(item for item in classes if item.name in PACING_CLASSES)
            reasons = () if classes else (PACED_REASON,)
            notes = (*notes, PACED_REASON) if classes else notes
            plausible = None
        else:
            plausible = prediction_set(classifier, features, index)
        card = classifier.card
        if lead_set.local is not None:
            notes = (*notes, lead_set.local.note(item.name for item in card.classes))
        return Classification(
            name,
            prepared.leads,
            classes,
            card.multi_label,
            card.limitations,
            notes,
            verdict.findings,
            reasons,
            plausible,
        )


def _withheld(
    name: str,
    classifiers: Mapping[str, Classifier],
    verdict: InputVerdict,
    reasons: Sequence[str],
    notes: Sequence[str],
) -> Classification:
    """Return a classification without classes."""
    card = classifiers[name].card
    return Classification(
        name, (), (), card.multi_label, card.limitations, tuple(notes), verdict.findings, tuple(reasons)
    )


def largest_sets(leads: tuple[str, ...], classifiers: Mapping[str, Classifier]) -> Iterator[tuple[str, int]]:
    """Iterate over the classifiers with a set of leads among these, each with the index of its largest one."""
    available = available_leads(leads)
    for name, classifier in classifiers.items():
        if usable := classifier.card.usable_sets(available):
            yield name, usable[0]


def pool_recording_features(frames: Floats, num_parts: int = 1) -> Floats:
    """Return the features (D,) of a recording, the mean of those of its parts.

    The maximum of a feature over an hour is far from that over ten seconds, on which a classifier was fitted.

    Args:
        frames: Embeddings of frames (N, E), ordered by time. Leads are concatenated.
        num_parts: Number of parts, of nearly as many frames each.
    """
    part = np.arange(len(frames)) * num_parts // len(frames)
    return np.asarray(pool_frames(frames, part, num_parts, POOLING).mean(axis=0))


def classify_features(classifier: Classifier, features: Floats, set_index: int) -> tuple[ClassProbability, ...]:
    """Return the classes of a recording by descending probability.

    Args:
        classifier: The classifier.
        features: Features (D,) of the recording, computed from the leads of the set.
        set_index: Index of the set in ``card.lead_sets``.
    """
    lead_set = classifier.card.lead_sets[set_index]
    (probabilities,) = classifier.probabilities(features[None], set_index).tolist()
    (before,) = classifier.published_probabilities(features[None], set_index).tolist()
    local = lead_set.local
    classes = [
        ClassProbability(
            item.name,
            item.meaning,
            value,
            item.prevalence,
            lead_set.bin_of(index, published),
            None if local is None else local.classes[index],
        )
        for index, (item, value, published) in enumerate(
            zip(classifier.card.classes, probabilities, before, strict=True)
        )
    ]
    return tuple(sorted(classes, key=lambda item: -item.probability))


def prediction_set(classifier: Classifier, features: Floats, set_index: int) -> tuple[str, ...] | None:
    """Return the names of classes that cannot be excluded, the most probable first; None if there are no sets.

    Sets come from the published probabilities, whatever the calibration of a hospital.

    Args:
        classifier: The classifier.
        features: Features (D,) of the recording, computed from the leads of the set.
        set_index: Index of the set in ``card.lead_sets``.
    """
    thresholds = classifier.card.lead_sets[set_index].set_thresholds
    if not thresholds:
        return None
    probabilities = classifier.published_probabilities(features[None], set_index)
    (chosen,) = prediction_sets(probabilities, thresholds)
    return tuple(classifier.card.classes[index].name for index in np.argsort(-probabilities[0]) if chosen[index])


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
