"""Trained encoders, ready to use: shipped ones by name, others by their folder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import nn

from clocs.core.errors import ConfigError, IntegrityError, LeadError, StoreError
from clocs.inference.classifier import FOLDER, Bin, Classifier, ClassifierCard, load_classifiers
from clocs.inference.input_checks import warnings_for
from clocs.inference.preparation import ANY_LEAD, EncoderInput, leads_named, prepare
from clocs.inference.recordings import Signal, recording_of
from clocs.signals.resampling import Floats
from clocs.training.checkpoint import load_encoder_folder
from clocs.training.shipped import DEFAULT_ENCODER, encoder_folder

FORMAT: Final = "clocs-encoder-1"
BATCH: Final = 256
"""Frames that go through an encoder at once."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of a recording, one a lead and frame, ordered by time, then by lead."""

    values: Floats
    """(rows, E)"""
    lead: tuple[str, ...]
    """(rows,)"""
    start: npt.NDArray[np.float64]
    """(rows,), seconds from the recording's first sample."""
    notes: tuple[str, ...]
    """What was corrected or left out, a sentence each."""

    def pooled(self) -> Floats:
        """(E,), the mean over all leads and frames."""
        return np.asarray(self.values.mean(axis=0))


@dataclass(frozen=True)
class ClassProbability:
    """What a classifier says about one class."""

    name: str
    meaning: str
    probability: float
    prevalence: float
    """The fraction of training patients that had the class."""
    validation: Bin | None
    """Validation patients with a probability in the same range; None: there were none, or they are no measure of it."""
    incomparable: str = ""
    """Why validation patients are no measure of it, as where a lead is missing that they had; else empty."""

    @property
    def track_record(self) -> str:
        """How often such a probability was right."""
        if self.incomparable:
            return f"not known: {self.incomparable}"
        if self.validation is None:
            return "no validation patient had such a probability"
        many, low, high = self.validation.count, self.validation.low, self.validation.high
        patients = f"{many:,} validation patient" + ("" if many == 1 else "s")
        return f"of {patients} with {100 * low:.0f} to {_percent(high)}, {_percent(self.validation.observed)} had it"


def _percent(share: float) -> str:
    """Halves up, as the viewer rounds; never 0% or 100% of what is neither."""
    if 0 < share < 0.005:
        return "under 1%"
    if 0.995 <= share < 1:
        return "over 99%"
    return f"{math.floor(100 * share + 0.5)}%"


@dataclass(frozen=True)
class Classification:
    """What a classifier says about a recording. For research; not a diagnosis."""

    classifier: str
    """Its name."""
    classes: tuple[ClassProbability, ...]
    """The most probable first."""
    multi_label: bool
    """Whether several may be true at once; else the probabilities sum to 1."""
    cannot_recognise: tuple[str, ...]
    notes: tuple[str, ...]
    """What was corrected, left out, or looks wrong in the recording, a sentence each."""


class PretrainedEncoder:
    """A trained encoder that takes files, recordings and arrays as they are.

    What its config.json says about rate, leads, unit and normalisation is done to them, or they are refused.
    """

    def __init__(
        self, name: str, module: nn.Module, about: dict[str, Any], classifiers: Mapping[str, Classifier]
    ) -> None:
        self.name, self.module, self.about = name, module.eval(), about
        self.classifiers = dict(classifiers)
        """By name, the one that ``classify`` takes by default first."""
        self.input = _input(name, about)
        self.embedding = int(about["encoder"]["options"]["embedding_dim"])
        """E, the length of an embedding."""
        for classifier in self.classifiers.values():
            _refuse_foreign(name, classifier, about)

    def __repr__(self) -> str:
        return f"<PretrainedEncoder {self.name}: {', '.join(self.input.leads)} to {self.embedding} numbers>"

    def embed(
        self,
        source: Signal,
        *,
        rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        any_lead: bool = False,
    ) -> Embeddings:
        """Embed a file, a recording, or an array (leads, samples) with its rate in Hz, leads and unit (mV, uV, V).

        ``any_lead``: take also the leads that the encoder was not trained on.
        """
        recording = recording_of(source, rate=rate, leads=leads, unit=unit)
        ready = prepare(recording, self.input, any_lead=any_lead)
        return Embeddings(self.embed_frames(ready.frames), ready.lead, ready.start, ready.notes)

    def classify(
        self,
        source: Signal,
        *,
        rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        any_lead: bool = False,
        classifier: str | None = None,
    ) -> Classification:
        """Class probabilities of a recording, given as to ``embed``: means over its leads and frames.

        ``classifier``: one of ``classifiers`` by name; without it, the first that was fitted on a lead of the
        recording. Only leads that it was fitted on count, and there must be one; where one is missing, there is no
        track record. ``any_lead``: all leads count, and where one is of those others, there is none either.
        """
        self.classifier(classifier)  # a name that is not there is refused before any work
        recording = recording_of(source, rate=rate, leads=leads, unit=unit)
        made = self.embed(recording, any_lead=any_lead)
        fitting = self._fitting(made.lead)
        name = next(iter(fitting or self.classifiers)) if classifier is None else classifier
        card = self.classifiers[name].card
        if name not in fitting and not any_lead:
            raise _unfit(name, card, made.lead, fitting)
        rows, notes = _counted(name, card, made, any_lead)
        incomparable = _incomparable(card, made.lead, any_lead)
        found = self.classifiers[name].classify(rows, whole=not incomparable)
        classes = [
            ClassProbability(
                item.name,
                item.meaning,
                found[item.name],
                item.prevalence,
                None if incomparable else item.bin_of(found[item.name]),
                incomparable,
            )
            for item in card.classes
        ]
        classes.sort(key=lambda item: -item.probability)
        notes = (*notes, *warnings_for(recording))
        return Classification(name, tuple(classes), card.multi_label, card.cannot_recognise, notes)

    def _fitting(self, leads: Sequence[str]) -> list[str]:
        """The classifiers that were fitted on one of these leads, in their order."""
        there = set(leads)
        return [name for name, one in self.classifiers.items() if set(one.card.foreign(there)) != there]

    def classifier(self, name: str | None = None) -> Classifier:
        """One of the classifiers by its name; without a name, the first."""
        if not self.classifiers:
            raise StoreError(f"encoder '{self.name}' comes without a classifier: its folder has no {FOLDER}")
        chosen = next(iter(self.classifiers)) if name is None else name
        if chosen not in self.classifiers:
            raise ConfigError(f"encoder '{self.name}' has no classifier '{name}'; it has {', '.join(self.classifiers)}")
        return self.classifiers[chosen]

    def embed_frames(self, frames: npt.NDArray[np.floating]) -> Floats:
        """(N, S) frames of single leads, at the encoder's rate and normalised as in training -> (N, E)."""
        if frames.ndim != 2 or frames.shape[1] != self.input.samples:
            raise ConfigError(f"frames of '{self.name}' must be (N, {self.input.samples}), not {frames.shape}")
        signals = torch.from_numpy(np.ascontiguousarray(frames, np.float32)).unsqueeze(1)
        with torch.inference_mode():
            parts = [self.module(part) for part in torch.split(signals, BATCH)] if len(signals) else []
        return torch.cat(parts).numpy() if parts else np.empty((0, self.embedding), np.float32)


