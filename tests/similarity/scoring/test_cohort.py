"""Cohorts: their patients, frames, duplicates and notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError, LeakError
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets.dataset import Entry
from clocs.datasets.synthetic import SYNTHETIC
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.inference.pretrained import load_encoder
from clocs.similarity.scoring import cohort as module
from clocs.similarity.scoring.cohort import cohort_summary, embed_cohort, open_cohort, seen_recordings
from clocs.store.ingest import ingest
from clocs.store.store import Store


def test_a_part_is_its_patients_with_their_embeddings(judged_store: Store, judged_encoder: Path) -> None:
    """Each recording embedded by itself, as a user would."""
    found = open_cohort(judged_encoder, judged_store)
    mask = judged_store.split().mask("test")
    assert set(found.rows.record) == set(np.flatnonzero(mask).tolist())
    patients, encoder = found.patients(), load_encoder(judged_encoder)
    numbers = judged_store.patient_codes()[0]
    for place in range(0, len(patients.values), 7):
        mine = np.flatnonzero((numbers == patients.patient[place]) & mask)
        rows = np.concatenate([encoder.embed(judged_store.recording(int(one))).values for one in mine])
        mean = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(0)
        np.testing.assert_allclose(patients.values[place], mean / np.linalg.norm(mean), atol=1e-5)
    assert found.notes == ()
    segments = found.segments()
    assert len(segments) == len(set(zip(found.rows.record.tolist(), found.frame.tolist(), strict=True)))
    assert len(segments) == len(found.rows.values) / 4, "four leads"


def test_the_whole_store_needs_no_split(judged_store: Store) -> None:
    found = open_cohort("random", judged_store, part="all", split="none such")
    assert len(np.unique(found.rows.record)) == 400


def test_seen_recordings_are_noted_and_test_patients_rejected(judged_store: Store, judged_encoder: Path) -> None:
    whole = open_cohort(judged_encoder, judged_store, part="all")
    seen = seen_recordings(load_encoder_checkpoint(judged_encoder, judged_store), judged_store)
    trained = judged_store.split().mask("train") | judged_store.split().mask("validation")
    assert np.array_equal(seen, trained)
    assert any(note.startswith(f"The encoder used {trained.sum():,} of these recordings") for note in whole.notes)
    assert not seen_recordings(load_encoder_checkpoint("random", judged_store), judged_store).any()
    with pytest.raises(LeakError):
        open_cohort(judged_encoder, judged_store, split="other")


def test_duplicate_signals_are_used_once(tmp_path: Path) -> None:
    """Recordings 6 and 7 have the signals of 0 and 1, under other names."""
    load = SYNTHETIC.load

    def repeating(source: Source, entry: Entry, options: Any) -> Recording:
        number = int(entry.record_id)
        same = load(source, replace(entry, file=f"synthetic/{number % 6:07d}"), options)
        return replace(same, record_id=entry.record_id, patient_id=entry.patient_id)

    store = ingest(replace(SYNTHETIC, load=repeating), None, tmp_path, options={"num_records": 8, "leads": 4})
    found = open_cohort("random", store, part="all")
    assert np.unique(found.rows.record).tolist() == list(range(6))
    assert "2 recordings excluded as duplicates of another recording." in found.notes
    later = embed_cohort(found.encoder, store, "encoder", np.arange(8) >= 2)
    assert np.unique(later.rows.record).tolist() == list(range(2, 8)), "the others are not among these"


def test_large_cohorts_are_sampled(judged_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PATIENTS", 12)
    encoder = load_encoder_checkpoint("random", judged_store)
    found, again = (embed_cohort(encoder, judged_store, "encoder", np.ones(400, bool)) for _ in range(2))
    assert len(np.unique(found.rows.patient)) == 12
    assert len(np.unique(found.rows.record)) == 24, "with all of their recordings"
    assert np.array_equal(found.rows.record, again.rows.record)
    assert "A random sample of 12 of 200 patients is used." in found.notes


def test_frames_are_the_encoders_the_papers_or_segments(judged_store: Store) -> None:
    for frames in ("encoder", "paper", "segments"):
        assert len(open_cohort("random", judged_store, frames=frames).rows.values)
    with pytest.raises(ConfigError, match=r"Unknown frames 'mine'\. Available: encoder, paper, segments"):
        open_cohort("random", judged_store, frames="mine")
    with pytest.raises(ConfigError, match="got 'mine'"):
        open_cohort("random", judged_store, part="mine")


def test_leads_and_amplitudes_are_those_of_training(tmp_path: Path) -> None:
    """Twelve leads in millivolt, an encoder of four leads that are scaled to 0..1: as a user would embed them."""
    store = ingest(SYNTHETIC, None, tmp_path, options={"num_records": 4, "leads": 12})
    encoder = load_encoder("cmsc-chapman")
    rows = np.concatenate([encoder.embed(store.recording(number)).values for number in range(4)])
    for frames in ("encoder", "segments"):
        np.testing.assert_allclose(
            open_cohort("cmsc-chapman", store, part="all", frames=frames).rows.values, rows, atol=1e-5
        )


def test_the_summary_describes_the_cohort(judged_store: Store, judged_encoder: Path) -> None:
    found: dict[str, Any] = cohort_summary(open_cohort(judged_encoder, judged_store))
    assert (found["encoder"], found["dataset"]) == ("cmsc", SYNTHETIC.name)
    assert found["weights_sha256"] == load_encoder(judged_encoder).about["weights_sha256"]
    assert found["recordings"] == judged_store.split().mask("test").sum()
    assert found["patients"] == found["recordings"] / 2
    assert cohort_summary(open_cohort("random", judged_store))["weights_sha256"] is None
