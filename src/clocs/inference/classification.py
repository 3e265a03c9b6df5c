"""Classification of a recording by the largest set of leads that a classifier and the usable leads have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np

from clocs.core.errors import LeadError, SignalError
from clocs.core.recording import Recording
from clocs.inference.abstention import PACED, PACED_REASON, PACING_CLASSES, judge_features, judge_patient
from clocs.inference.classifier import Classifier
from clocs.inference.frame_pooling import OVERLAP, FeatureAverage
from clocs.inference.input_checks import recording_label, warnings_for
from clocs.inference.long_recordings import Minute, judge_minutes, notes_on_minutes, reasons_to_withhold
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


class _Way(NamedTuple):
    """A set of leads and the longest part, on which the features of a recording depend."""

    leads: tuple[str, ...]
    max_frames: int


@dataclass(frozen=True)
class _Choice:
    """The classifier and the set of leads that are used for a recording."""

    classifiers: Mapping[str, Classifier]
    """Classifiers among which it was chosen."""
    name: str
    index: int
    """Index of the set of leads in the card."""
    reasons: tuple[str, ...] = ()
    """Why its classes are withheld already; empty: they are not."""

    @property
    def classifier(self) -> Classifier:
        return self.classifiers[self.name]

    @property
    def way(self) -> _Way:
        card = self.classifier.card
        return _Way(card.lead_sets[self.index].leads, card.max_frames)


@dataclass
class _Embedded:
    """Features of a recording from one set of leads, and what became of its minutes."""

    average: FeatureAverage
    by_minute: list[tuple[str, ...]] = field(default_factory=list)
    """The reasons for which each minute is left out; empty for those that are used."""
    notes: tuple[str, ...] = ()
    """Notes of the preparation of the last minute, where the rest after the last frame is."""


class JudgedRecording:
    """A recording whose signal is judged, and whose leads are embedded, once for several classifiers.

    Minutes are embedded one after another, so that the memory does not grow with the duration.

    Args:
        recording: The recording.
        expected: The encoder's input format.
        embed: Function that returns the embeddings (rows, E) of frames.
    """

    def __init__(self, recording: Recording, expected: EncoderInput, embed: Callable[[PreparedFrames], Floats]) -> None:
        self.recording, self.expected, self._embed = recording, expected, embed

    @cached_property
    def minutes(self) -> tuple[Minute, ...]:
        """The minutes of the recording, each with its judgement.

        Raises:
            SignalError: The recording is too short, or its sampling rate is too low.
            UnitError: The recording has another unit.
        """
        check_unit(self.recording, self.expected)
        check_length(self.recording, self.expected)
        return judge_minutes(self.recording)

    def classify(self, *alternatives: Mapping[str, Classifier]) -> tuple[Classification, ...]:
        """Return the classes of the recording, or the reasons for which they are withheld.

        Of each mapping, the first classifier with a set of leads that the recording has is used, with its largest set
        of usable leads. Leads are usable if they are so in half of the minutes, and the other minutes are left out.

        Args:
            alternatives: Classifiers by name, in order of preference.

        Returns:
            A classification for each mapping.

        Raises:
            LeadError: No classifier has a set of leads that the recording has.
            SignalError: The recording is too short, or its sampling rate is too low.
            UnitError: The recording has another unit.
        """
        for classifiers in alternatives:
            if next(largest_sets(self.recording.leads, classifiers), None) is None:
                raise _no_lead_set(self.recording, classifiers)
        choices = [self._choose(classifiers) for classifiers in alternatives]
        embedded = self._embed_minutes({choice.way for choice in choices if not choice.reasons})
        return tuple(
            self._classification(choice, None if choice.reasons else embedded[choice.way]) for choice in choices
        )

    def _choose(self, classifiers: Mapping[str, Classifier]) -> _Choice:
        """Return the first set of leads that is usable in half of the minutes."""
        available = available_leads(self.recording.leads)
        for name, classifier in classifiers.items():
            for index in classifier.card.usable_sets(available):
                choice = _Choice(classifiers, name, index)
                if 2 * sum(minute.has_usable(choice.way.leads) for minute in self.minutes) >= len(self.minutes):
                    return choice
        name, index = next(largest_sets(self.recording.leads, classifiers))
        by_minute = [minute.verdict.reasons or _no_set(minute.verdict.leads, classifiers) for minute in self.minutes]
        reasons = reasons_to_withhold(by_minute) or ("no set of leads is usable in half of the minutes",)
        return _Choice(classifiers, name, index, reasons)

    def _embed_minutes(self, ways: Collection[_Way]) -> dict[_Way, _Embedded]:
        """Return the features for each way; a set of leads is embedded once."""
        found = {way: _Embedded(FeatureAverage(way.max_frames)) for way in ways}
        for minute, leads in itertools.product(self.minutes, {way.leads for way in ways}):
            reasons, frames, notes = self._embed_minute(minute, leads)
            for embedded in (item for way, item in found.items() if way.leads == leads):
                embedded.by_minute.append(reasons)
                if not reasons:
                    embedded.average.add(frames)
                    embedded.notes = notes
        return found

    def _embed_minute(self, minute: Minute, leads: tuple[str, ...]) -> tuple[tuple[str, ...], Floats, tuple[str, ...]]:
        """Return the reasons to leave a minute out, its embeddings (frames, D') with leads concatenated, and notes."""
        nothing = np.empty((0, 0), np.float32)
        if not minute.has_usable(leads):
            return minute.verdict.reasons or (f"{format_leads(leads)} not usable",), nothing, ()
        usable = minute.recording.select(minute.verdict.leads)
        try:
            prepared = prepare(usable, self.expected, only_leads=leads, overlap=OVERLAP)
        except SignalError as error:  # a lead is flat for a frame
            return (error.message,), nothing, ()
        return (), self._embed(prepared).reshape(len(prepared.windows), -1), prepared.notes

    def _seconds(self, num_frames: int) -> float:
        """Return the time that overlapping frames take."""
        rate, length = self.expected.sampling_rate, self.expected.policy.num_samples
        assert rate is not None  # of the prepared frames
        return (OVERLAP + (1 - OVERLAP) * num_frames) * length / rate

    def _classification(self, choice: _Choice, embedded: _Embedded | None) -> Classification:
        """Return the classification of a choice; without features, classes are withheld for its reasons."""
        minutes, classifier, card = self.minutes, choice.classifier, choice.classifier.card
        paced = 2 * sum(PACED in item.verdict.findings for item in minutes) >= len(minutes)
        result = partial(
            Classification,
            classifier=choice.name,
            multi_label=card.multi_label,
            limitations=card.limitations,
            findings=(PACED,) if paced else (),
        )
        by_minute = embedded.by_minute if embedded is not None else [item.verdict.reasons for item in minutes]
        age_reasons, age_notes = judge_patient(self.recording)
        notes = (*notes_on_minutes(self.recording, minutes, by_minute), *age_notes)
        reasons = choice.reasons or reasons_to_withhold(by_minute)
        if embedded is None or reasons:
            return result(leads=(), classes=(), notes=notes, withheld=(*reasons, *age_reasons))
        used = [item for item, left_out in zip(minutes, by_minute, strict=True) if not left_out]
        notes = (*embedded.notes, *notes, *warnings_for(used[0].recording))
        num_parts = embedded.average.num_parts
        if num_parts > 1:
            notes = (*notes, PARTS_NOTE.format(num_parts, self._seconds(choice.way.max_frames)))
        rates = [item.verdict.heart_rate for item in used if item.verdict.heart_rate is not None]
        features, heart_rate = embedded.average.features, float(np.median(rates)) if rates else None
        reasons = age_reasons + judge_features(classifier, choice.index, features, heart_rate)
        if reasons:
            return result(leads=(), classes=(), notes=notes, withheld=reasons)
        classes = classify_features(classifier, features, choice.index)
        plausible = None if paced else prediction_set(classifier, features, choice.index)
        if paced:
            classes = tuple(item for item in classes if item.name in PACING_CLASSES)
            reasons = () if classes else (PACED_REASON,)
            notes = (*notes, PACED_REASON) if classes else notes
        local = card.lead_sets[choice.index].local
        if local is not None:
            notes = (*notes, local.note(item.name for item in card.classes))
        return result(leads=choice.way.leads, classes=classes, notes=notes, withheld=reasons, prediction_set=plausible)


def largest_sets(leads: tuple[str, ...], classifiers: Mapping[str, Classifier]) -> Iterator[tuple[str, int]]:
    """Iterate over the classifiers with a set of leads among these, each with the index of its largest one."""
    available = available_leads(leads)
    for name, classifier in classifiers.items():
        if usable := classifier.card.usable_sets(available):
            yield name, usable[0]


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


def _no_set(leads: tuple[str, ...], classifiers: Mapping[str, Classifier]) -> tuple[str, ...]:
    """Return as a reason that no classifier has a set of these leads; empty: one has."""
    if next(largest_sets(leads, classifiers), None):
        return ()
    return (f"no classifier was validated on {format_leads(leads)} alone",)


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
