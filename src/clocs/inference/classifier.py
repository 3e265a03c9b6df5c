"""Calibrated linear classifiers of recordings, saved with their classes, limitations and reliability."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.hashes import file_hash, seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.inference.feature_space import FeatureSpace
from clocs.inference.reliability import Fraction, LocalCalibration, ReliabilityBin, bin_of
from clocs.metrics.calibration import adjust_probabilities, to_probabilities
from clocs.metrics.local_calibration import adjust_classes

TENSORS, ABOUT = "classifier.safetensors", "classifier.json"
FOLDER = "classifiers"
"""Subfolder of an encoder that has a folder for each of its classifiers, by name."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ClassInfo:
    """A class of a classifier."""

    name: str
    """Name of the class."""
    meaning: str
    """Name of the class in words."""
    prevalence: Fraction
    """Fraction of training patients that have the class."""


@dataclass(frozen=True)
class LeadSet:
    """Leads that a classifier has weights for, with its results on exactly these leads."""

    leads: tuple[str, ...]
    """Names of the leads, in the order of the features."""
    adjustment: tuple[tuple[float, float], ...]
    """Slope and offset of each class, which calibrate its probability on validation patients."""
    reliability: tuple[tuple[ReliabilityBin, ...], ...]
    """Reliability diagram of each class over validation patients, without empty bins."""
    validation_auc: Fraction | None
    """Macro AUC of the validation recordings. They also selected the regularization and the calibration."""
    test_auc: Fraction | None
    """Macro AUC of the test recordings."""
    max_distance: Annotated[float, Field(gt=0)]
    """Distance from the training recordings above which classes are withheld, from validation recordings."""
    set_thresholds: tuple[Fraction, ...] = ()
    """Minimum probability of each class in a prediction set, from validation patients that calibrate nothing else.
    Empty: classes are not exclusive."""
    local: LocalCalibration | None = None
    """Calibration on labels of one hospital, which follows the adjustment. None: there is none."""

    def bin_of(self, class_index: int, probability: float) -> ReliabilityBin | None:
        """Return the bin of a probability of a class, or None if no validation patient is in it."""
        return bin_of(self.reliability[class_index], probability)


