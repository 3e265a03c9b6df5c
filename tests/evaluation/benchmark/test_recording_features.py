"""Recording features equal a loop over recordings, leads and frames, and continue after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark import recording_features as module
from clocs.evaluation.benchmark.embedders import Mask
from clocs.evaluation.benchmark.recording_features import recording_features, recording_policy
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.signals.resampling import Floats, resample
from clocs.store.store import Store
from tests.evaluation.benchmark.conftest import Moments

LEADS = ("V1", "II", "aVF")


def literal(signal: Floats) -> Floats:
    """Mean and standard deviation of frames of 1,000 samples that begin every 500, pooled over frames, by lead."""
    rows = []
    for begin in range(0, signal.shape[1] - 999, 500):
        frame = signal[:, begin : begin + 1000]
        rows.append([value for lead in frame for value in (lead.mean(), lead.std())])
    table = np.array(rows)
    return np.concatenate([table.mean(0), table.max(0), table.min(0)])


@pytest.mark.parametrize("sampling_rate", [500, 250])
def test_leads_are_concatenated_and_frames_pooled(store: Store, sampling_rate: float) -> None:
    found = recording_features(Moments(sampling_rate=sampling_rate), store, leads=LEADS)["embedding"]
    assert (found.dimension, found.leads, found.values.dtype.name) == (3 * 2 * 3, LEADS, "float32")
    for record in range(0, len(store), 7):
        signal = resample(store.recording(record).select(LEADS).physical(), 500, sampling_rate)
        np.testing.assert_allclose(found.values[record], literal(signal), atol=1e-4)
    assert set(found.num_frames) == {9 if sampling_rate == 500 else 4}


def test_an_embedder_of_all_leads_gets_them_in_its_order(store: Store) -> None:
    joint = recording_features(Moments(all_leads=True, leads=LEADS), store)["embedding"]
    single = recording_features(Moments(), store, leads=LEADS)["embedding"]
    by_lead = single.values.reshape(len(store), 3, 3, 2).swapaxes(2, 3).reshape(len(store), -1)
    np.testing.assert_allclose(joint.values, by_lead, atol=1e-6)
    with pytest.raises(ConfigError, match="at once"):
        recording_features(Moments(all_leads=True, leads=LEADS), store, leads=LEADS)


def test_all_leads_of_the_store_are_the_default(store: Store) -> None:
    assert recording_policy(Moments(), store).leads == STANDARD_LEADS


def test_gaps_and_short_recordings_are_nan(tmp_path: Path) -> None:
    """A gap leaves frames of its lead out; a lead without a frame, and a recording without one, are NaN."""
    signals = list(np.random.default_rng(0).normal(size=(4, 2, 2000)))
    signals[1][0, :300] = np.nan
    signals[2][1] = np.nan
    signals[3] = signals[3][:, :900]
    made = Store.from_arrays(tmp_path / "store", signals, sampling_rate=500, leads=["I", "V1"], gate=GATE_OFF)
    assert len(made) == 4
    found = recording_features(Moments(), made, leads=("I", "V1"))["embedding"]
    assert found.num_frames.tolist() == [3, 3, 3, 0]
    by_lead = found.values.reshape(4, 3, 2, 2)  # recordings, statistics, leads, moments
    assert not np.isnan(by_lead[:2]).any()
    assert np.isnan(by_lead[2, :, 1]).all()
    assert not np.isnan(by_lead[2, :, 0]).any()
    assert np.isnan(by_lead[3]).all()
    frames = [made.recording(1).physical()[0, begin : begin + 1000] for begin in (500, 1000)]
    np.testing.assert_allclose(
        by_lead[1, :, 0, 0], [f([x.mean() for x in frames]) for f in (np.mean, max, min)], atol=1e-5
    )


class Interrupted(Moments):
    """Moments of a number of frames, after which the computer stops."""

    limit = 70

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        if self.num_frames + len(frames) > self.limit:
            raise KeyboardInterrupt
        return super().embed(frames, lead_mask)


def test_an_interrupted_computation_continues(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORDS_PER_PART", 3)
    with pytest.raises(KeyboardInterrupt):
        recording_features(Interrupted(), store, leads=("II",), cache=tmp_path)
    rest, progress = Moments(), list[int]()
    found = recording_features(
        rest, store, leads=("II",), cache=tmp_path, on_progress=lambda done, total: progress.append(done)
    )["embedding"]
    assert rest.num_frames == 9 * (20 - 6), "two parts were complete"
    assert progress == [3, 6, 9, 12, 15, 18, 20]
    again = Moments()
    np.testing.assert_array_equal(
        recording_features(again, store, leads=("II",), cache=tmp_path)["embedding"].values, found.values
    )
    assert again.num_frames == 0
    np.testing.assert_array_equal(recording_features(Moments(), store, leads=("II",))["embedding"].values, found.values)


def test_damaged_parts_and_other_inputs_are_computed_again(store: Store, tmp_path: Path) -> None:
    recording_features(Moments(), store, leads=("II",), cache=tmp_path)
    (part,) = tmp_path.glob("*/embedding-*.npy")
    part.write_bytes(part.read_bytes()[:-100])
    for options in ({"leads": ("II",)}, {"leads": ("V2",)}, {"leads": ("II",), "overlap": 0.0}):
        embedder = Moments()
        recording_features(embedder, store, cache=tmp_path, **options)
        assert embedder.num_frames == 20 * (5 if "overlap" in options else 9)
    assert len(list(tmp_path.iterdir())) == 3
