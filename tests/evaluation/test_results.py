"""Scores as files: kept whole, compared patient by patient, drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.hashes import seal
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.results import compare, draw_scores, load_scores, save_scores

PATIENTS = np.arange(30)


def make_scores(frames: int, seed: int, patients: list[int] | None = None) -> ModelOutputs:
    """Two classes by patient; recordings of ``frames`` frames each, two recordings a patient."""
    random = np.random.default_rng(seed)
    record = np.repeat(np.arange(60), frames)
    record = record[np.isin(record // 2, PATIENTS if patients is None else patients)]
    truth = np.stack([record // 2 % 3 == 0, record // 2 % 3 != 0], axis=1)
    values = random.random(truth.shape) + 0.2 * truth
    return ModelOutputs((values / values.max()).astype(np.float32), truth, record, record // 2, ("AF", "SR"))


def make_evaluation(folder: Path, scores: ModelOutputs, store: str = "s", split: str = "p") -> Path:
    folder.mkdir(parents=True)
    save_scores(folder, scores)
    (folder / "config.json").write_bytes(seal({"store_sha256": store, "split_sha256": split}))
    return folder


def macro_auc(scores: ModelOutputs) -> float:
    return float(roc_auc_score(scores.truth, scores.values))


def test_saved_scores_are_loaded(tmp_path: Path) -> None:
    scores = make_scores(2, 0)
    save_scores(tmp_path, scores)
    found = load_scores(tmp_path)
    assert found.classes == ("AF", "SR")
    for field in ("values", "truth", "record", "patient"):
        mine, theirs = getattr(found, field), getattr(scores, field)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


def test_frames_of_other_lengths_are_compared_over_the_same_patients(tmp_path: Path) -> None:
    """Two frames of 5 s a recording against one of 10 s."""
    short, long = make_scores(2, 0), make_scores(1, 1)
    folders = [make_evaluation(tmp_path / name, scores) for name, scores in (("short", short), ("long", long))]
    found = compare([folders[0]], [folders[1]], replicates=40)
    assert list(found) == ["frame", "recording", "patient"]
    assert found["frame"].value == pytest.approx(macro_auc(short) - macro_auc(long))
    means = short.values.astype(float).reshape(60, 2, 2).mean(1)
    by_recording = roc_auc_score(short.truth[::2], means) - macro_auc(long)
    assert found["recording"].value == pytest.approx(by_recording, abs=1e-6)
    for item in found.values():
        assert item.low < item.value < item.high
    back = compare([folders[1]], [folders[0]], replicates=40)["frame"]
    assert [back.low, back.high] == pytest.approx([-found["frame"].high, -found["frame"].low])


def test_a_run_compared_with_itself_has_no_difference(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "a", make_scores(2, 0))
    for item in compare([folder], [folder], replicates=20).values():
        assert item.as_dict() == {"value": 0.0, "low": 0.0, "high": 0.0, "at_or_below_zero": 1.0}


def test_several_seeds_are_averaged(tmp_path: Path) -> None:
    scores = [make_scores(2, seed) for seed in range(4)]
    folders = [make_evaluation(tmp_path / str(seed), one) for seed, one in enumerate(scores)]
    value = compare(folders[:3], folders[3:], replicates=20)["frame"].value
    assert value == pytest.approx(np.mean([macro_auc(one) for one in scores[:3]]) - macro_auc(scores[3]))


def test_incomparable_runs_are_rejected(tmp_path: Path) -> None:
    usual = make_evaluation(tmp_path / "usual", make_scores(2, 0))
    for name, about in (("store", {"store": "t"}), ("split", {"split": "q"})):
        other = make_evaluation(tmp_path / name, make_scores(2, 0), **about)
        with pytest.raises(ConfigError, match="different stores or splits"):
            compare([usual], [other], replicates=5)
    fewer = make_evaluation(tmp_path / "fewer", make_scores(2, 0, list(range(20))))
    with pytest.raises(ConfigError, match="on one side only"):
        compare([usual], [fewer], replicates=5)
    long = make_evaluation(tmp_path / "long", make_scores(1, 0))
    for sides in (([usual, long], [usual]), ([usual], [usual, long])):
        with pytest.raises(ConfigError, match="the same frames"):
            compare(*sides, replicates=5)


def test_damaged_files_raise_an_error(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "a", make_scores(2, 0))
    whole = (folder / "scores.npz").read_bytes()
    for raw in (b"", whole[:100], whole[:-20], b"no zip"):
        (folder / "scores.npz").write_bytes(raw)
        with pytest.raises(IntegrityError, match=r"scores\.npz: cannot be read"):
            load_scores(folder)
    with pytest.raises(StoreError, match="has no finished evaluation"):
        load_scores(tmp_path)
    (folder / "scores.npz").write_bytes(whole)
    (folder / "config.json").write_bytes(seal({}))
    with pytest.raises(StoreError, match="has no finished evaluation"):
        compare([folder], [folder])
    (folder / "config.json").write_text("{}")
    with pytest.raises(IntegrityError, match=rf"^{folder / 'config.json'}: "):
        compare([folder], [folder])


def test_a_flipped_bit_raises_an_error_or_changes_nothing(tmp_path: Path) -> None:
    scores = make_scores(2, 0)
    save_scores(tmp_path, scores)
    path, random, said = tmp_path / "scores.npz", np.random.default_rng(0), 0
    whole = path.read_bytes()
    for place in random.integers(0, len(whole), 150):
        raw = bytearray(whole)
        raw[place] ^= 1 << random.integers(8)
        path.write_bytes(raw)
        try:
            found = load_scores(tmp_path)
        except StoreError:
            said += 1
            continue
        np.testing.assert_array_equal(found.values, scores.values)
        np.testing.assert_array_equal(found.truth, scores.truth)
        np.testing.assert_array_equal(found.patient, scores.patient)
    assert said > 75


def test_pictures_of_a_level(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path / "a", make_scores(2, 0))
    paths = draw_scores(folder, tmp_path / "out", "patient")
    assert [path.name for path in paths] == ["roc-patient.png", "reliability-patient.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    with pytest.raises(ConfigError, match="frame, recording, patient"):
        draw_scores(folder, tmp_path, "lead")
