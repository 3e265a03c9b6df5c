"""Trained encoders, ready to use: shipped ones by name, others by their folder.

ONNX Runtime runs them. Torch is imported where the trainable module or a device is asked for, and for an encoder that
has no ONNX file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, IntegrityError, LeadError, StoreError
from clocs.inference.classifier import FOLDER, Classifier, ClassifierCard, load_classifiers
from clocs.inference.input_checks import warnings_for
from clocs.inference.preparation import ANY_LEAD, EncoderInput, PreparedFrames, format_leads, prepare
from clocs.inference.recordings import RecordingLike, as_recording
from clocs.inference.results import Classification, ClassProbability, Embeddings
from clocs.inference.torch_network import TorchNetwork, require_torch
from clocs.signals.resampling import Floats
from clocs.training.encoder_folder import ONNX, embedding_dim, in_channels, read_config, read_onnx, why_no_onnx
from clocs.training.onnx_session import Mask, OnnxNetwork
from clocs.training.shipped import DEFAULT_ENCODER, find_encoder_folder

if TYPE_CHECKING:
    from torch import nn

FORMAT: Final = "clocs-encoder-2"
BATCH: Final = 256
"""Frames that go through an encoder at once."""


class PretrainedEncoder:
    """A trained encoder that takes files, recordings and arrays as they are; made by :func:`load_encoder`.

    What its config.json says about rate, leads, unit and normalisation is done to them, or they are refused. It
    pickles as its folder, which a worker opens again.

    Args:
        name: What messages call it.
        folder: The encoder's folder.
        device: A device of torch that runs it. None: ONNX Runtime.
        num_threads: Threads of ONNX Runtime.
        module: A module that takes the weights, for an encoder that is not registered.
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
        """E, the length of an embedding."""
        self.classifiers = load_classifiers(folder, self.about.get("classifiers"))
        """By name, the one that ``classify`` takes by default first."""
        for classifier in self.classifiers.values():
            _refuse_foreign(name, classifier, self.about)
        self._options = device, num_threads, module
        self._network = self._open(device, num_threads)

    def __repr__(self) -> str:
        return f"<PretrainedEncoder {self.name}: {', '.join(self.input.leads)} to {self.embedding_dim} numbers>"

    def __reduce__(self) -> tuple[Any, ...]:
        place = os.fspath(self.folder.absolute())
        return _reopened, (place, self.about["weights_sha256"], *self._options)

    def _open(self, device: str | None, num_threads: int) -> OnnxNetwork | TorchNetwork:
        """Open the network for inference; an encoder without an ONNX file is run by torch."""
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
        """The encoder as a torch module, to be trained further: on the CPU, in eval mode, with the saved weights.

        It is made when first asked for. Training it does not change what ``embed`` and ``classify`` return.

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
            raise StoreError(f"{self.folder} holds no encoder that can be built: {error}") from error

    def embed(
        self,
        source: RecordingLike,
        *,
        sampling_rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        any_lead: bool = False,
    ) -> Embeddings:
        """Embed a file, a recording, or an array (leads, samples) with its rate in Hz, leads and unit (mV, uV, V).

        ``any_lead``: take also the leads that the encoder was not trained on.
        """
        recording = as_recording(source, sampling_rate=sampling_rate, leads=leads, unit=unit)
        ready = prepare(recording, self.input, any_lead=any_lead)
        return Embeddings(self.embed_prepared(ready), ready.lead, ready.leads, ready.start, ready.notes)

    def classify(
        self,
        source: RecordingLike,
        *,
        sampling_rate: float | None = None,
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
        recording = as_recording(source, sampling_rate=sampling_rate, leads=leads, unit=unit)
        made = self.embed(recording, any_lead=any_lead)
        fitting = self._fitting(made.leads)
        name = next(iter(fitting or self.classifiers)) if classifier is None else classifier
        card = self.classifiers[name].card
        if name not in fitting and not any_lead:
            raise _unfit(name, card, made.leads, fitting)
        rows, notes = _counted(name, card, made, any_lead)
        incomparable = _incomparable(card, made.leads, any_lead)
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
        return Classification(name, tuple(classes), card.multi_label, card.limitations, notes)

    def _fitting(self, leads: Sequence[str]) -> list[str]:
        """The classifiers that were fitted on one of these leads, in their order."""
        there = set(leads)
        return [name for name, one in self.classifiers.items() if set(one.card.unknown_leads(there)) != there]

    def classifier(self, name: str | None = None) -> Classifier:
        """One of the classifiers by its name; without a name, the first."""
        if not self.classifiers:
            raise StoreError(f"encoder '{self.name}' comes without a classifier: its folder has no {FOLDER}")
        chosen = next(iter(self.classifiers)) if name is None else name
        if chosen not in self.classifiers:
            raise ConfigError(f"encoder '{self.name}' has no classifier '{name}'; it has {', '.join(self.classifiers)}")
        return self.classifiers[chosen]

    def embed_prepared(self, ready: PreparedFrames) -> Floats:
        """Return the embeddings (rows, E) of a prepared recording."""
        return self.embed_frames(ready.frames, ready.lead_mask)

    def embed_frames(self, frames: npt.NDArray[np.floating], lead_mask: Mask | None = None) -> Floats:
        """Return the embeddings (N, E) of frames at the encoder's rate, normalised as in training.

        Args:
            frames: (N, C, S); C is 1 for an encoder of single leads.
            lead_mask: (N, C), false where a lead is missing. Default: none is.
        """
        shape = (self.input.in_channels, self.input.num_samples)
        if frames.ndim != 3 or frames.shape[1:] != shape:
            wanted = f"(N, {shape[0]}, {shape[1]})"
            raise ConfigError(f"Expected frames of shape {wanted} for encoder '{self.name}', got {frames.shape}.")
        signals = np.ascontiguousarray(frames, np.float32)
        mask = np.ones(frames.shape[:2], np.bool_) if lead_mask is None else np.asarray(lead_mask, np.bool_)
        if mask.shape != frames.shape[:2]:
            raise ConfigError(f"Expected a lead mask of shape {frames.shape[:2]}, got {mask.shape}.")
        found = np.empty((len(signals), self.embedding_dim), np.float32)
        for begin in range(0, len(signals), BATCH):
            part = slice(begin, begin + BATCH)
            found[part] = self._network(signals[part], mask[part])
        return found


def _input(name: str, about: dict[str, Any]) -> EncoderInput:
    if about.get("format") != FORMAT:
        raise StoreError(f"encoder '{name}' has the format {about.get('format')}; this version reads {FORMAT}")
    try:
        return EncoderInput.model_validate({**about["input"], "in_channels": in_channels(about)})
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"encoder '{name}' does not say what it takes: {error}") from error


def _counted(name: str, card: ClassifierCard, made: Embeddings, any_lead: bool) -> tuple[Floats, tuple[str, ...]]:
    """The rows that count for a classifier, and all notes."""
    foreign = card.unknown_leads(made.leads)
    if not foreign:
        return made.values, made.notes
    fitted = f"classifier '{name}' was fitted on {', '.join(card.leads)}"
    if any_lead:
        return made.values, (*made.notes, f"{format_leads(foreign)} counted although {fitted}: no track record")
    counts = np.isin(made.lead, card.leads)
    return made.values[counts], (*made.notes, f"{format_leads(foreign)} not counted: {fitted}")


def _incomparable(card: ClassifierCard, leads: Sequence[str], any_lead: bool) -> str:
    """Why a recording of these leads is not what validation patients were judged by; empty where it is."""
    if any_lead and card.unknown_leads(leads):
        return "the classifier was not fitted on such leads"
    lacking = card.missing_leads(leads)
    return f"without {format_leads(lacking)}, which validation patients had" if lacking else ""


def _unfit(name: str, card: ClassifierCard, leads: Sequence[str], fitting: Sequence[str]) -> LeadError:
    """The refusal of a recording that has none of a classifier's leads."""
    return LeadError(
        f"classifier '{name}' was fitted on {', '.join(card.leads)}; this recording has "
        f"{format_leads(card.unknown_leads(leads))}, of which it knows nothing. Classifiers of this encoder for it: "
        f"{', '.join(fitting) or 'none'}. To classify all the same, without a track record, say so."
    ).with_code_hint(ANY_LEAD)


