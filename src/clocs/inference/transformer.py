"""An encoder as a step of a scikit-learn pipeline."""

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


class EcgEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns ECGs into embeddings, the mean over a recording's leads and frames; nothing is learned.

    ``sampling_rate`` (Hz), ``leads`` and ``unit`` (mV, uV, V) are needed where ECGs are arrays. What is corrected is
    done without a word here; ``load_encoder(...).embed`` says it in its notes.
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
        """Load the encoder, and try the first ECG, so that a wrong option is refused before any work."""
        if isinstance(X, str | os.PathLike | Recording):
            raise ConfigError("one ECG alone: give a list of them, [X]")
        if hasattr(X, "columns"):
            raise ConfigError("a table is no list of ECGs: give the column that names their files, X['file']")
        loaded = load_encoder(self.encoder)
        for first in X:
            self._embed(loaded, first, 0)
            break
        self.encoder_: PretrainedEncoder = loaded
        return self

    def transform(self, X: RecordingsLike) -> Floats:  # noqa: N803
        """(n, leads, samples), or n arrays (leads, samples), files or recordings -> (n, E)."""
        check_is_fitted(self)
        rows = [self._embed(self.encoder_, item, place) for place, item in enumerate(X)]
        return np.stack(rows) if rows else np.empty((0, self.encoder_.embedding_dim), np.float32)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """e0, e1, ..."""
        check_is_fitted(self)
        return np.array([f"e{place}" for place in range(self.encoder_.embedding_dim)], dtype=object)

    def _embed(self, encoder: PretrainedEncoder, item: RecordingLike, place: int) -> Floats:
        """(E,)"""
        sampling_rate, leads, unit = self.sampling_rate, self.leads, self.unit
        if isinstance(item, str | os.PathLike | Recording):  # it says these itself
            sampling_rate, leads, unit = None, None, None
        try:
            return encoder.embed(
                item, sampling_rate=sampling_rate, leads=leads, unit=unit, any_lead=self.any_lead
            ).pooled()
        except (ConfigError, MissingExtraError):
            raise
        except ClocsError as error:
            raise type(error)(f"ECG {place}: {error}") from error
