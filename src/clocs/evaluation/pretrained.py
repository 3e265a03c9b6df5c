"""Trained encoders, ready to use: shipped ones by name, others by their folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import nn

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.encoders.encoder import parse_encoder
from clocs.evaluation.classifier import FOLDER, Bin, Classifier, load_classifiers
from clocs.evaluation.preparation import EncoderInput, prepare
from clocs.evaluation.recordings import Signal, recording_of
from clocs.evaluation.shipped import DEFAULT_ENCODER, encoder_folder
from clocs.signals.resampling import Floats
from clocs.training.checkpoint import load_encoder_folder

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
    """Validation patients with about this probability; None: there were none."""

    @property
    def track_record(self) -> str:
        """How often such a probability was right."""
        if self.validation is None:
            return "no validation patient had such a probability"
        return (
            f"of {self.validation.count} validation patients with about {self.validation.mean_probability:.0%}, "
            f"{self.validation.observed:.0%} had it"
        )


@dataclass(frozen=True)
class Classification:
    """What a classifier says about a recording. For research; not a diagnosis."""

    classes: tuple[ClassProbability, ...]
    """The most probable first."""
    multi_label: bool
    """Whether several may be true at once; else the probabilities sum to 1."""
    cannot_recognise: tuple[str, ...]
    notes: tuple[str, ...]
    """What was corrected or left out of the recording, a sentence each."""


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
        self.embedding = parse_encoder(about["encoder"]["name"], about["encoder"]["options"]).embedding
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

        ``classifier``: one of ``classifiers`` by name; without it, the first.
        """
        chosen = self.classifier(classifier)
        embeddings = self.embed(source, rate=rate, leads=leads, unit=unit, any_lead=any_lead)
        found, card = chosen.classify(embeddings.values), chosen.card
        classes = [
            ClassProbability(item.name, item.meaning, found[item.name], item.prevalence, item.bin_of(found[item.name]))
            for item in card.classes
        ]
        classes.sort(key=lambda item: -item.probability)
        return Classification(tuple(classes), card.multi_label, card.cannot_recognise, embeddings.notes)

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
    if parse_encoder(about["encoder"]["name"], about["encoder"]["options"]).channels != 1:
        raise StoreError(f"encoder '{name}' takes several leads at once; only encoders of single leads can be used so")
    try:
        return EncoderInput.model_validate(about.get("input"))
    except ValidationError as error:
        raise StoreError(f"encoder '{name}' does not say what it takes: {error}") from error


def _refuse_foreign(name: str, classifier: Classifier, about: dict[str, Any]) -> None:
    if classifier.card.encoder_sha256 != about.get("weights_sha256"):
        raise IntegrityError(f"the classifier beside encoder '{name}' was trained on the embeddings of another one")


def load_encoder(name_or_folder: str | os.PathLike[str] = DEFAULT_ENCODER) -> PretrainedEncoder:
    """A shipped encoder by its name, or any by the folder of its run, with its classifiers if it has any."""
    folder = encoder_folder(name_or_folder)
    try:
        module, about = load_encoder_folder(folder)
    except (KeyError, TypeError, RuntimeError) as error:
        raise StoreError(f"{folder} holds no encoder that can be loaded ({error!r}); a run's is in 'best'") from error
    classifiers = load_classifiers(folder, about.get("classifiers", ()))
    return PretrainedEncoder(os.fspath(name_or_folder), module, about, classifiers)
