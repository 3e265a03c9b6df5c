"""Classifiers of recordings: sets of leads, masked leads, and weights on features that are not standardised."""

from __future__ import annotations

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.datasets.task import Task
from clocs.encoders import ResNet
from clocs.evaluation.benchmark.embedders import EncoderEmbedder
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.evaluation.recording_classifier import fit_recordings, lead_sets_of, mask_leads, recordings_of
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import LEAD_SETS, STANDARD_LEADS
from clocs.store.task_targets import TaskTargets


@pytest.mark.parametrize(
    ("leads", "sets"),
    [
        (STANDARD_LEADS[::-1], LEAD_SETS),
        (STANDARD_LEADS[:6], LEAD_SETS[1:]),
        (("II", "V2", "aVL", "aVR"), (("II", "aVR", "aVL", "V2"), ("II",))),
        (("ECG",), (("ECG",),)),
        ((*STANDARD_LEADS, "vx"), ((*STANDARD_LEADS, "vx"), *LEAD_SETS)),
    ],
)
def test_a_classifier_is_fitted_for_all_leads_and_for_common_sets(
    leads: tuple[str, ...], sets: tuple[tuple[str, ...], ...]
) -> None:
    assert lead_sets_of(leads) == sets


def test_masked_leads_do_not_change_the_embedding() -> None:
    policy = FramePolicy(num_samples=500, sampling_rate=100, leads=("I", "II", "V1"))
    embedder = EncoderEmbedder("joint", ResNet(in_channels=3, width=4, depth=1), policy)
    masked = mask_leads(embedder, ("II",), allow_missing_leads=True)
    frames = np.random.default_rng(0).normal(size=(4, 3, 500)).astype(np.float32)
    others = frames + np.array([1, 0, -2], np.float32)[:, None]
    everything = np.ones((4, 3), bool)
    found = masked.embed(frames, everything)
    np.testing.assert_array_equal(found, masked.embed(others, everything))
    alone = np.zeros_like(frames)
    alone[:, 1] = frames[:, 1]
    np.testing.assert_array_equal(found, embedder.embed(alone, np.array([[False, True, False]] * 4)))
    assert masked.identity != embedder.identity
    with pytest.raises(ConfigError, match="takes I, II, V1 at once, all of them"):
        mask_leads(embedder, ("II",), allow_missing_leads=False)
    with pytest.raises(ConfigError, match="Leads V2"):
        mask_leads(embedder, ("V2",), allow_missing_leads=True)


@pytest.mark.parametrize("kind", ["multi-label", "multi-class"])
def test_weights_apply_to_features_that_are_not_standardised(kind: str) -> None:
    random = np.random.default_rng(1)
    values = random.normal(3, [0.1, 1, 10, 0], size=(300, 4)).astype(np.float32)
    values[7, 2] = np.nan
    features = RecordingFeatures(values, np.full(300, 3), ("II",))
    score = (np.nan_to_num(values, nan=3) - 3) / [0.1, 1, 10, 1]
    truth = score[:, :3] > 0 if kind == "multi-label" else np.eye(3, dtype=bool)[score[:, :3].argmax(axis=1)]
    task = Task.model_validate({"title": "planted", "kind": kind, "classes": {name: (name,) for name in "abc"}})
    targets = TaskTargets("planted", task, np.ones(300, bool), truth, np.empty(0))
    train, validation, test = (recordings_of(features, targets, np.arange(300) % 3 == part) for part in range(3))
    assert (train | validation | test).sum() == 299, "a recording without a lead takes no part"
    weights, fitted = fit_recordings(features, targets, train=train, validation=validation)
    standard = Standardization.fit(values[train]).transform(values[test])
    found = weights.probabilities(values[test], multi_label=kind == "multi-label")
    np.testing.assert_allclose(found, fitted.scores(standard), atol=5e-3)
    assert (found[truth[test]]).mean() > 0.8
