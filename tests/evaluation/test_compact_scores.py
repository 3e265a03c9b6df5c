"""Compact scores: ranks and means stay, bytes are few, damage is told."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clocs.core.errors import StoreError
from clocs.evaluation.compact_scores import LEVELS, load_compact, save_compact
from clocs.evaluation.judgement import levels
from clocs.evaluation.results import differences, save_scores
from clocs.evaluation.rows import Rows
from clocs.metrics.ranking import auc, macro


def make_scores(seed: int, patients: int = 400, sharpness: float = 2.0) -> Rows:
    """Four leads of 1 or 2 recordings a patient, three classes; probabilities near 0 and 1 with more ``sharpness``."""
    random = np.random.default_rng(seed)
    record = np.repeat(np.arange(patients * 3 // 2), 4)
    patient = record * 2 // 3
    truth = np.eye(3, dtype=np.bool_)[patient % 7 % 3]
    logits = sharpness * (
        truth + random.normal(0, 0.7, truth.shape) + random.normal(0, 0.5, (len(truth) // 4, 3))[record]
    )
    values = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return Rows(values.astype(np.float32), truth, record * 3 + 5, patient + 2, ("AF", "SR", "other, more"))


def macro_aucs(scores: Rows) -> dict[str, float]:
    return {level: macro(auc(rows.truth, rows.values)) for level, rows in levels(scores)}


@pytest.mark.parametrize("sharpness", [0.1, 2.0, 30.0])
def test_auc_hardly_moves(tmp_path: Path, sharpness: float) -> None:
    """Also where a class's probabilities lie all near zero or one."""
    scores = make_scores(0, sharpness=sharpness)
    save_compact(tmp_path / "a.npz", scores)
    found = load_compact(tmp_path / "a.npz")
    assert found.classes == scores.classes
    for name in ("truth", "record", "patient"):
        mine, theirs = getattr(found, name), getattr(scores, name)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    expected = macro_aucs(scores)
    for level, value in macro_aucs(found).items():
        assert value == pytest.approx(expected[level], abs=3e-4)


def test_differences_are_those_of_the_full_scores(tmp_path: Path) -> None:
    sides = [[make_scores(1), make_scores(2)], [make_scores(3, sharpness=1.0), make_scores(4, sharpness=1.0)]]
    compact = []
    for side in sides:
        for place, run in enumerate(side):
            save_compact(tmp_path / f"{place}.npz", run)
        compact.append([load_compact(tmp_path / f"{place}.npz") for place in range(2)])
    whole, short = (differences(*given, among=("frame", "recording"), replicates=200) for given in (sides, compact))
    for level in ("frame", "recording"):
        for end in ("value", "low", "high"):
            assert getattr(short[level], end) == pytest.approx(getattr(whole[level], end), abs=5e-4)


@given(arrays(np.float32, st.tuples(st.integers(1, 600), st.integers(1, 3)), elements=st.floats(0, 1, width=32)))
def test_order_is_never_turned(values: npt.NDArray[np.float32]) -> None:
    rows = np.arange(len(values))
    scores = Rows(values, np.zeros(values.shape, np.bool_), rows, rows, tuple("abc"[: values.shape[1]]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        save_compact(path, scores)
        found = load_compact(path).values
    for place in range(values.shape[1]):
        order = np.argsort(values[:, place], kind="stable")
        assert (np.diff(found[order, place]) >= 0).all()
        assert len(np.unique(found[:, place])) <= LEVELS
        assert found[:, place].mean() == pytest.approx(values[:, place].mean(), abs=1e-5)


def test_few_different_values_are_kept_exactly(tmp_path: Path) -> None:
    rows = np.arange(900)
    values = (rows % 100 / 128).astype(np.float32)[:, None]
    save_compact(tmp_path / "a.npz", Rows(values, rows[:, None] % 2 == 0, rows, rows, ("AF",)))
    np.testing.assert_array_equal(load_compact(tmp_path / "a.npz").values, values)


def test_it_is_small_and_always_the_same(tmp_path: Path) -> None:
    scores = make_scores(0)
    for name in ("a", "b"):
        save_compact(tmp_path / f"{name}.npz", scores)
    save_scores(tmp_path, scores)
    raw = (tmp_path / "a.npz").read_bytes()
    assert raw == (tmp_path / "b.npz").read_bytes()
    assert len(raw) < 0.5 * (tmp_path / "scores.npz").stat().st_size


def test_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_compact(path, make_scores(0, patients=20))
    raw = path.read_bytes()
    for damaged in (b"", b"PK", raw[: len(raw) // 2], raw[:-100] + bytes(100)):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="holds no scores"):
            load_compact(path)
    np.savez(
        path,
        codes=np.zeros((1, 4), np.uint8),
        means=np.zeros((1, 256)),
        truth=np.zeros((1, 2), np.uint8),
        record=np.zeros(3, np.int32),
        patient=np.zeros(4, np.int32),
        classes=np.array(["a"]),
    )
    with pytest.raises(StoreError, match="do not fit together"):
        load_compact(path)
    with pytest.raises(StoreError, match="holds no scores"):
        load_compact(tmp_path / "none.npz")
