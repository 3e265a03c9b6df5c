"""What the embeddings of an encoder reveal: whether they identify a patient again, and who trained the encoder.

For whoever is about to share an encoder, or embeddings. Embeddings are personal data, whatever the audit finds: it
tries simple attacks on one store, and an attacker who does more finds no less.

Membership is inferred by a threshold on how alike a record's own segments are. Training pulls the segments of its own
records together, so they may be more alike than those of records it never saw. This is one attack, with one score and
no other model to compare with: what it finds is a lower bound. Finding nothing does not show that there is nothing.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.scoring import format_interval
from clocs.metrics.bootstrap import bootstrap_metrics
from clocs.metrics.pooling import pool
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.scoring.cohort import Bools, Folder, cohort_summary, embed_cohort, seen_recordings
from clocs.similarity.scoring.pairs import verify_patients
from clocs.similarity.scoring.retrieval import MIN_QUERIES, retrieve_own_segments
from clocs.similarity.segments import Ints, Segments
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.seen_recordings import has_seen_keys

SINGLE_SEGMENT_NOTE = (
    "no recording has two segments under these frames: nothing to tell a patient again by. Try frames 'segments'"
)
NO_MEMBERS_NOTE = "the encoder has seen nobody of this store's training part, so there is no membership to show"
CONTROL_NOTE = "random weights: nobody trained them, so membership is a control that should find nothing"
MAX_FALSE_POSITIVE_RATE: Final = 0.01
"""False positive rate at which an attack is judged: few of those it accuses were not there."""


def audit(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    frames: str = "encoder",
    seed: int = 0,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Re-identification among a split's test patients, and membership of its training patients, as JSON.

    ``reidentification``: rank-1, rank-10 and equal error rate between segments, of whatever recording
    (``any_segment``), and between recordings of a patient (``other_recordings``; None where nobody has two).
    ``membership``: of one attack by one score, which is a lower bound of what an attacker can do. ``seed``: of random
    weights.
    """
    place = open_store(store)
    parts, encoder = place.split(split), load_encoder_checkpoint(checkpoint, place, seed)
    check_leakage(encoder.folder, encoder.about, place, parts)
    test = embed_cohort(encoder, place, frames, parts.mask("test"))
    segments, known = test.segments(), cohort_summary(test)
    reidentified = _reidentification(segments, replicates)
    members = _training_members(encoder, place, parts)
    membership = None
    if members.any():
        trained = embed_cohort(encoder, place, frames, members).segments()
        membership = infer_membership(trained, segments, replicates=replicates)
    notes = [*known.pop("notes")]
    notes += [SINGLE_SEGMENT_NOTE] if reidentified is None else _too_few_notes(reidentified)
    notes += [NO_MEMBERS_NOTE] if not members.any() else []
    notes += [CONTROL_NOTE] if encoder.folder is None else []
    identity = {"split": split, "split_sha256": parts.sha256}
    return {**known, **identity, "reidentification": reidentified, "membership": membership, "notes": notes}


def table_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """An audit for people: what was tried, what came of it, and what guessing gives."""
    rows = []
    for where, words in (("any_segment", ""), ("other_recordings", ", in another recording")):
        one = (found["reidentification"] or {}).get(where)
        if one is None or "examples" in one:
            continue
        for kind, said in (("rank_1", "the nearest"), ("rank_10", "one of the ten nearest")):
            said = f"{said} of {one['segments']:,} segments is the patient's own{words}"
            rows.append((said, format_interval(one[kind]), f"{one['chance'][kind]:.4f}"))
        if "equal_error_rate" in one:
            rows.append(
                (f"same patient or not{words}: equal error rate", format_interval(one["equal_error_rate"]), "0.5")
            )
    if one := found["membership"]:
        said = f"training records found at {100 * one['false_positives']:g} % false alarms"
        rows.append(("trained the encoder or not: AUC", format_interval(one["auc"]), "0.5"))
        rows.append((said, format_interval(one["true_positives"]), f"{one['chance']:.2g}"))
    return rows


