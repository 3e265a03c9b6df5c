"""Calibrated linear classifiers on embeddings, saved with their classes, limitations and reliability."""

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
"""Subfolder of an encoder that has a folder for each of its classifiers, by name."""
Floats = npt.NDArray[np.float32]
Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class ReliabilityBin:
    """Validation patients with a probability of a class in (low, high]."""

    low: Fraction
    """Lower bound, excluded."""
    high: Fraction
    """Upper bound, included."""
    count: int
    """Number of patients."""
    mean_probability: Fraction
    """Mean probability of the patients."""
    observed: Fraction
    """Fraction of the patients that have the class."""

    def contains(self, probability: float) -> bool:
        """Return whether a probability is in this bin. The lowest bin includes 0."""
        return self.low < probability <= self.high or probability == self.low == 0


@dataclass(frozen=True)
class ClassInfo:
    """A class of a classifier."""

    name: str
    """Name of the class."""
    meaning: str
    """Name of the class in words."""
    prevalence: Fraction
    """Fraction of training patients that have the class."""
    reliability: tuple[ReliabilityBin, ...]
    """Reliability diagram over validation patients, without empty bins."""

    def bin_of(self, probability: float) -> ReliabilityBin | None:
        """Return the bin of a probability, or None if no validation patient is in it."""
        return next((item for item in self.reliability if item.contains(probability)), None)