class ClassifierCard(BaseModel):
    """The content of classifier.json: everything about a classifier except its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["clocs-classifier-5"] = "clocs-classifier-5"
    """Version of the file format."""
    classes: tuple[ClassInfo, ...] = Field(min_length=1)
    """Classes in the order of the weights."""
    multi_label: bool
    """True if a recording may have several classes. Otherwise probabilities sum to 1."""
    representation: Literal["concatenated_leads"] = "concatenated_leads"
    """Representation of a recording. ``concatenated_leads``: frames overlap by half; the embeddings of its leads are
    concatenated, and their mean, maximum and minimum over frames are classified. An encoder of several leads at once
    has one embedding for all of them."""
    lead_sets: tuple[LeadSet, ...] = Field(min_length=1)
    """Leads that it was fitted on, the largest set first. Each set has weights of its own."""
    heart_rates: tuple[float, float]
    """Lowest and highest heart rate per minute that it was fitted on. Classes of others are withheld."""
    max_frames: Annotated[int, Field(gt=0)]
    """Number of frames that 99 % of the recordings that it was fitted on do not exceed. Longer recordings are divided
    into parts."""
    limitations: tuple[str, ...]
    """Limitations for users, one sentence each."""
    trained_on: dict[str, Any]
    """Dataset, task, licence, citation and hashes of the training data."""
    encoder_sha256: str
    """Hash of the encoder's weights (``weights_sha256`` of its config.json)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({item.name for item in self.classes}) != len(self.classes):
            raise ValueError("class names must differ")
        for item in self.lead_sets:
            if not len(item.adjustment) == len(item.reliability) == len(self.classes):
                raise ValueError(f"{len(item.adjustment)} adjustments for {len(self.classes)} classes")
            if len(item.set_thresholds) not in (0, len(self.classes)):
                raise ValueError(f"{len(item.set_thresholds)} thresholds for {len(self.classes)} classes")
            if item.local is not None and len(item.local.classes) != len(self.classes):
                raise ValueError(f"{len(item.local.classes)} local calibrations for {len(self.classes)} classes")
        sizes = [len(item.leads) for item in self.lead_sets]
        if 0 in sizes or sizes != sorted(sizes, reverse=True):
            raise ValueError("sets of leads must be ordered from the largest to the smallest")
        return self

    def usable_sets(self, leads: Collection[str]) -> list[int]:
        """Return the indices of the lead sets that are among these leads, the largest first."""
        return [index for index, item in enumerate(self.lead_sets) if set(item.leads) <= set(leads)]


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """Weights of K classes on D features: ``weight @ features + bias``."""

    weight: Floats
    """Weights, (K, D)."""
    bias: Floats
    """Biases, (K,)."""

    @classmethod
    def rounded(cls, weight: npt.NDArray[np.floating], bias: npt.NDArray[np.floating]) -> Self:
        """Return weights rounded to what a file stores: float16, times a factor for each class."""
        halves, factor = _to_float16(np.asarray(weight, np.float32))
        return cls(_from_float16(halves, factor), np.asarray(bias, np.float32))

    def probabilities(self, features: npt.NDArray[np.floating], *, multi_label: bool) -> npt.NDArray[np.float64]:
        """Return class probabilities (N, K) of features (N, D), without calibration."""
        length = self.weight.shape[1]
        if features.ndim != 2 or features.shape[1] != length:
            raise ConfigError(f"Expected features of shape (N, {length}), got {features.shape}.")
        return to_probabilities(features.astype(np.float64) @ self.weight.T + self.bias, multi_label)


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear classifier of K classes, with weights for each set of leads."""

    card: ClassifierCard
    """Description of the classifier."""
    weights: tuple[LinearWeights, ...]
    """Weights of each set of leads."""
    spaces: tuple[FeatureSpace, ...]
    """Distribution of the training recordings for each set of leads."""

    def __post_init__(self) -> None:
        classes = len(self.card.classes)
        for items in (self.weights, self.spaces):
            if len(items) != len(self.card.lead_sets):
                raise ConfigError(f"Expected weights of {len(self.card.lead_sets)} sets of leads, got {len(items)}.")
        for item in self.weights:
            shapes = {"weight": (classes, item.weight.shape[-1]), "bias": (classes,)}
            for name, shape in shapes.items():
                values = np.asarray(getattr(item, name))
                if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
                    raise ConfigError(
                        f"Expected finite float32 values of shape {shape} for '{name}' of a classifier, got "
                        f"{values.dtype} of shape {values.shape}."
                    )

    def probabilities(self, features: npt.NDArray[np.floating], set_index: int) -> npt.NDArray[np.float64]:
        """Return the calibrated class probabilities of recordings, with the calibration of a hospital if there is one.

        Args:
            features: Features (N, D) of recordings, computed from the leads of the set.
            set_index: Index of the set in ``card.lead_sets``.

        Returns:
            Probabilities (N, K).
        """
        published, local = self.published_probabilities(features, set_index), self.card.lead_sets[set_index].local
        if local is None:
            return published
        return adjust_classes(published, [item.adjustment for item in local.classes], self.card.multi_label)

    def published_probabilities(self, features: npt.NDArray[np.floating], set_index: int) -> npt.NDArray[np.float64]:
        """Return probabilities without the calibration of a hospital. Arguments are as in ``probabilities``."""
        slope, offset = np.array(self.card.lead_sets[set_index].adjustment).T
        found = self.weights[set_index].probabilities(features, multi_label=self.card.multi_label)
        return adjust_probabilities(found, slope, offset, self.card.multi_label)

    def distances(self, features: npt.NDArray[np.floating], set_index: int) -> npt.NDArray[np.float64]:
        """Return the distances (N,) of recordings from those of training. Arguments are as in ``probabilities``."""
        return self.spaces[set_index].distances(features)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the classifier to a folder: its tensors, then its JSON with the hash of the tensors."""
        path = Path(folder) / TENSORS
        tensors: dict[str, npt.NDArray[Any]] = {}
        for index, (item, space) in enumerate(zip(self.weights, self.spaces, strict=True)):
            halves, factor = _to_float16(item.weight)
            tensors |= {f"{index}.weight": halves, f"{index}.factor": factor, f"{index}.bias": item.bias}
            tensors |= {f"{index}.{name}": values for name, values in space.tensors().items()}
        write_bytes(path, save({name: np.ascontiguousarray(values) for name, values in tensors.items()}))
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
        for key in ("format", "representation"):
            supported = ClassifierCard.model_fields[key].default
            if body.get(key) != supported:
                raise StoreError(
                    f"{_file_label(path)}: unknown {key} '{body.get(key)}'; this version of clocs has '{supported}'. "
                    "Publish the classifier again, or use another one."
                )
        try:
            card = ClassifierCard.model_validate(body)
            tensors, indices = _read_tensors(path.with_name(TENSORS), sha256), range(len(card.lead_sets))
            spaces = tuple(FeatureSpace.from_tensors(tensors, f"{index}.") for index in indices)
            return cls(card, _weights(tensors, len(indices)), spaces)
        except (ValidationError, KeyError, ConfigError) as error:
            raise IntegrityError(f"{_file_label(path)}: is not a valid classifier: {error}") from error


def _to_float16(weight: Floats) -> tuple[npt.NDArray[np.float16], Floats]:
    """Return weights (K, D) as float16 of at most 1, and the factor of each class, (K,)."""
    factor = np.abs(weight).max(axis=1, initial=0)
    factor = np.where(factor > 0, factor, np.float32(1))
    return (weight / factor[:, None]).astype(np.float16), factor


def _from_float16(halves: npt.NDArray[np.float16], factor: Floats) -> Floats:
    return halves.astype(np.float32) * factor[:, None]


def _weights(tensors: Mapping[str, npt.NDArray[Any]], count: int) -> tuple[LinearWeights, ...]:
    return tuple(
        LinearWeights(
            _from_float16(tensors[f"{index}.weight"], tensors[f"{index}.factor"]),
            tensors[f"{index}.bias"],
        )
        for index in range(count)
    )


def _file_label(path: Path) -> str:
    """Return the file with its folder, which is the name of the classifier."""
    return f"{path.parent.name}/{path.name}"


def _read_tensors(path: Path, sha256: str | None) -> Mapping[str, npt.NDArray[Any]]:
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
