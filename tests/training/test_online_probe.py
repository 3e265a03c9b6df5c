"""The online probe, against scikit-learn's ridge regression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clocs.training.online_probe import OnlineProbe, ridge_scores

Parts = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.float32], npt.NDArray[np.bool_]]


@pytest.fixture
def parts() -> Parts:
    """Return noisy embeddings (300, 20) and (200, 20) of four classes. A frame may have several."""
    rng = np.random.default_rng(0)
    truth = rng.random((500, 4)) < 0.3
    signal = truth @ rng.normal(size=(4, 20)) + 3 * rng.normal(size=(500, 20))
    embeddings = (signal * rng.uniform(0.01, 100, 20) + rng.normal(size=20)).astype(np.float32)
    embeddings[:, 7] = 1.5  # a dead dimension
    return embeddings[:300], truth[:300], embeddings[300:], truth[300:]


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0])
def test_scores_are_those_of_scikit_learn(parts: Parts, strength: float) -> None:
    train, truth, validation, _ = parts
    literal = make_pipeline(StandardScaler(), Ridge(alpha=strength * len(train)))
    literal.fit(train.astype(np.float64), truth.astype(np.float64))
    expected = literal.predict(validation.astype(np.float64))
    np.testing.assert_allclose(ridge_scores(train, truth, validation, strength), expected, rtol=0, atol=1e-10)


def test_the_auc_is_the_mean_over_classes(parts: Parts) -> None:
    train, truth, validation, validation_truth = parts
    scores = ridge_scores(train, truth, validation, 1e-2)
    expected = roc_auc_score(validation_truth, scores, average="macro")
    found = OnlineProbe().validation_auc(*parts)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found is not None
    assert 0.55 < found < 0.95, "neither chance nor perfect"
    assert found == OnlineProbe().validation_auc(*parts), "deterministic"


def test_fewer_frames_than_dimensions(parts: Parts) -> None:
    train, truth, validation, validation_truth = parts
    found = OnlineProbe().validation_auc(train[:12], truth[:12], validation, validation_truth)
    assert found is not None
    assert 0 < found < 1


def test_classes_without_positives_or_negatives_do_not_count(parts: Parts) -> None:
    train, truth, validation, validation_truth = parts
    with_constant = truth.copy()
    with_constant[:, 3] = True
    fewer = OnlineProbe().validation_auc(train, truth[:, :3], validation, validation_truth[:, :3])
    assert OnlineProbe().validation_auc(train, with_constant, validation, validation_truth) == fewer
    none_there = validation_truth.copy()
    none_there[:, 3] = False
    assert OnlineProbe().validation_auc(train, truth, validation, none_there) == fewer


def test_fewer_than_two_classes_give_none(parts: Parts) -> None:
    train, truth, validation, validation_truth = parts
    probe = OnlineProbe()
    assert probe.validation_auc(train, truth[:, :1], validation, validation_truth[:, :1]) is None
    assert probe.validation_auc(train, truth & False, validation, validation_truth) is None
    assert probe.validation_auc(train[:0], truth[:0], validation, validation_truth) is None
    assert probe.validation_auc(train, truth[:, :0], validation, validation_truth[:, :0]) is None


def test_wrong_inputs_are_refused(parts: Parts) -> None:
    train, truth, validation, validation_truth = parts
    with pytest.raises(ValueError, match="same N"):
        OnlineProbe().validation_auc(train[:-1], truth, validation, validation_truth)
    with pytest.raises(ValueError, match="bool"):
        OnlineProbe().validation_auc(train, truth.astype(int), validation, validation_truth)
    broken = validation.copy()
    broken[5, 3] = np.nan
    with pytest.raises(ValueError, match="1 of 200"):
        OnlineProbe().validation_auc(train, truth, broken, validation_truth)
    with pytest.raises(ValueError, match="strength"):
        OnlineProbe(strength=0)
