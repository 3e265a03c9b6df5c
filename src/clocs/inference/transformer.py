"""A scikit-learn transformer from ECGs to embeddings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clocs.core.errors import ClocsError, ConfigError, MissingExtraError
from clocs.core.recording import Recording
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.recordings import RecordingLike
from clocs.signals.resampling import Floats
from clocs.training.shipped import DEFAULT_ENCODER

RecordingsLike = Sequence[RecordingLike] | npt.NDArray[Any]
"""Files, recordings or arrays (leads, samples); or one array (n, leads, samples)."""


class EcgEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Embed ECGs as a step of a scikit-learn pipeline.

    The embedding of an ECG is the mean over its leads and frames. The encoder is frozen: ``fit`` learns nothing.
    Inputs are corrected without a message. To see the corrections, read the notes of ``load_encoder(...).embed``.

    Args:
        encoder: Name of an encoder that comes with the package, or folder of a run or of an encoder.
        sampling_rate: Sampling rate of ECGs that are arrays, in Hz.
        leads: Lead names of ECGs that are arrays, one for each row.
        unit: Unit of ECGs that are arrays: mV, uV or V.
        any_lead: True to also embed leads that the encoder was not trained on.

    Example:
        >>> ecgs = np.random.default_rng(0).normal(size=(3, 2, 5000))
        >>> embedder = EcgEmbedder("cmsc-chapman", sampling_rate=500, leads=("II", "V2"), unit="mV")
        >>> embedder.fit_transform(ecgs).shape
        (3, 128)
    """

    def __init__(
        self,
        encoder: str | os.PathLike[str] = DEFAULT_ENCODER,
        sampling_rate: float | None = None,
        leads: Sequence[str] | None = None,
        unit: str | None = None,
        any_lead: bool = False,
    ) -> None:
        self.encoder = encoder
        self.sampling_rate = sampling_rate
        self.leads = leads
        self.unit = unit
        self.any_lead = any_lead

    def fit(self, X: RecordingsLike, y: object = None) -> Self:  # noqa: N803
        """Load the encoder, and embed the first ECG to check the options.

        Args:
            X: ECGs: files, recordings or arrays (leads, samples); or one array (n, leads, samples).
            y: Ignored.

        Returns:
            The transformer itself.

        Raises:
            ConfigError: X is not a list of ECGs, or an option is invalid.
        """
        if isinstance(X, str | os.PathLike | Recording):
            raise ConfigError("Expected a list of ECGs, got a single one. Pass [X].")
        if hasattr(X, "columns"):
            raise ConfigError("Expected a list of ECGs, got a table. Pass the column of file names, X['file'].")
        loaded = load_encoder(self.encoder)
        for first in X:
            self._embed(loaded, first, 0)
            break
        self.encoder_: PretrainedEncoder = loaded
        return self

    def transform(self, X: RecordingsLike) -> Floats:  # noqa: N803
        """Embed ECGs.

        Args:
            X: ECGs: files, recordings or arrays (leads, samples); or one array (n, leads, samples).

        Returns:
            Embeddings, (n, E).
        """
        check_is_fitted(self)
        rows = [self._embed(self.encoder_, item, index) for index, item in enumerate(X)]
        return np.stack(rows) if rows else np.empty((0, self.encoder_.embedding_dim), np.float32)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the embedding's dimensions: e0, e1, ...

        Args:
            input_features: Ignored.
        """
        check_is_fitted(self)
        return np.array([f"e{index}" for index in range(self.encoder_.embedding_dim)], dtype=object)

    def _embed(self, encoder: PretrainedEncoder, item: RecordingLike, index: int) -> Floats:
        """Return the embedding (E,) of one ECG; an error states its index."""
        sampling_rate, leads, unit = self.sampling_rate, self.leads, self.unit
        if isinstance(item, str | os.PathLike | Recording):  # these describe themselves
            sampling_rate, leads, unit = None, None, None
        try:
            return encoder.embed(
                item, sampling_rate=sampling_rate, leads=leads, unit=unit, any_lead=self.any_lead
            ).pooled()
        except (ConfigError, MissingExtraError):
            raise
        except ClocsError as error:
            raise type(error)(f"ECG {index}: {error}") from error