def _input(name: str, about: dict[str, Any]) -> EncoderInput:
    if about.get("format") != FORMAT:
        raise StoreError(f"encoder '{name}' has the format {about.get('format')}; this version reads {FORMAT}")
    if about["encoder"]["options"]["in_channels"] != 1:
        raise StoreError(f"encoder '{name}' takes several leads at once; only encoders of single leads can be used so")
    try:
        return EncoderInput.model_validate(about.get("input"))
    except ValidationError as error:
        raise StoreError(f"encoder '{name}' does not say what it takes: {error}") from error


def _counted(name: str, card: ClassifierCard, made: Embeddings, any_lead: bool) -> tuple[Floats, tuple[str, ...]]:
    """The rows that count for a classifier, and all notes."""
    foreign = card.foreign(made.lead)
    if not foreign:
        return made.values, made.notes
    fitted = f"classifier '{name}' was fitted on {', '.join(card.leads)}"
    if any_lead:
        return made.values, (*made.notes, f"{leads_named(foreign)} counted although {fitted}: no track record")
    counts = np.isin(made.lead, card.leads)
    return made.values[counts], (*made.notes, f"{leads_named(foreign)} not counted: {fitted}")


def _incomparable(card: ClassifierCard, leads: Sequence[str], any_lead: bool) -> str:
    """Why a recording of these leads is not what validation patients were judged by; empty where it is."""
    if any_lead and card.foreign(leads):
        return "the classifier was not fitted on such leads"
    lacking = card.lacking(leads)
    return f"without {leads_named(lacking)}, which validation patients had" if lacking else ""


def _unfit(name: str, card: ClassifierCard, leads: Sequence[str], fitting: Sequence[str]) -> LeadError:
    """The refusal of a recording that has none of a classifier's leads."""
    return LeadError(
        f"classifier '{name}' was fitted on {', '.join(card.leads)}; this recording has "
        f"{leads_named(card.foreign(leads))}, of which it knows nothing. Classifiers of this encoder for it: "
        f"{', '.join(fitting) or 'none'}. To classify all the same, without a track record, say so."
    ).with_code(ANY_LEAD)


def _refuse_foreign(name: str, classifier: Classifier, about: dict[str, Any]) -> None:
    if classifier.card.encoder_sha256 != about.get("weights_sha256"):
        raise IntegrityError(
            f"a classifier beside encoder '{name}' was trained on the embeddings of another one; delete the folder "
            f"'{FOLDER}' in the encoder's, or publish the encoder anew, into an empty folder"
        )


def load_encoder(name_or_folder: str | os.PathLike[str] = DEFAULT_ENCODER) -> PretrainedEncoder:
    """A shipped encoder by its name, or any by the folder of its run, with its classifiers if it has any."""
    folder = encoder_folder(name_or_folder)
    try:
        module, about = load_encoder_folder(folder)
    except (KeyError, TypeError, RuntimeError) as error:
        raise StoreError(f"{folder} holds no encoder that can be loaded ({error!r}); a run's is in 'best'") from error
    classifiers = load_classifiers(folder, about.get("classifiers"))
    return PretrainedEncoder(os.fspath(name_or_folder), module, about, classifiers)
