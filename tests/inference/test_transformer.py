"""The scikit-learn step: rows as ``embed`` gives them, parameters as scikit-learn wants them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clocs
from clocs.core.errors import ConfigError, LeadError, MissingExtraError, SignalError
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.transformer import EcgEmbedder
from clocs.training.shipped import DEFAULT_ENCODER
from tests.conftest import make_recording
from tests.inference.conftest import EMBEDDING

LEADS = ("II", "V2")


@pytest.fixture
def embedder(encoder_folder: Path) -> EcgEmbedder:
    return EcgEmbedder(str(encoder_folder), sampling_rate=500, leads=LEADS, unit="mV")


def signals(count: int) -> npt.NDArray[np.float32]:
    return np.stack([make_recording(leads=LEADS, seed=seed).signal for seed in range(count)])


def test_rows_equal_those_of_embed(embedder: EcgEmbedder, encoder: PretrainedEncoder, originals: Path) -> None:
    arrays = signals(3)
    expected = [encoder.embed(array, sampling_rate=500, leads=LEADS, unit="mV").pooled() for array in arrays]
    np.testing.assert_array_equal(embedder.fit_transform(arrays), np.stack(expected))
    np.testing.assert_array_equal(embedder.transform(list(arrays)), np.stack(expected))
    file = originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea"
    mixed = embedder.transform([file, str(file), make_recording(leads=LEADS)])
    np.testing.assert_array_equal(mixed[[0, 1]], np.stack([encoder.embed(file).pooled()] * 2))
    np.testing.assert_array_equal(mixed[2], expected[0])
    assert embedder.transform([]).shape == (0, EMBEDDING)


def test_a_pandas_series_may_have_any_index(encoder_folder: Path, originals: Path) -> None:
    """As scikit-learn's splitters hand parts of one on."""
    files = pd.Series([originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea"] * 3)[1:]
    assert EcgEmbedder(encoder_folder).fit_transform(files).shape == (2, EMBEDDING)


def test_clone_and_set_params_keep_parameters(embedder: EcgEmbedder) -> None:
    copy = clone(embedder)
    assert copy.get_params() == embedder.get_params()
    assert copy.leads == LEADS
    assert copy.set_params(unit="uV").unit == "uV"
    assert embedder.unit == "mV"
    assert EcgEmbedder().encoder == DEFAULT_ENCODER
    assert clocs.EcgEmbedder is EcgEmbedder


def test_a_pipeline_classifies_embeddings(embedder: EcgEmbedder) -> None:
    """Two kinds of signal that differ in shape, not in scale: smooth walks, and the same with ripples."""
    plain = signals(40)
    ripple = np.where(np.arange(40)[:, None, None] % 2, 0.6 * np.sin(np.arange(5000) * 0.5), 0)
    truth = np.arange(40) % 2
    model = make_pipeline(embedder, StandardScaler(), LogisticRegression())
    model.fit(plain[:20] + ripple[:20], truth[:20])
    assert model.score(plain[20:] + ripple[20:], truth[20:]) > 0.9
    names = model[:-1].get_feature_names_out()
    assert names.tolist() == [f"e{place}" for place in range(EMBEDDING)]
    clone(model).fit(plain[:4] + ripple[:4], truth[:4])


def test_fit_rejects_invalid_options(encoder_folder: Path) -> None:
    with pytest.raises(NotFittedError):
        EcgEmbedder(encoder_folder).transform(signals(1))
    with pytest.raises(ConfigError, match="Pass leads and unit"):
        EcgEmbedder(encoder_folder, sampling_rate=500).fit(signals(1))
    with pytest.raises(ConfigError, match="neither a folder nor a shipped encoder"):
        EcgEmbedder("nowhere").fit(signals(1))
    with pytest.raises(ConfigError, match="Expected a list of ECGs, got a single one"):
        EcgEmbedder(encoder_folder).fit("ecg.hea")
    with pytest.raises(ConfigError, match="Pass the column"):
        EcgEmbedder(encoder_folder).fit(pd.DataFrame({"file": ["ecg.hea"]}))  # type: ignore[arg-type]
    with pytest.raises(LeadError, match=r"ECG 0: .*any_lead=True"):
        EcgEmbedder(encoder_folder, sampling_rate=500, leads=("I", "V1"), unit="mV").fit(signals(1))


def test_a_missing_extra_is_named(embedder: EcgEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def embed(*_: object, **__: object) -> None:
        raise MissingExtraError("train", "device=cuda")

    monkeypatch.setattr(PretrainedEncoder, "embed", embed)
    with pytest.raises(MissingExtraError, match=r"^device=cuda needs .*pip install 'clocs\[train\]'"):
        embedder.fit(signals(1))


def test_an_error_states_the_index_of_the_ecg(embedder: EcgEmbedder) -> None:
    arrays = signals(3)
    arrays[2, 0] = 0
    embedder.fit(arrays)
    with pytest.raises(SignalError, match=r"ECG 2: .*II flat"):
        embedder.transform(arrays)
