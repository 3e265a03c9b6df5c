"""The measurements of protocol faults do what their names say, on small stores."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.encoders import CNN
from clocs.signals.quality import GATE_OFF
from clocs.store.store import Store
from protocols.epoch_training import probe_network, train_epochs
from protocols.faults import CROSSED, crossed_labels, find_twins
from protocols.fractions import (
    CROSS_VALIDATION,
    PATIENTS,
    RECORDINGS,
    REDUCED,
    labelled_recordings,
    selecting_recordings,
)
from protocols.inputs import InputFrames, copied_input
from protocols.page import fill_page
from protocols.pretraining import PRETRAININGS, find_pretraining, find_progress
from protocols.problems import Problem, probe_scores, sample_recordings
from protocols.results import RESULTS, Rows
from tests.conftest import ROOT


class ArrayFrames:
    """Frames of an array (recordings, leads, samples)."""

    def __init__(self, signals: np.ndarray[Any, Any]) -> None:
        self.signals, self.leads = signals.astype(np.float32), tuple(f"lead {n}" for n in range(signals.shape[1]))

    def views(self, items: Any) -> Any:
        return self.signals[items][:, None]


class FakeStore:
    """A store of as many recordings, two of each patient."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def patient_codes(self) -> Any:
        return np.arange(self.count) // 2, self.count // 2


def make_problem(count: int = 40, classes: tuple[str, ...] = ("high", "low")) -> Problem:
    part = np.arange(count) // 2 % 4
    truth = np.random.default_rng(0).random((count, len(classes))) > 0.5
    store: Any = FakeStore(count)
    return Problem(store, classes, truth, part < 2, part == 2, part == 3, store.patient_codes()[0])


def make_inputs(problem: Problem, num_samples: int = 2500) -> InputFrames:
    noise = np.random.default_rng(1).normal(size=(len(problem.store), 2, num_samples)) * 0.1 + 3
    frames: Any = ArrayFrames(noise + problem.truth[:, :1, None] * np.sin(np.arange(num_samples) / 20))
    return InputFrames(frames, np.arange(len(noise)), np.arange(len(noise)), "whole")


def test_crossed_labels_change_training_rows_of_three_classes_only() -> None:
    classes = ("AMI", *CROSSED)
    labels = np.random.default_rng(0).random((20, 4)) > 0.5
    train = np.arange(20) < 12
    crossed = crossed_labels(labels, classes, train)
    assert (crossed[~train] == labels[~train]).all()
    assert (crossed[:, 0] == labels[:, 0]).all()
    for column, source in CROSSED.items():
        assert (crossed[train, classes.index(column)] == labels[train, classes.index(source)]).all()
    assert sorted(CROSSED) == sorted(CROSSED.values())


def test_twins_are_test_recordings_with_an_equal_signal_in_training(tmp_path: Path) -> None:
    signals = np.random.default_rng(0).normal(size=(6, 2, 1000)).astype(np.float32)
    signals[3], signals[5], signals[4] = signals[0], signals[0], signals[1]
    store = Store.from_arrays(tmp_path / "store", signals, sampling_rate=500, leads=("I", "II"), gate=GATE_OFF)
    train, validation, test = (np.isin(np.arange(6), rows) for rows in ((0, 2), (1,), (3, 4, 5)))
    problem = Problem(store, ("class",), np.zeros((6, 1), np.bool_), train, validation, test, np.arange(6))
    in_test, in_train, counts = find_twins(problem)
    assert np.flatnonzero(in_test).tolist() == [3, 5]
    assert np.flatnonzero(in_train).tolist() == [0]
    assert counts == {"groups": 2, "straddle": 2, "twins": 2, "same_labels": 2, "test": 3}


def test_the_copied_input_is_padded_before_it_is_scaled() -> None:
    signals = np.zeros((1, 2, 2500), np.float32)
    signals[0, 0, :2] = [-1, 3]
    found = copied_input(signals)
    assert found.shape == (1, 2, 5000)
    assert found[0, 0, :3].tolist() == [0, 1, 0.25]
    assert (found[0, 0, 2500:] == 0.25).all()
    assert (found[0, 1] == 0).all()


