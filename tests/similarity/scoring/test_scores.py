"""Similarity scores on real ECGs compared with random weights, and missing scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import clocs
from clocs.similarity.scoring.scores import score_distances, score_similarity
from clocs.store.store import Store


def test_a_trained_encoder_is_better_than_random_weights_on_real_ecgs(chapman_part: Store) -> None:
    trained, untrained = (
        score_similarity(name, chapman_part, part="all", replicates=100) for name in ("cmsc-physionet2020", "random")
    )
    chance = trained["agreement"]["chance"]["micro"]
    for found in (trained, untrained):
        assert found["agreement"]["micro"]["low"] > chance
        json.dumps(found, allow_nan=False)
    assert trained["agreement"]["chance"] == untrained["agreement"]["chance"]
    ranks = [found["retrieval"]["any_segment"]["rank_1"] for found in (trained, untrained)]
    assert ranks[0]["low"] > ranks[1]["high"]
    assert trained["retrieval"]["other_recordings"] is None, "one recording a patient"
    assert trained["patients"] == trained["agreement"]["patients"] == len(chapman_part)


def test_distances_are_shorter_within_a_patient(chapman_part: Store) -> None:
    found, cohort_summary = score_distances("cmsc-physionet2020", chapman_part, replicates=50)
    assert cohort_summary["part"] == "validation"
    assert found.intra.mean() < found.inter.mean()
    assert cohort_summary["separation"]["low"] > 0.5
    json.dumps(cohort_summary, allow_nan=False)


def test_repeated_recordings_are_sought_too(judged_store: Store, judged_encoder: Path) -> None:
    found = score_similarity(judged_encoder, judged_store, replicates=50)
    assert found["retrieval"]["other_recordings"]["patients"] == found["patients"]


def test_few_patients_are_examples_by_their_own_names(originals: Path, tmp_path: Path) -> None:
    """PTB-XL's originals have patients with two recordings: their ranks are told, no statistic is made of them."""
    store = clocs.ingest("ptbxl", originals, tmp_path / "store")
    found = score_similarity("cmsc-chapman", store, part="all", k=60)
    assert found["agreement"] is None
    assert any("more than 60 patients" in note for note in found["notes"])
    again = found["retrieval"]["other_recordings"]
    owners = store.table(["patient_id"]).column(0).to_pylist()
    repeated = {owner for owner in owners if owners.count(owner) > 1}
    assert {one["patient"] for one in again["examples"]} == repeated
    assert len(repeated) == again["patients"] == 2
    assert all(one["rank"] >= 1 for one in again["examples"])
    assert "rank_1" not in again


def test_missing_agreement_has_a_reason(judged_store: Store, tmp_path: Path) -> None:
    """No classes, or nobody who has one; both stores are full of labels."""
    options = {"num_records": 40, "leads": 1}
    for classes, said in (({}, "has no classes"), ({"X": ("nobody's",)}, "no patient has a label of the classes X")):
        dataset = replace(clocs.DATASETS.get("synthetic"), classes=classes)
        store = clocs.ingest(dataset, None, tmp_path / f"{len(classes)}", options=options)
        assert store.recording(0).labels
        found = score_similarity("random", store, part="all", replicates=5)
        assert found["agreement"] is None
        assert [note for note in found["notes"] if note.startswith("No label agreement") and said in note]


def test_single_segments_give_a_note(judged_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clocs.similarity.scoring.scores.retrieve_own_segments", lambda *given, **named: None)
    found = score_similarity("random", judged_store, replicates=5)
    assert found["retrieval"] == {"any_segment": None, "other_recordings": None}
    assert any("No patient has two segments" in note for note in found["notes"])