class ClassifierCard(BaseModel):
    """The content of classifier.json: everything about a classifier except its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["clocs-classifier-2"] = "clocs-classifier-2"
    """Version of the file format."""
    classes: tuple[ClassInfo, ...] = Field(min_length=1)
    """Classes in the order of the weights."""
    multi_label: bool
    """True if a recording may have several classes. Otherwise probabilities sum to 1."""
    temperature: float = Field(gt=0)
    """Calibration temperature: logits are divided by it."""
    adjustment: tuple[tuple[float, float], ...] = ()
    """Slope and offset of each class, which calibrate the mean probability of a recording. Empty: no calibration."""
    limitations: tuple[str, ...]
    """Limitations for users, one sentence each."""
    representation: Literal["mean_probability"] = "mean_probability"
    """Pooling over a recording: ``mean_probability`` classifies every embedding and averages the probabilities."""
    leads: tuple[str, ...] = ()
    """Leads that it was fitted on. Empty: unknown, for classifiers saved by older versions."""
    trained_on: dict[str, Any]
    """Dataset, licence, citation and hashes of the training data."""
    encoder_sha256: str
    """Hash of the encoder's weights (``weights_sha256`` of its config.json)."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({item.name for item in self.classes}) != len(self.classes):
            raise ValueError("class names must differ")
        if self.adjustment and len(self.adjustment) != len(self.classes):
            raise ValueError(f"{len(self.adjustment)} adjustments for {len(self.classes)} classes")
        return self

    def unknown_leads(self, leads: Iterable[str]) -> tuple[str, ...]:
        """Return the leads that it was not fitted on; empty if its own leads are unknown."""
        return tuple(dict.fromkeys(lead for lead in leads if self.leads and lead not in self.leads))

    def missing_leads(self, leads: Iterable[str]) -> tuple[str, ...]:
        """Return the leads that it was fitted on and that are not among these."""
        given = set(leads)
        return tuple(lead for lead in self.leads if lead not in given)


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear classifier of K classes: ``weight @ (embedding - mean) / scale + bias``."""

    card: ClassifierCard
    """Description of the classifier."""
    mean: Floats
    """Mean of the training embeddings, (E,)."""
    scale: Floats
    """Standard deviation of the training embeddings, (E,), over 0."""
    weight: Floats
    """Weights, (K, E)."""
    bias: Floats
    """Biases, (K,)."""

    def __post_init__(self) -> None:
        classes, length = len(self.card.classes), len(self.mean)
        shapes = {"mean": (length,), "scale": (length,), "weight": (classes, length), "bias": (classes,)}
        for name, shape in shapes.items():
            values = np.asarray(getattr(self, name))
            if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
                raise ConfigError(
                    f"Expected finite float32 values of shape {shape} for '{name}' of a classifier, got "
                    f"{values.dtype} of shape {values.shape}."
                )
        if not (self.scale > 0).all():
            raise ConfigError("Expected values over 0 for 'scale' of a classifier. Use 1 where a feature is constant.")

    def logits(self, embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return logits (N, K) of embeddings (N, E), not divided by the temperature."""
        if embeddings.ndim != 2 or embeddings.shape[1] != len(self.mean):
            raise ConfigError(f"Expected embeddings of shape (N, {len(self.mean)}), got {embeddings.shape}.")
        standard = (embeddings.astype(np.float64) - self.mean) / self.scale
        return np.asarray(standard @ self.weight.T + self.bias)

    def probabilities(self, embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return class probabilities (N, K) of embeddings (N, E)."""
        return to_probabilities(self.logits(embeddings), self.card.temperature, self.card.multi_label)

    def adjust_recording(self, means: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Calibrate mean probabilities (G, K) of recordings, each over all leads and frames."""
        if not self.card.adjustment:
            return np.asarray(means, np.float64)
        slope, offset = np.array(self.card.adjustment).T
        return adjust_probabilities(means, slope, offset, self.card.multi_label)

    def classify(self, embeddings: npt.NDArray[np.floating], *, all_leads: bool = True) -> dict[str, float]:
        """Return the probability of each class of one recording.

        Args:
            embeddings: Embeddings (N, E) of all leads and frames of the recording.
            all_leads: Whether they are of exactly the leads it was fitted on. Otherwise the mean probability is
                not calibrated.
        """
        if not len(embeddings):
            raise ConfigError("Expected at least one embedding of the recording, got none.")
        means = self.probabilities(embeddings).mean(axis=0, keepdims=True)
        (found,) = self.adjust_recording(means) if all_leads else means
        return {item.name: float(value) for item, value in zip(self.card.classes, found, strict=True)}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the classifier to a folder: its tensors, then its JSON with the hash of the tensors."""
        path = Path(folder) / TENSORS
        arrays = {name: getattr(self, name) for name in ("mean", "scale", "weight", "bias")}
        write_bytes(path, save({name: np.ascontiguousarray(values) for name, values in arrays.items()}))
        body = {**self.card.model_dump(mode="json"), "tensors_sha256": file_hash(path)}
        write_bytes(path.with_name(ABOUT), seal(body))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Classifier:
        """Read a classifier from a folder.

        Raises:
            StoreError: The folder has no classifier, or one of another format.
            IntegrityError: A file has changed.
        """
        path = Path(folder) / ABOUT
        if not path.exists():
            raise StoreError(f"{folder} is not the folder of a classifier: it has no {ABOUT}.")
        body = unseal(path.read_bytes(), _file_label(path))
        sha256 = body.pop("tensors_sha256", None)
        if body.get("format") != ClassifierCard.model_fields["format"].default:
            raise StoreError(f"{path} has the format {body.get('format')}, which this version of clocs does not read.")
        supported = ClassifierCard.model_fields["representation"].default
        if body.get("representation") != supported:
            raise StoreError(
                f"{_file_label(path)}: unknown representation '{body.get('representation')}'; this version of clocs "
                f"has '{supported}'. Update clocs, or use another classifier."
            )
        try:
            return cls(ClassifierCard.model_validate(body), **_read_tensors(path.with_name(TENSORS), sha256))
        except (ValidationError, TypeError, ConfigError) as error:
            raise IntegrityError(f"{_file_label(path)}: is not a valid classifier: {error}") from error


def _file_label(path: Path) -> str:
    """Return the file with its folder, which is the name of the classifier."""
    return f"{path.parent.name}/{path.name}"


def _read_tensors(path: Path, sha256: str | None) -> Mapping[str, Floats]:
    try:
        if file_hash(path) != sha256:
            raise IntegrityError(f"{_file_label(path)}: content differs from the hash in {ABOUT}. Get a fresh copy.")
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise IntegrityError(f"{_file_label(path)}: cannot be read: {error}") from error


def load_classifiers(encoder_dir: Path, names: Sequence[str] | None = None) -> dict[str, Classifier]:
    """Read the classifiers of an encoder by name: those of ``names`` that exist, in this order; None: all, sorted."""
    existing = sorted(path.parent.name for path in (encoder_dir / FOLDER).glob(f"*/{ABOUT}"))
    chosen = existing if names is None else [name for name in names if name in existing]
    return {name: Classifier.load(encoder_dir / FOLDER / name) for name in chosen}


def reliability_bins(measured: Reliability) -> list[tuple[ReliabilityBin, ...]]:
    """Return the bins of each class that are not empty."""
    columns = (measured.edges[:-1], measured.edges[1:])
    return [
        tuple(
            ReliabilityBin(float(low), float(high), int(count), float(mean), float(observed))
            for low, high, count, mean, observed in zip(*columns, *rows, strict=True)
            if count
        )
        for rows in zip(measured.count, measured.mean_probability, measured.observed, strict=True)
    ]