def test_batchnorm_statistics_move_in_train_mode_only() -> None:
    problem = make_problem()
    inputs = make_inputs(problem)
    network = probe_network(CNN(dropout=0.0), inputs, 2)
    found = {}
    for mode in ("eval", "train"):
        found[mode] = train_epochs(network, inputs, problem, mode=mode, num_epochs=2)
        assert len(found[mode].test_auc) == 2
        assert np.isnan(found[mode].scores[:, problem.train]).all()
        assert not np.isnan(found[mode].scores[:, problem.test]).any()
    assert not np.allclose(found["eval"].scores[0, problem.test], found["train"].scores[0, problem.test])
    again = train_epochs(network, inputs, problem, mode="train", num_epochs=2)
    assert again.test_auc == found["train"].test_auc  # the given network is not changed


def test_the_best_epoch_is_that_of_the_validation_part() -> None:
    problem = make_problem()
    found = train_epochs(
        probe_network(CNN(), make_inputs(problem), 2), make_inputs(problem), problem, mode="all", num_epochs=3
    )
    assert found.validation_auc[found.best] == max(found.validation_auc)


def test_meanings_of_a_fraction_draw_recordings_or_patients() -> None:
    problem = make_problem(800)
    by_patient = labelled_recordings(problem, PATIENTS, 0)
    assert by_patient.sum() == 4
    assert len(np.unique(problem.patients[by_patient])) == 2
    assert (labelled_recordings(problem, CROSS_VALIDATION, 0) == by_patient).all()
    by_recording = labelled_recordings(problem, RECORDINGS, 0)
    assert by_recording.sum() == 4
    assert (by_recording & ~problem.train).sum() == 0
    assert (labelled_recordings(problem, REDUCED, 0) == by_recording).all()
    assert selecting_recordings(problem, REDUCED, 0).sum() == 2
    assert (selecting_recordings(problem, RECORDINGS, 0) == problem.validation).all()


def test_probes_rank_test_recordings_by_an_informative_feature() -> None:
    problem = make_problem(400)
    values = problem.truth + np.random.default_rng(2).normal(size=problem.truth.shape) * 0.1
    scores = probe_scores(problem, values.astype(np.float32))
    truth = problem.truth[problem.test, 0]
    assert scores[problem.test, 0][truth].min() > scores[problem.test, 0][~truth].max()
    assert (sample_recordings(problem.train, 0.5, 0) & ~problem.train).sum() == 0


def test_a_row_is_measured_again_when_its_encoder_was_trained_further(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.json")
    for steps, auc in ((10, 0.5), (10, 0.6), (20, 0.7)):
        rows.compute({"encoder": "CMSC"}, {"steps": steps}, partial(dict, auc=auc))
    assert Rows(tmp_path / "rows.json").rows == [{"encoder": "CMSC", "steps": 20, "auc": 0.7}]


def test_progress_counts_steps_and_core_hours(tmp_path: Path) -> None:
    run = tmp_path / "paper-cpsc" / "cmsc-physionet2020-0"
    (run / "best").mkdir(parents=True)
    assert find_progress("paper-cpsc", tmp_path) is None
    (run / "best" / "model.safetensors").touch()
    (run / "timing.jsonl").write_text("".join(json.dumps({"step": step, "processor": 1800}) + "\n" for step in (5, 9)))
    found = find_progress("paper-cpsc", tmp_path)
    assert found is not None
    assert (found.steps, found.core_hours, found.is_finished) == (9, 1.0, False)


def test_an_unknown_pretraining_is_refused() -> None:
    with pytest.raises(ConfigError, match="paper-cpsc"):
        find_pretraining("paper")
    assert find_pretraining("resnet-ptbxl") is PRETRAININGS["resnet-ptbxl"]


def test_every_number_of_the_page_comes_from_the_committed_results(tmp_path: Path) -> None:
    committed = ROOT / "docs" / "background" / "protocol-faults.md"
    shutil.copyfile(committed, tmp_path / "page.md")
    fill_page(tmp_path / "page.md", RESULTS)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_an_unknown_block_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- protocols:none -->x<!-- /protocols -->")
    with pytest.raises(ConfigError, match="crossed"):
        fill_page(tmp_path / "page.md", RESULTS)
