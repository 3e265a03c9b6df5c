"""A linear classifier on embeddings that says what its classes are, and how far its probabilities can be trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.files import file_hash, seal, unseal, write_bytes
from clocs.metrics.calibration import Reliability, adjust_probabilities, to_probabilities

TENSORS, ABOUT = "classifier.safetensors", "classifier.json"
FOLDER = "classifiers"
"""Beside an encoder: a folder for each classifier, by its name."""
Floats = npt.NDArray[np.float32]
Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class ReliabilityBin:
    """Validation patients whose probability of a class was over ``low`` and up to ``high``."""

    low: Fraction
    high: Fraction
    count: int
    """Patients."""
    mean_probability: Fraction
    observed: Fraction
    """The fraction of them that had the class."""

    def holds(self, probability: float) -> bool:
        """Whether a probability lies in this bin; 0 lies in the lowest."""
        return self.low < probability <= self.high or probability == self.low == 0


@dataclass(frozen=True)
class ClassInfo:
    """One class."""

    name: str
    meaning: str
    prevalence: Fraction
    """The fraction of training patients that had it."""
    reliability: tuple[ReliabilityBin, ...]
    """How often a probability was right on validation patients; empty bins are left out."""

    def bin_of(self, probability: float) -> ReliabilityBin | None:
        """The validation patients with about this probability; None where there were none."""
        return next((item for item in self.reliability if item.holds(probability)), None)


class ClassifierCard(BaseModel):
    """Everything about a classifier but its numbers: the content of classifier.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["clocs-classifier-2"] = "clocs-classifier-2"
    classes: tuple[ClassInfo, ...] = Field(min_length=1)
    multi_label: bool
    """Whether a recording may have several classes: then each has a probability of its own, else they sum to 1."""
    temperature: float = Field(gt=0)
    """Logits are divided by it."""
    adjustment: tuple[tuple[float, float], ...] = ()
    """By class: slope and offset that make a recording's mean probability one of its own; empty: the mean as it is."""
    limitations: tuple[str, ...]
    """Plain sentences."""
    representation: Literal["mean_probability"] = "mean_probability"
    """How a recording is represented: ``mean_probability`` classifies every embedding and averages probabilities."""
    leads: tuple[str, ...] = ()
    """Leads whose embeddings it was fitted on; empty: the card, an older one, does not say."""
    trained_on: dict[str, Any]
    """Where the labels and patients came from."""
    encoder_sha256: str
    """Hash of the weights whose embeddings it takes (``weights_sha256`` of the encoder's config.json)."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({item.name for item in self.classes}) != len(self.classes):
            raise ValueError("a class is named twice")
        if self.adjustment and len(self.adjustment) != len(self.classes):
            raise ValueError(f"{len(self.adjustment)} adjustments for {len(self.classes)} classes")
        return self

    def unknown_leads(self, leads: Iterable[str]) -> tuple[str, ...]:
        """Those of the leads that it was not fitted on; none where the card does not say."""
        return tuple(dict.fromkeys(lead for lead in leads if self.leads and lead not in self.leads))

    def missing_leads(self, leads: Iterable[str]) -> tuple[str, ...]:
        """The leads it was fitted on that are not among these."""
        there = set(leads)
        return tuple(lead for lead in self.leads if lead not in there)


@dataclass(frozen=True, eq=False)
class Classifier:
    """``weight @ (embedding - mean) / scale + bias``, over K classes and embeddings of length E."""

    card: ClassifierCard
    mean: Floats
    """(E,)"""
    scale: Floats
    """(E,), over 0."""
    weight: Floats
    """(K, E)"""
    bias: Floats
    """(K,)"""

    def __post_init__(self) -> None:
        classes, length = len(self.card.classes), len(self.mean)
        shapes = {"mean": (length,), "scale": (length,), "weight": (classes, length), "bias": (classes,)}
        for name, shape in shapes.items():
            values = np.asarray(getattr(self, name))
            if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
                raise ConfigError(
                    f"{name} of a classifier of {classes} classes on embeddings of length {length} must be finite "
                    f"float32 of shape {shape}, not {values.dtype} of shape {values.shape}"
                )
        if not (self.scale > 0).all():
            raise ConfigError("scale of a classifier must be over 0; use 1 where an embedding's value never varies")

    def logits(self, embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """(N, E) -> (N, K), before the temperature."""
        if embeddings.ndim != 2 or embeddings.shape[1] != len(self.mean):
            raise ConfigError(f"embeddings must be (rows, {len(self.mean)}), not {embeddings.shape}")
        standard = (embeddings.astype(np.float64) - self.mean) / self.scale
        return np.asarray(standard @ self.weight.T + self.bias)

    def probabilities(self, embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """(N, E) -> (N, K)."""
        return to_probabilities(self.logits(embeddings), self.card.temperature, self.card.multi_label)

    def adjust_recording(self, means: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """(G, K): what means of a recording's probabilities over leads and frames stand for."""
        if not self.card.adjustment:
            return np.asarray(means, np.float64)
        slope, offset = np.array(self.card.adjustment).T
        return adjust_probabilities(means, slope, offset, self.card.multi_label)

    def classify(self, embeddings: npt.NDArray[np.floating], *, whole: bool = True) -> dict[str, float]:
        """The probability of each class, from the embeddings (N, E) of all leads and frames of one recording.

        ``whole``: they are of the leads it was fitted on, all of them and no others; else their mean stays as it is.
        """
        if not len(embeddings):
            raise ConfigError("a recording without embeddings cannot be classified")
        means = self.probabilities(embeddings).mean(axis=0, keepdims=True)
        (found,) = self.adjust_recording(means) if whole else means
        return {item.name: float(value) for item, value in zip(self.card.classes, found, strict=True)}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write its two files; the JSON last, with the tensors' hash."""
        path = Path(folder) / TENSORS
        arrays = {name: getattr(self, name) for name in ("mean", "scale", "weight", "bias")}
        write_bytes(path, save({name: np.ascontiguousarray(values) for name, values in arrays.items()}))
        body = {**self.card.model_dump(mode="json"), "tensors_sha256": file_hash(path)}
        write_bytes(path.with_name(ABOUT), seal(body))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Classifier:
        """As saved; refused where a byte has changed."""
        path = Path(folder) / ABOUT
        if not path.exists():
            raise StoreError(f"{folder} holds no classifier: there is no {ABOUT}")
        body = unseal(path.read_bytes(), _named(path))
        sha256 = body.pop("tensors_sha256", None)
        if body.get("format") != ClassifierCard.model_fields["format"].default:
            raise StoreError(f"{path} has the format {body.get('format')}, which this version of clocs does not read")
        known = ClassifierCard.model_fields["representation"].default
        if body.get("representation") != known:
            raise StoreError(
                f"{_named(path)}: represents a recording by '{body.get('representation')}'; this version of clocs "
                f"knows '{known}'. Update clocs, or use another classifier."
            )
        try:
            return cls(ClassifierCard.model_validate(body), **_read(path.with_name(TENSORS), sha256))
        except (ValidationError, TypeError, ConfigError) as error:
            raise IntegrityError(f"{_named(path)}: does not describe a classifier: {error}") from error