def _reidentification(segments: Segments, replicates: int) -> dict[str, Any] | None:
    found = {
        name: _ranks_and_errors(segments, across, replicates)
        for name, across in (("any_segment", False), ("other_recordings", True))
    }
    return found if found["any_segment"] is not None else None


def _too_few_notes(reidentified: dict[str, Any]) -> list[str]:
    """A sentence for each test with too few patients to count them."""
    have = {"any_segment": "with two segments", "other_recordings": "with two recordings"}
    return [
        f"fewer than {MIN_QUERIES} patients {words} ({reidentified[name]['patients']}): "
        "no statistics of re-identification"
        for name, words in have.items()
        if reidentified[name] is not None and "examples" in reidentified[name]
    ]


def _ranks_and_errors(segments: Segments, across_recordings: bool, replicates: int) -> dict[str, Any] | None:
    """Ranks among all, and errors between pairs."""
    ranks = retrieve_own_segments(segments, across_recordings=across_recordings, replicates=replicates)
    if ranks is None or "examples" in ranks:
        return ranks
    errors = verify_patients(segments, across_recordings=across_recordings, replicates=replicates)
    return {**ranks, **(errors or {})}


def _training_members(encoder: EncoderCheckpoint, store: Store, split: Split) -> Bools:
    """Recordings of the training part that trained the encoder; all of them for random weights, as a control."""
    train = split.mask("train")
    lists_training_records = encoder.folder is not None and has_seen_keys(encoder.folder, encoder.about)
    return np.asarray(train & seen_recordings(encoder, store)) if lists_training_records else train


def infer_membership(members: Segments, others: Segments, *, replicates: int = 1000) -> dict[str, Any] | None:
    """How well own similarity tells records that trained an encoder from those it never saw, as JSON; a lower bound.

    ``auc``: 0.5 is guessing. ``true_positives``: share of the members' records above a threshold that at most a share
    ``false_positives`` of the others' is above; guessing finds ``chance``, which is more where the others are few.
    Intervals, 95 %, are over patients. None: a side has no record of two segments.
    """
    sides = [within_record_similarity(side) for side in (members, others)]
    if not all(len(score) for _, score in sides):
        return None
    score = np.concatenate([side[1] for side in sides])
    member = np.arange(len(score)) < len(sides[0][1])
    patient = np.concatenate([2 * side[0] + place for place, side in enumerate(sides)])
    known, owner = np.unique(patient, return_inverse=True)
    points = OperatingPoints(member, score)

    def measure(times: Floats) -> Floats:
        weights = times[owner]
        return np.array([points.auc(weights), points.true_positive_rate_at(MAX_FALSE_POSITIVE_RATE, weights)])

    area, found = bootstrap_metrics(measure, len(known), replicates=replicates)
    return {
        "score": "mean cosine between a record's own segments",
        "auc": area.as_dict(),
        "true_positives": found.as_dict(),
        "false_positives": MAX_FALSE_POSITIVE_RATE,
        "chance": chance_true_positive_rate(MAX_FALSE_POSITIVE_RATE, int((~member).sum())),
        "members": int(member.sum()),
        "others": int((~member).sum()),
        "mean_score": {"members": float(score[member].mean()), "others": float(score[~member].mean())},
    }


def chance_true_positive_rate(max_false_positive_rate: float, others: int) -> float:
    """The share of members that scores at random put above a threshold which at most so many of the others reach.

    The threshold is the highest of the others that is not allowed; a member is as likely above it as any of them.
    """
    return (math.floor(max_false_positive_rate * others + 1e-9) + 1) / (others + 1)


def within_record_similarity(segments: Segments) -> tuple[Ints, Floats]:
    """The patient of each record that has two segments or more, and the mean cosine over pairs of its segments."""
    _, first, count = np.unique(segments.record, return_index=True, return_counts=True)
    several = count > 1
    total = pool(segments.values, segments.record)[1] * count[:, None]
    squares = pool((segments.values.astype(np.float64) ** 2).sum(1, keepdims=True), segments.record)[1][:, 0] * count
    ordered_pairs = (total**2).sum(1) - squares  # the square of a sum, without that of each with itself
    return segments.patient[first][several], ordered_pairs[several] / (count * (count - 1))[several]
