"""The audit: its parts put together, for encoders that were trained here, elsewhere, or nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import LeakError
from clocs.similarity.judgement.audit import CONTROL, SINGLE, UNSEEN, audit, in_rows
from clocs.similarity.judgement.cohort import Cohort, cohort_of, open_cohort
from clocs.similarity.judgement.membership import infer_membership
from clocs.similarity.judgement.retrieval import find_own_segments
from clocs.similarity.judgement.verification import verify_patients
from clocs.similarity.segments import Segments, unit_length
from clocs.store.store import Store


def test_it_is_its_parts(judged_store: Store, judged_encoder: Path) -> None:
    found = audit(judged_encoder, judged_store, replicates=50)
    test = open_cohort(judged_encoder, judged_store)
    segments, split = test.segments(), judged_store.split()
    for name, across in (("any_segment", False), ("other_recordings", True)):
        ranks = find_own_segments(segments, across_recordings=across, replicates=50)
        errors = verify_patients(segments, across_recordings=across, replicates=50)
        assert ranks is not None
        assert errors is not None
        assert found["reidentification"][name] == {**ranks, **errors}
    members = cohort_of(test.encoder, judged_store, "encoder", split.mask("train")).segments()
    assert found["membership"] == infer_membership(members, segments, replicates=50)
    assert found["membership"]["members"] == split.mask("train").sum()
    assert (found["split"], found["split_sha256"]) == ("default", split.sha256)
    assert found["patients"] == len(np.unique(segments.patient))
    assert found["notes"] == []
    json.dumps(found, allow_nan=False)


def test_random_weights_are_a_control(judged_store: Store) -> None:
    found = audit("random", judged_store, replicates=50)
    assert CONTROL in found["notes"]
    assert found["membership"]["auc"]["low"] < 0.5 < found["membership"]["auc"]["high"]


def test_an_encoder_from_elsewhere_has_no_members_here(chapman_part: Store) -> None:
    """Real ECGs, an encoder that comes with the package: patients are told again far above chance."""
    found = audit("cmsc-physionet2020", chapman_part, replicates=100)
    assert found["membership"] is None
    assert UNSEEN in found["notes"]
    ranks = found["reidentification"]["any_segment"]
    assert found["reidentification"]["other_recordings"] is None
    assert ranks["patients"] == chapman_part.split().mask("test").sum()
    assert ranks["rank_1"]["low"] > 20 * ranks["chance"]["rank_1"]
    assert ranks["equal_error_rate"]["high"] < 0.2
    rows = in_rows(found)
    assert len(rows) == 3
    assert rows[0][0] == f"the nearest of {ranks['segments']:,} segments is the patient's own"
    assert rows[0][1].startswith(f"{ranks['rank_1']['value']:.3f} (")


def test_one_who_has_seen_the_test_patients_is_refused(judged_store: Store, judged_encoder: Path) -> None:
    with pytest.raises(LeakError):
        audit(judged_encoder, judged_store, split="other")


def test_single_segments_are_said(judged_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = np.arange(40)
    single = Segments(unit_length(np.random.default_rng(0).normal(size=(40, 3))), alone, alone)
    monkeypatch.setattr(Cohort, "segments", lambda self: single)
    found = audit("random", judged_store, replicates=5)
    assert found["reidentification"] is None
    assert found["membership"] is None
    assert SINGLE in found["notes"]
    assert in_rows(found) == []


def test_too_few_patients_are_said(tmp_path: Path) -> None:
    """Twenty patients, four of them to test: without statistics there is a reason."""
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"records": 40, "leads": 1})
    clocs.split(store)
    found = audit("random", store, replicates=5)
    assert not [row for row in in_rows(found) if "patient" in row[0]]
    for words in ("with two segments", "with two recordings"):
        assert f"fewer than 30 patients {words} (4): no statistics of re-identification" in found["notes"]


def test_rows_say_all_that_was_measured(judged_store: Store) -> None:
    found = audit("random", judged_store, replicates=20)
    rows = in_rows(found)
    assert [row[0] for row in rows if "in another recording" in row[0]] == [
        f"the nearest of {found['reidentification']['other_recordings']['segments']:,} segments is the patient's own, "
        "in another recording",
        f"one of the ten nearest of {found['reidentification']['other_recordings']['segments']:,} segments is the "
        "patient's own, in another recording",
        "same patient or not, in another recording: equal error rate",
    ]
    assert rows[-2][2] == "0.5"
    assert rows[-1][0] == "training records found at 1 % false alarms"
    others = found["membership"]["others"]
    assert rows[-1][2] == f"{(others // 100 + 1) / (others + 1):.2g}", "what random scores find"
