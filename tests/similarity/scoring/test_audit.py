"""The audit: its parts put together, for encoders that were trained here, elsewhere, or nowhere.

Membership: scores one by one, shifts in closed form, and a control that finds nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import clocs
from clocs.core.errors import LeakError
from clocs.metrics.bootstrap import bootstrap_metrics
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.scoring.audit import (
    CONTROL_NOTE,
    NO_MEMBERS_NOTE,
    SINGLE_SEGMENT_NOTE,
    audit,
    chance_true_positive_rate,
    infer_membership,
    table_rows,
    within_record_similarity,
)
from clocs.similarity.scoring.cohort import Cohort, embed_cohort, open_cohort
from clocs.similarity.scoring.pairs import verify_patients
from clocs.similarity.scoring.retrieval import retrieve_own_segments
from clocs.similarity.segments import Segments, unit_length
from clocs.store.store import Store


def test_an_audit_combines_its_parts(judged_store: Store, judged_encoder: Path) -> None:
    found = audit(judged_encoder, judged_store, replicates=50)
    test = open_cohort(judged_encoder, judged_store)
    segments, split = test.segments(), judged_store.split()
    for name, across in (("any_segment", False), ("other_recordings", True)):
        ranks = retrieve_own_segments(segments, across_recordings=across, replicates=50)
        errors = verify_patients(segments, across_recordings=across, replicates=50)
        assert ranks is not None
        assert errors is not None
        assert found["reidentification"][name] == {**ranks, **errors}
    members = embed_cohort(test.encoder, judged_store, "encoder", split.mask("train")).segments()
    assert found["membership"] == infer_membership(members, segments, replicates=50)
    assert found["membership"]["members"] == split.mask("train").sum()
    assert (found["split"], found["split_sha256"]) == ("default", split.sha256)
    assert found["patients"] == len(np.unique(segments.patient))
    assert found["notes"] == []
    json.dumps(found, allow_nan=False)


def test_random_weights_are_a_control(judged_store: Store) -> None:
    found = audit("random", judged_store, replicates=50)
    assert CONTROL_NOTE in found["notes"]
    assert found["membership"]["auc"]["low"] < 0.5 < found["membership"]["auc"]["high"]


def test_an_encoder_of_another_dataset_has_no_members(chapman_part: Store) -> None:
    """Real ECGs, an encoder that comes with the package: patients are told again far above chance."""
    found = audit("cmsc-physionet2020", chapman_part, replicates=100)
    assert found["membership"] is None
    assert NO_MEMBERS_NOTE in found["notes"]
    ranks = found["reidentification"]["any_segment"]
    assert found["reidentification"]["other_recordings"] is None
    assert ranks["patients"] == chapman_part.split().mask("test").sum()
    assert ranks["rank_1"]["low"] > 20 * ranks["chance"]["rank_1"]
    assert ranks["equal_error_rate"]["high"] < 0.2
    rows = table_rows(found)
    assert len(rows) == 3
    assert rows[0][0] == f"own segment at rank 1 of {ranks['segments']:,} segments"
    assert rows[0][1].startswith(f"{ranks['rank_1']['value']:.3f} (")


def test_an_encoder_trained_on_test_patients_is_rejected(judged_store: Store, judged_encoder: Path) -> None:
    with pytest.raises(LeakError):
        audit(judged_encoder, judged_store, split="other")


def test_single_segments_give_a_note(judged_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = np.arange(40)
    single = Segments(unit_length(np.random.default_rng(0).normal(size=(40, 3))), alone, alone)
    monkeypatch.setattr(Cohort, "segments", lambda self: single)
    found = audit("random", judged_store, replicates=5)
    assert found["reidentification"] is None
    assert found["membership"] is None
    assert SINGLE_SEGMENT_NOTE in found["notes"]
    assert table_rows(found) == []


def test_too_few_patients_give_a_note(tmp_path: Path) -> None:
    """Twenty patients, four of them to test: without statistics there is a reason."""
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 40, "leads": 1})
    clocs.split(store)
    found = audit("random", store, replicates=5)
    assert not [row for row in table_rows(found) if not row[0].startswith("membership")]
    for words in ("with two segments", "with two recordings"):
        assert f"Only 4 patients {words}, fewer than 30: no re-identification statistics." in found["notes"]


def test_table_rows_cover_all_results(judged_store: Store) -> None:
    found = audit("random", judged_store, replicates=20)
    rows, segments = table_rows(found), found["reidentification"]["other_recordings"]["segments"]
    assert [row[0] for row in rows if "in another recording" in row[0]] == [
        f"own segment at rank 1 of {segments:,} segments, in another recording",
        f"own segment in the top 10 of {segments:,} segments, in another recording",
        "verification, in another recording: equal error rate",
    ]
    assert rows[-2][2] == "0.5"
    assert rows[-1][0] == "membership: true positive rate at 1 % false positives"
    others = found["membership"]["others"]
    assert rows[-1][2] == f"{(others // 100 + 1) / (others + 1):.2g}", "what random scores find"


def make_records(random: np.random.Generator, records: int, noise: float, *, segments: int = 2) -> Segments:
    """Return records with equal segments plus noise."""
    record = np.repeat(np.arange(records), segments)
    values = random.normal(size=(records, 12))[record] + noise * random.normal(size=(len(record), 12))
    return Segments(unit_length(values), record, record)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 10_000))
def test_a_score_is_the_mean_cosine_over_pairs(lengths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    record = np.repeat(np.arange(len(lengths)) * 3, lengths)
    values = unit_length(random.normal(size=(len(record), 4)))
    if seed % 3 == 0:
        values[0] = 0
    patient, score = within_record_similarity(Segments(values, record, record + 100))
    expected = {}
    for one in np.unique(record):
        mine = values[record == one].astype(float)
        if len(mine) > 1:
            expected[int(one) + 100] = float(np.mean([a @ b for a, b in itertools.combinations(mine, 2)]))
    assert patient.tolist() == list(expected)
    np.testing.assert_allclose(score, list(expected.values()), atol=1e-5)


def test_membership_auc_matches_scikit_learn() -> None:
    random = np.random.default_rng(0)
    members, others = make_records(random, 500, 0.5), make_records(random, 300, 0.8)
    found = infer_membership(members, others, replicates=200)
    assert found is not None
    scores = [within_record_similarity(side)[1] for side in (members, others)]
    truth = np.repeat([True, False], [500, 300])
    assert found["auc"]["value"] == pytest.approx(roc_auc_score(truth, np.concatenate(scores)))
    fourth = np.sort(scores[1])[-4]  # three of 300 are one per cent
    assert found["true_positives"]["value"] == pytest.approx((scores[0] > fourth).mean())
    assert found["auc"]["low"] < found["auc"]["value"] < found["auc"]["high"]
    assert found["auc"]["low"] > 0.5
    assert (found["members"], found["others"], found["false_positives"]) == (500, 300, 0.01)
    json.dumps(found, allow_nan=False)


def test_membership_is_at_chance_without_training() -> None:
    """Over many cohorts: the AUC's intervals hold one half nearly always, and 1 % false alarms find about 1 %."""
    held, found_share = [], []
    for seed in range(25):
        random = np.random.default_rng(seed)
        found = infer_membership(make_records(random, 400, 0.7), make_records(random, 400, 0.7), replicates=60)
        assert found is not None
        held.append(found["auc"]["low"] <= 0.5 <= found["auc"]["high"])
        found_share.append(found["true_positives"]["value"])
    assert np.mean(held) >= 0.85
    assert np.mean(found_share) == pytest.approx(chance_true_positive_rate(0.01, 400), abs=0.005)


