"""The preview is what training sees: its first loss follows from the matrix that is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.special import log_softmax

from clocs.augmentations import AUGMENTATIONS
from clocs.core.errors import ConfigError, StoreError
from clocs.drawing.batch import OTHER, SAME_PATIENT, Similarity, pair_kinds
from clocs.store.store import open_store
from clocs.training.config import PretrainConfig
from clocs.training.config_resolution import resolve_config
from clocs.training.pretrain import pretrain
from clocs.training.preview import preview_augmentations, preview_batch

BATCH = 32


def config(store: Path, method: str, *overrides: str) -> PretrainConfig:
    return resolve_config(f"{method}-synthetic", [f"store={store}", f"batch_size={BATCH}", *overrides])


def loss_of(matrix: Similarity, *, patients: bool) -> float:
    """Return the loss by the paper's equations 2 to 4; without ``patients``, of the diagonal only."""
    found = pair_kinds(matrix.patients)
    total = 0.0
    for axis in (0, 1):
        cells = -log_softmax(matrix.values / 0.1, axis=axis)
        total += cells.diagonal().mean()
        if patients and (found == SAME_PATIENT).any():
            total += cells[found == SAME_PATIENT].mean()
    return float(total)


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        ("cmsc", ()),
        (
            "cmsc",
            (
                "instances_per_patient=4",
                "method.augmentations=[gaussian_noise,flip_time]",
                "frames.normalization=minmax",
            ),
        ),
        ("simclr", ("method.augmentations=[permutation]",)),
    ],
)
def test_the_first_steps_loss_follows_from_the_matrix(
    method: str, overrides: tuple[str, ...], store: Path, tmp_path: Path
) -> None:
    """Same batch, same views, same weights, same dropout as the real run, or the losses would differ."""
    settings = config(store, method, "max_steps=1", f"runs={tmp_path}", *overrides)
    _, matrix = preview_batch(settings, cells=BATCH)
    run = Path(pretrain(settings)["run"])
    logged = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["loss"]
    assert loss_of(matrix, patients=method == "cmsc") == pytest.approx(logged, rel=1e-5)


def gathered(settings: PretrainConfig, *, together: bool, purpose: str) -> npt.NDArray[np.float32]:
    """Return frames of the first batch in mV, from the sampler's items of the training part."""
    from clocs.training.sampler import ShuffledSampler

    opened = open_store(settings.store)
    frames = opened.frames(purpose, records=opened.split().mask("train"), all_leads=together)
    return frames.gather(ShuffledSampler(len(frames), BATCH, settings.seed).batch(0, 0))


def test_unaugmented_views_are_the_frames_in_millivolt(store: Path) -> None:
    views, _ = preview_batch(config(store, "cmsc", "frames.normalization=minmax"), instances=3)
    assert views.original is None
    np.testing.assert_array_equal(views.values, gathered(config(store, "cmsc"), together=False, purpose="segments")[:3])
    assert views.names == ("segment 1", "segment 2")
    assert (views.offsets.tolist(), views.sampling_rates.tolist(), views.unit) == ([0, 2500], [500.0] * 3, "mV")
    assert all("lead " in name and "patient " in name for name in views.instances)


def test_leads_and_segments_are_named(store: Path) -> None:
    views, matrix = preview_batch(config(store, "cmsmlc"), instances=2)
    frames = gathered(config(store, "cmsmlc"), together=True, purpose="segments")[:2]
    np.testing.assert_array_equal(views.values, frames.reshape(2, 8, 2500))
    assert views.names[:3] == ("lead II segment 1", "lead II segment 2", "lead V2 segment 1")
    assert matrix.names == ("lead II segment 1", "lead II segment 2")
    assert views.offsets.tolist() == [0, 2500] * 4
    assert preview_batch(config(store, "cmlc"), instances=1)[0].names == ("lead II", "lead V2", "lead aVL", "lead aVR")


