"""Trained encoders for inference: shipped ones by name, others by their folder.

ONNX Runtime runs them. Torch is imported only for the trainable module, for a device, and for encoders without an ONNX
file.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.inference.classification import JudgedRecording, largest_sets
from clocs.inference.classifier import FOLDER, Classifier, load_classifiers
from clocs.inference.preparation import EncoderInput, PreparedFrames, in_batches, prepare
from clocs.inference.recordings import RecordingLike, as_recording
from clocs.inference.results import Classification, Embeddings
from clocs.inference.torch_network import TorchNetwork, require_torch
from clocs.signals.resampling import Floats
from clocs.training.encoder_folder import ONNX, embedding_dim, in_channels, read_config, read_onnx, why_no_onnx
from clocs.training.onnx_session import Mask, OnnxNetwork
from clocs.training.shipped import DEFAULT_ENCODER, find_encoder_folder, shipped_encoders

if TYPE_CHECKING:
    from torch import nn

FORMAT: Final = "clocs-encoder-2"
BATCH: Final = 256
"""Frames in a batch of inference."""
SIDE_BY_SIDE: Final = 2
"""Classifiers that are used side by side, unless some are named."""


class PretrainedEncoder:
    """A trained encoder for files, recordings and arrays; returned by :func:`load_encoder`.

    Inputs are resampled and rescaled to the encoder's format, with a note. Incompatible inputs are rejected with a
    reason. An encoder pickles as its name, URL or folder, which a worker opens again.

    Args:
        name: Name of the encoder in messages.
        folder: Folder of the encoder.
        device: Device of torch, such as ``cpu`` or ``cuda:0``. None: ONNX Runtime on the CPU.
        num_threads: Threads of ONNX Runtime.
        module: Module that the weights are loaded into, for an encoder that is not registered.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        device: str | None = None,
        num_threads: int = 1,
        module: nn.Module | None = None,
    ) -> None:
        self.name, self.folder, self.about = name, folder, read_config(folder)
        self.input = _input(name, self.about)
        self.embedding_dim = embedding_dim(self.about)
        """E, dimension of an embedding."""
        self.classifiers = load_classifiers(folder, self.about.get("classifiers"))
        """Classifiers by name. ``classify`` prefers the first."""
        for classifier in self.classifiers.values():
            _check_encoder_of(classifier, name, self.about)
        self._options = device, num_threads, module
        self._network = self._open(device, num_threads)

    def __repr__(self) -> str:
        return f"<PretrainedEncoder {self.name}: {', '.join(self.input.leads)} to {self.embedding_dim} dimensions>"

    def __reduce__(self) -> tuple[Any, ...]:
        location = os.fspath(self.folder.absolute())
        if isinstance(to_location(self.name), ObjectPath):
            location = self.name
        elif self.folder in shipped_encoders().values():
            location = self.folder.name
        return _reopen, (location, self.about["weights_sha256"], *self._options)

    def _open(self, device: str | None, num_threads: int) -> OnnxNetwork | TorchNetwork:
        """Open the network by ONNX Runtime, or by torch if a device is given or there is no ONNX file."""
        if device is None:
            raw = read_onnx(self.folder, self.about)
            if raw is not None:
                return OnnxNetwork(raw, num_threads)
            require_torch(f"encoder '{self.name}' has no {ONNX} ({why_no_onnx(self.about)}): running it")
        require_torch(f"running encoder '{self.name}' on the device '{device}'")
        return TorchNetwork(self._trainable(), device or "cpu")

    @property
    def runtime(self) -> str:
        """The package that runs the network: ``onnxruntime`` or ``torch``."""
        return self._network.package

    @functools.cached_property
    def module(self) -> nn.Module:
        """The encoder as a torch module with the saved weights, on the CPU and in eval mode.

        Use it for further training. Training it does not change the results of ``embed`` and ``classify``.

        Raises:
            MissingExtraError: Torch is not installed.
        """
        require_torch(f"the trainable module of encoder '{self.name}'")
        return self._trainable()

    def _trainable(self) -> nn.Module:
        """Build the module and load the weights."""
        import copy

        from clocs.training.encoder_module import load_encoder_folder

        try:
            return load_encoder_folder(self.folder, copy.deepcopy(self._options[2]))[0]
        except (KeyError, TypeError, RuntimeError) as error:
            raise StoreError(f"{self.folder}: the encoder cannot be built: {error}") from error

    def embed(
        self,
        source: RecordingLike,
        *,
        sampling_rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        any_lead: bool = False,
    ) -> Embeddings:
        """Return the embeddings of a recording, one a lead and frame.

        An encoder of several leads returns one embedding a frame.

        Args:
            source: A file, a :class:`clocs.Recording`, or an array (leads, samples).
            sampling_rate: Sampling rate of an array in Hz.
            leads: Lead names of an array, one for each row.
            unit: Unit of an array: mV, uV or V.
            any_lead: Embed also leads that the encoder was not trained on.

        Returns:
            The embeddings with lead and start of each, and notes on corrections.

        Raises:
            ConfigError: An array is not described completely, or a file is described.
            LeadError: The recording lacks leads of the encoder.
            SignalError: The recording fails the quality gate or is too short.
            UnitError: The recording has another unit.
        """
        recording = as_recording(source, sampling_rate=sampling_rate, leads=leads, unit=unit)
        prepared = prepare(recording, self.input, any_lead=any_lead)
        values = self.embed_prepared(prepared)
        return Embeddings(values, prepared.lead, prepared.leads, prepared.start, prepared.notes)

    def classify(
        self,
        source: RecordingLike,
        *,
        sampling_rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        classifier: str | None = None,
    ) -> Classification:
        """Return the class probabilities of a recording.

        A classifier has weights for several sets of leads, such as all twelve, the six limb leads, I and II. The
        largest set of usable leads is used. Leads that can be derived count as present. Classes are withheld, with the
        reasons, from noise, children, paced recordings and recordings unlike those that it was fitted on.

        Args:
            source: A file, a :class:`clocs.Recording`, or an array (leads, samples).
            sampling_rate: Sampling rate of an array in Hz.
            leads: Lead names of an array, one for each row.
            unit: Unit of an array: mV, uV or V.
            classifier: Name of a classifier. None: the first with a set of leads that the recording has.

        Returns:
            The classes by descending probability, with the leads that were used, limitations and notes; or no classes
            and the reasons. For research; not a diagnosis.

        Raises:
            ConfigError: The encoder has no classifier of this name, or an array is not described completely.
            LeadError: The recording has no set of leads of the classifier.
            SignalError: The recording is too short.
            StoreError: The encoder has no classifier.
            UnitError: The recording has another unit.
        """
        chosen = self.classifier(classifier)  # an unknown name is rejected before any work
        recording = as_recording(source, sampling_rate=sampling_rate, leads=leads, unit=unit)
        available = self.classifiers if classifier is None else {classifier: chosen}
        return self._judged(recording).classify(available)[0]

    def classify_side_by_side(
        self, recording: Recording, classifiers: Sequence[str] | None = None
    ) -> tuple[Classification, ...]:
        """Return the class probabilities of a recording by several classifiers, which share its embeddings.

        Args:
            recording: The recording.
            classifiers: Names of classifiers. None: the first two with a set of leads that the recording has, which are
                findings and rhythm for an encoder that has both.

        Returns:
            A classification of each, as of ``classify``.

        Raises:
            ConfigError: The encoder has no classifier of a name.
            LeadError: The recording has no set of leads of a classifier.
            SignalError: The recording is too short.
            StoreError: The encoder has no classifier.
            UnitError: The recording has another unit.
        """
        if classifiers is None:
            self.classifier()  # an encoder without classifiers is rejected
            suitable = largest_sets(recording.leads, self.classifiers)
            classifiers = [name for name, _ in itertools.islice(suitable, SIDE_BY_SIDE)]
        chosen = [{name: self.classifier(name)} for name in classifiers] or [self.classifiers]
        return self._judged(recording).classify(*chosen)

    def _judged(self, recording: Recording) -> JudgedRecording:
        return JudgedRecording(recording, self.input, self.embed_prepared)

    def classifier(self, name: str | None = None) -> Classifier:
        """Return a classifier.

        Args:
            name: Name of the classifier. None: the first.

        Raises:
            ConfigError: The encoder has no classifier of this name.
            StoreError: The encoder has no classifier.
        """
        if not self.classifiers:
            raise StoreError(f"encoder '{self.name}' has no {FOLDER}. Use another encoder, or publish this one.")
        chosen = next(iter(self.classifiers)) if name is None else name
        if chosen not in self.classifiers:
            raise ConfigError(f"encoder '{self.name}' has no classifier '{name}'; it has {', '.join(self.classifiers)}")
        return self.classifiers[chosen]

    def embed_prepared(self, *prepared: PreparedFrames) -> Floats:
        """Return the embeddings (rows, E) of prepared recordings, one after another.

        Args:
            prepared: Frames in the encoder's input format, of each recording.
        """
        embeddings, end = np.empty((sum(map(len, prepared)), self.embedding_dim), np.float32), 0
        for signals, lead_mask in in_batches(prepared, BATCH):
            begin, end = end, end + len(signals)
            embeddings[begin:end] = self._network(signals, lead_mask)
        return embeddings

    def embed_frames(self, frames: npt.NDArray[np.floating], lead_mask: Mask | None = None) -> Floats:
        """Return the embeddings of frames that are normalized as in training.

        Args:
            frames: Frames (N, C, S) at the encoder's sampling rate; C is 1 for an encoder of single leads.
            lead_mask: False where a lead is missing, (N, C). None: no lead is missing.

        Returns:
            Embeddings, (N, E).

        Raises:
            ConfigError: Frames or lead mask have another shape.
        """
        shape = (self.input.in_channels, self.input.num_samples)
        if frames.ndim != 3 or frames.shape[1:] != shape:
            expected = f"(N, {shape[0]}, {shape[1]})"
            raise ConfigError(f"Expected frames of shape {expected} for encoder '{self.name}', got {frames.shape}.")
        signals = np.ascontiguousarray(frames, np.float32)
        mask = np.ones(frames.shape[:2], np.bool_) if lead_mask is None else np.asarray(lead_mask, np.bool_)
        if mask.shape != frames.shape[:2]:
            raise ConfigError(f"Expected a lead mask of shape {frames.shape[:2]}, got {mask.shape}.")
        embeddings = np.empty((len(signals), self.embedding_dim), np.float32)
        for begin in range(0, len(signals), BATCH):
            part = slice(begin, begin + BATCH)
            embeddings[part] = self._network(signals[part], mask[part])
        return embeddings