def _refuse_foreign(name: str, classifier: Classifier, about: dict[str, Any]) -> None:
    if classifier.card.encoder_sha256 != about.get("weights_sha256"):
        raise IntegrityError(
            f"a classifier beside encoder '{name}' was trained on the embeddings of another one; delete the folder "
            f"'{FOLDER}' in the encoder's, or publish the encoder anew, into an empty folder"
        )


def load_encoder(
    name_or_folder: str | os.PathLike[str] = DEFAULT_ENCODER,
    *,
    device: str | None = None,
    num_threads: int = 1,
    module: nn.Module | None = None,
) -> PretrainedEncoder:
    """Load a trained encoder, with its classifiers if it has any.

    ONNX Runtime runs it on the processor, and torch is not needed. An encoder whose network could not be exported
    is run by torch.

    Args:
        name_or_folder: The name of an encoder that comes with the package, or the folder of a run or of an encoder.
        device: Run it by torch on this device, such as ``cpu`` or ``cuda:0``. Default: ONNX Runtime.
        num_threads: Threads of ONNX Runtime that share the work of one call.
        module: A module that takes the weights, for an encoder that is not registered.

    Raises:
        StoreError: The folder holds no encoder.
        IntegrityError: The bytes of a file have changed.
        MissingExtraError: Torch is needed and not installed.

    Example:
        >>> encoder = load_encoder()
        >>> encoder.embed_frames(np.zeros((3, 1, encoder.input.samples), np.float32)).shape
        (3, 128)
    """
    folder = find_encoder_folder(name_or_folder)
    return PretrainedEncoder(os.fspath(name_or_folder), folder, device=device, num_threads=num_threads, module=module)


def _reopened(
    folder: str, weights_sha256: str, device: str | None, num_threads: int, module: nn.Module | None
) -> PretrainedEncoder:
    """Open an encoder in another process, once for all tasks; there it must not take all processors."""
    options: tuple[Any, ...] = (folder, weights_sha256, device, num_threads)
    return _cached(*options) if module is None else _cached.__wrapped__(*options, module)


@functools.lru_cache(maxsize=1)
def _cached(
    folder: str, weights_sha256: str, device: str | None, num_threads: int, module: nn.Module | None = None
) -> PretrainedEncoder:
    encoder = load_encoder(folder, device=device, num_threads=num_threads, module=module)
    if encoder.about["weights_sha256"] != weights_sha256:
        raise StoreError(f"{folder} holds another encoder than when this work began; begin it again")
    if encoder.runtime == "torch":
        import torch

        torch.set_num_threads(num_threads)
    return encoder