def test_seconds_are_the_recordings_own(store: Path) -> None:
    """10 s at 500 Hz squeezed into 2,500 samples, as the paper does with Chapman."""
    views, _ = preview_batch(
        config(store, "simclr", "frames.sampling_rate=null", "frames.num_source_samples=5000"), instances=2
    )
    assert views.values.shape[-1] == 2500
    assert views.sampling_rates.tolist() == [250.0, 250.0]


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("simclr", ("copy 1: gaussian_noise", "copy 2: gaussian_noise")),
        ("byol", ("copy 1: gaussian_noise", "copy 2: gaussian_noise")),
        ("supervised", ("frame",)),
        (
            "mtssl",
            ("original", "gaussian_noise", "scaling", "flip_amplitude", "flip_time", "permutation", "time_warping"),
        ),
    ],
)
def test_augmented_views_come_with_their_originals(method: str, names: tuple[str, ...], store: Path) -> None:
    settings = config(store, method)
    views, matrix = preview_batch(settings, instances=2)
    frames = gathered(settings, together=False, purpose="evaluation")[:2]
    assert views.names == names
    assert matrix.names == (names[0], names[min(1, len(names) - 1)])
    if method == "supervised":
        assert views.original is None
        return
    assert views.original is not None
    np.testing.assert_array_equal(views.original, np.broadcast_to(frames, views.values.shape))
    if method == "mtssl":
        np.testing.assert_array_equal(views.values[:, 3], -frames[:, 0])
        np.testing.assert_array_equal(views.values[:, 4], frames[:, 0, ::-1])
    else:
        away = (views.values - views.original).std(axis=-1)
        np.testing.assert_allclose(away, 0.01, rtol=0.1)
        assert not np.array_equal(views.values[:, 0], views.values[:, 1])


def test_instances_are_grouped_by_patient(store: Path) -> None:
    _, chance = preview_batch(config(store, "cmsc"), cells=20)
    changes = int((np.diff(chance.patients) != 0).sum())
    assert changes == len(set(chance.patients.tolist())) - 1
    sizes = np.unique(chance.patients, return_counts=True)[1]
    assert sizes.max() > 1
    _, chosen = preview_batch(config(store, "cmsc", "instances_per_patient=4"), cells=20)
    assert (pair_kinds(chosen.patients) == SAME_PATIENT).sum() == 5 * 4 * 3
    assert (pair_kinds(chosen.patients) == OTHER).sum() == 20 * 20 - 5 * 16


def test_a_trained_encoder_separates_patients(store: Path, tmp_path: Path) -> None:
    settings = config(store, "cmsc", "max_steps=60", "instances_per_patient=4", f"runs={tmp_path}")
    best = Path(pretrain(settings)["best"])
    _, fresh = preview_batch(settings)
    _, trained = preview_batch(settings, checkpoint=best)
    assert "fresh" in fresh.title
    assert "epoch" in trained.title

    def gap(matrix: Similarity) -> float:
        found = pair_kinds(matrix.patients)
        values = matrix.values
        return float((values.diagonal().mean() - values[found == OTHER].mean()) / values[found == OTHER].std())

    assert gap(trained) > gap(fresh)
    with pytest.raises(ConfigError, match="normalization none, not minmax"):
        preview_batch(config(store, "cmsc", "frames.normalization=minmax"), checkpoint=best)
    _, of_the_run = preview_batch(settings, checkpoint=best.parent)
    np.testing.assert_array_equal(of_the_run.values, trained.values)
    with pytest.raises(StoreError, match="no encoder"):
        preview_batch(settings, checkpoint=tmp_path)


def test_torchs_own_generator_is_left_alone(store: Path) -> None:
    before = torch.get_rng_state()
    preview_batch(config(store, "cmsc"))
    assert torch.equal(before, torch.get_rng_state())


def test_more_instances_than_the_batch_has_are_refused(store: Path) -> None:
    with pytest.raises(ConfigError, match=f"1 to {BATCH}"):
        preview_batch(config(store, "cmsc"), instances=BATCH + 1)


def test_every_registered_augmentation_of_a_frame(store: Path) -> None:
    opened = open_store(store)
    views = preview_augmentations(opened, "0000001", lead="aVL")
    names = ("original", *(name for name in AUGMENTATIONS.names() if not AUGMENTATIONS.get(name).drops_leads))
    assert views.names == names
    signal = opened.recording("0000001").select(("aVL",)).signal[0, :2500]
    values = dict(zip(names, views.values[0], strict=True))
    np.testing.assert_allclose(values["original"], signal, atol=1e-6)
    assert views.original is not None
    assert all(np.array_equal(plain, values["original"]) for plain in views.original[0])
    np.testing.assert_array_equal(values["flip_time"], values["original"][::-1])
    np.testing.assert_array_equal(values["flip_amplitude"], -values["original"])
    np.testing.assert_array_equal(preview_augmentations(opened, "0000001", lead="aVL").values, views.values)
    assert not np.array_equal(preview_augmentations(opened, "0000001", lead="aVL", seed=1).values, views.values)
    np.testing.assert_array_equal(preview_augmentations(opened, "0000001", lead="avl").values, views.values)
    with pytest.raises(ConfigError, match="II, V2, aVL, aVR"):
        preview_augmentations(opened, "0000001", lead="V9")
    with pytest.raises(ConfigError, match="no record"):
        preview_augmentations(opened, "nobody")