def _input(name: str, about: dict[str, Any]) -> EncoderInput:
    if about.get("format") != FORMAT:
        raise StoreError(
            f"encoder '{name}' has the format {about.get('format')}; this version of clocs reads {FORMAT}."
        )
    try:
        return EncoderInput.model_validate({**about["input"], "in_channels": in_channels(about)})
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"encoder '{name}' has an invalid input format in its config.json: {error}") from error


def _check_encoder_of(classifier: Classifier, name: str, about: dict[str, Any]) -> None:
    if classifier.card.encoder_sha256 != about.get("weights_sha256"):
        raise IntegrityError(
            f"encoder '{name}' has a classifier that was fitted to another one. Delete the folder '{FOLDER}' of the "
            "encoder, or publish it again into an empty folder."
        )


def load_encoder(
    name_or_folder: str | os.PathLike[str] = DEFAULT_ENCODER,
    *,
    device: str | None = None,
    num_threads: int = 1,
    module: nn.Module | None = None,
) -> PretrainedEncoder:
    """Load a trained encoder with its classifiers.

    By default, ONNX Runtime runs the encoder on the CPU, without torch. An encoder without an ONNX file needs torch.

    Args:
        name_or_folder: Name of an encoder that comes with the package, or folder of a run or of an encoder, on disk or
            in a bucket.
        device: Device of torch, such as ``cpu`` or ``cuda:0``. None: ONNX Runtime on the CPU.
        num_threads: Threads of ONNX Runtime.
        module: Module that the weights are loaded into, for an encoder that is not registered.

    Returns:
        The encoder. It has the methods ``embed``, ``classify`` and ``embed_frames``, and ``module`` for training.

    Raises:
        ConfigError: There is no encoder of this name.
        StoreError: The folder has no encoder.
        IntegrityError: A file has changed.
        MissingExtraError: Torch is needed and not installed.

    Example:
        >>> encoder = load_encoder()
        >>> encoder.embed_frames(np.zeros((3, 1, encoder.input.num_samples), np.float32)).shape
        (3, 128)
        >>> ecg = np.random.default_rng(0).normal(size=(2, 5000))
        >>> encoder.embed(ecg, sampling_rate=500, leads=("II", "V2"), unit="mV").values.shape
        (4, 128)
    """
    folder = find_encoder_folder(name_or_folder)
    return PretrainedEncoder(os.fspath(name_or_folder), folder, device=device, num_threads=num_threads, module=module)


def _reopen(
    folder: str, weights_sha256: str, device: str | None, num_threads: int, module: nn.Module | None
) -> PretrainedEncoder:
    """Open a pickled encoder in another process, once for all tasks."""
    if Path(folder).is_absolute() and not os.path.isdir(folder):
        raise StoreError(
            f"{folder}: there is no such folder on {platform.node()}. Copy the encoder to a folder that all nodes "
            "share, or to a bucket, and pass its path or s3://bucket/folder."
        )
    options: tuple[Any, ...] = (folder, weights_sha256, device, num_threads)
    return _cached(*options) if module is None else _cached.__wrapped__(*options, module)


@functools.lru_cache(maxsize=1)
def _cached(
    folder: str, weights_sha256: str, device: str | None, num_threads: int, module: nn.Module | None = None
) -> PretrainedEncoder:
    encoder = load_encoder(folder, device=device, num_threads=num_threads, module=module)
    if encoder.about["weights_sha256"] != weights_sha256:
        raise StoreError(f"{folder}: the encoder changed after the work was started. Start it again.")
    if encoder.runtime == "torch":
        import torch

        torch.set_num_threads(num_threads)
    return encoder