@pytest.mark.parametrize("others", [12, 150, 400])
def test_chance_is_what_random_scores_find(others: int) -> None:
    """With few others, none may exceed the threshold, and their maximum is moderate."""
    random = np.random.default_rng(others)
    found = [
        OperatingPoints(np.arange(200 + others) < 200, random.random(200 + others)).true_positive_rate_at(0.01)
        for _ in range(800)
    ]
    assert np.mean(found) == pytest.approx(chance_true_positive_rate(0.01, others), rel=0.15)


def measures_of(scores: Floats) -> Callable[[Floats], Floats]:
    points = OperatingPoints(np.arange(8000) < 6000, scores)
    return lambda times: np.array([points.auc(times), points.true_positive_rate_at(0.01, times)])


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_intervals_cover_the_truth(shift: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Normal scores of 6,000 members, ``shift`` above those of 2,000 others: both measures are known in closed form.

    The threshold of 1 % is told by some twenty records, so its intervals are short and its share a little high.
    """
    normal, cohorts = NormalDist(), 120
    truth = (normal.cdf(shift / 2**0.5), 1 - normal.cdf(normal.inv_cdf(0.99) - shift))
    held, values = np.zeros(2), np.zeros(2)
    for seed in range(cohorts):
        random = np.random.default_rng(seed)
        scores = np.concatenate([random.normal(size=6000) + shift, random.normal(size=2000)])
        found = bootstrap_metrics(measures_of(scores), 8000, replicates=200)
        held += [one.low <= true <= one.high for one, true in zip(found, truth, strict=True)]
        values += [one.value for one in found]
    with capsys.disabled():
        print(f"\nshift {shift}: AUC and share held in {held / cohorts}, {values / cohorts / truth} of the truth")
    assert held[0] / cohorts > 0.9
    assert 0.83 < held[1] / cohorts < 0.98
    assert 1 < values[1] / cohorts / truth[1] < 1.15


def test_members_and_others_may_share_numbers_of_patients() -> None:
    """Numbers are of the store, but two stores have the same ones."""
    random = np.random.default_rng(1)
    found = infer_membership(make_records(random, 50, 0.5), make_records(random, 50, 0.5), replicates=20)
    assert found is not None
    assert found["auc"]["low"] < found["auc"]["high"]


def test_single_segments_have_no_score() -> None:
    random = np.random.default_rng(2)
    single, double = make_records(random, 20, 0.5, segments=1), make_records(random, 20, 0.5)
    assert infer_membership(single, double) is None
    assert infer_membership(double, single) is None
    assert len(within_record_similarity(single)[1]) == 0