def _named(path: Path) -> str:
    """A file with the name of its classifier: an encoder may have several."""
    return f"{path.parent.name}/{path.name}"


def _read(path: Path, sha256: str | None) -> Mapping[str, Floats]:
    try:
        if file_hash(path) != sha256:
            raise IntegrityError(f"{_named(path)}: content differs from the hash in {ABOUT}; get a fresh copy")
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise IntegrityError(f"{_named(path)}: cannot be read: {error}") from error


def load_classifiers(encoder: Path, listed: Sequence[str] | None = None) -> dict[str, Classifier]:
    """The classifiers in an encoder's folder, by name: those ``listed``, in that order; else all, sorted."""
    there = sorted(path.parent.name for path in (encoder / FOLDER).glob(f"*/{ABOUT}"))
    names = there if listed is None else [name for name in listed if name in there]
    return {name: Classifier.load(encoder / FOLDER / name) for name in names}


def reliability_bins(found: Reliability) -> list[tuple[ReliabilityBin, ...]]:
    """What a classifier keeps of a measured reliability: for each class, the bins that are not empty."""
    columns = (found.edges[:-1], found.edges[1:])
    return [
        tuple(
            ReliabilityBin(float(low), float(high), int(count), float(mean), float(observed))
            for low, high, count, mean, observed in zip(*columns, *rows, strict=True)
            if count
        )
        for rows in zip(found.count, found.mean_probability, found.observed, strict=True)
    ]
