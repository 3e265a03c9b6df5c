"""Privacy audit of an encoder: re-identification of patients and membership inference.

Use it before you share an encoder or embeddings. Embeddings are personal data whatever the audit finds: it runs simple
attacks on one store, and stronger attacks find at least as much.

Membership is inferred by a threshold on the similarity of a record's own segments. Training pulls the segments of its
records together, so they may be more similar than those of unseen records. This is a single attack with a single score
and no reference model, so its result is a lower bound. A low score does not prove privacy.
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

SINGLE_SEGMENT_NOTE = "No recording has two segments, so re-identification cannot be measured. Try frames='segments'."
NO_MEMBERS_NOTE = "The encoder was not trained on this store, so there is no membership to infer."
CONTROL_NOTE = "Random weights were not trained, so membership inference is a control that should perform at chance."
MAX_FALSE_POSITIVE_RATE: Final = 0.01
"""Maximum false positive rate of the membership attack."""


def audit(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    frames: str = "encoder",
    seed: int = 0,
    device: str | None = None,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Audit an encoder for re-identification and membership inference.

    Re-identification is measured among the test patients, by ranks and equal error rate between segments. Membership
    inference compares training patients with test patients. Intervals cover 95 % and are bootstrapped over patients.

    Args:
        checkpoint: Folder of a run or checkpoint, name of a shipped encoder, or ``"random"``.
        store: A store with a split, or its folder.
        split: Name of the split.
        frames: Framing of recordings: ``"encoder"``, ``"paper"`` or ``"segments"``.
        seed: Seed of random weights.
        device: Torch device that runs the encoder. Default: the CPU.
        replicates: Number of bootstrap replicates.

    Returns:
        A JSON-compatible dictionary. ``reidentification`` has results for any other segment of the patient
        (``any_segment``) and for the patient's other recordings (``other_recordings``, None if no patient has two).
        ``membership`` compares training patients with test patients; None if the encoder saw no training patient of
        the store. ``notes`` lists the limitations.

    Raises:
        LeakError: The encoder was trained on test patients of the split.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40})
        >>> split = clocs.split(store)
        >>> result = clocs.audit("cmsc-chapman", store, replicates=10)
        >>> result["patients"], result["membership"] is None
        (4, True)
    """
    opened = open_store(store)
    parts, encoder = opened.split(split), load_encoder_checkpoint(checkpoint, opened, seed, device)
    check_leakage(encoder.folder, encoder.about, opened, parts)
    test = embed_cohort(encoder, opened, frames, parts.mask("test"))
    segments, known = test.segments(), cohort_summary(test)
    reidentified = _reidentification(segments, replicates)
    members = _training_members(encoder, opened, parts)
    membership = None
    if members.any():
        trained = embed_cohort(encoder, opened, frames, members).segments()
        membership = infer_membership(trained, segments, replicates=replicates)
    notes = [*known.pop("notes")]
    notes += [SINGLE_SEGMENT_NOTE] if reidentified is None else _too_few_notes(reidentified)
    notes += [NO_MEMBERS_NOTE] if not members.any() else []
    notes += [CONTROL_NOTE] if encoder.folder is None else []
    identity = {"split": split, "split_sha256": parts.sha256}
    return {**known, **identity, "reidentification": reidentified, "membership": membership, "notes": notes}


def table_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the rows of a table: attack, result and chance level."""
    rows = []
    for where, words in (("any_segment", ""), ("other_recordings", ", in another recording")):
        one = (found["reidentification"] or {}).get(where)
        if one is None or "examples" in one:
            continue
        for kind, rank in (("rank_1", "at rank 1"), ("rank_10", "in the top 10")):
            attack = f"own segment {rank} of {one['segments']:,} segments{words}"
            rows.append((attack, format_interval(one[kind]), f"{one['chance'][kind]:.4f}"))
        if "equal_error_rate" in one:
            rows.append((f"verification{words}: equal error rate", format_interval(one["equal_error_rate"]), "0.5"))
    if one := found["membership"]:
        attack = f"membership: true positive rate at {100 * one['false_positives']:g} % false positives"
        rows.append(("membership: AUC", format_interval(one["auc"]), "0.5"))
        rows.append((attack, format_interval(one["true_positives"]), f"{one['chance']:.2g}"))
    return rows


def _reidentification(segments: Segments, replicates: int) -> dict[str, Any] | None:
    found = {
        name: _ranks_and_errors(segments, across, replicates)
        for name, across in (("any_segment", False), ("other_recordings", True))
    }
    return found if found["any_segment"] is not None else None


def _too_few_notes(reidentified: dict[str, Any]) -> list[str]:
    """Return a note for each test with too few patients for statistics."""
    have = {"any_segment": "with two segments", "other_recordings": "with two recordings"}
    return [
        f"Only {reidentified[name]['patients']} patients {words}, fewer than {MIN_QUERIES}: "
        "no re-identification statistics."
        for name, words in have.items()
        if reidentified[name] is not None and "examples" in reidentified[name]
    ]


def _ranks_and_errors(segments: Segments, across_recordings: bool, replicates: int) -> dict[str, Any] | None:
    """Return ranks among all segments, and error rates between pairs."""
    ranks = retrieve_own_segments(segments, across_recordings=across_recordings, replicates=replicates)
    if ranks is None or "examples" in ranks:
        return ranks
    errors = verify_patients(segments, across_recordings=across_recordings, replicates=replicates)
    return {**ranks, **(errors or {})}


def _training_members(encoder: EncoderCheckpoint, store: Store, split: Split) -> Bools:
    """Return a mask of the training recordings that the encoder saw; all training recordings for random weights, as a
    control."""
    train = split.mask("train")
    lists_training_records = encoder.folder is not None and has_seen_keys(encoder.folder, encoder.about)
    return np.asarray(train & seen_recordings(encoder, store)) if lists_training_records else train


def infer_membership(members: Segments, others: Segments, *, replicates: int = 1000) -> dict[str, Any] | None:
    """Measure how well segment similarity separates training records from unseen records.

    Args:
        members: Segments of training records.
        others: Segments of unseen records.
        replicates: Number of bootstrap replicates.

    Returns:
        A JSON-compatible dictionary, or None if one side has no record with two segments. ``auc`` is 0.5 for chance.
        ``true_positives`` is the share of member records above a threshold that at most a share ``false_positives`` of
        the others exceeds. ``chance`` is its chance level, which is higher for few others. Intervals cover 95 % over
        patients.
    """
    sides = [within_record_similarity(side) for side in (members, others)]
    if not all(len(score) for _, score in sides):
        return None
    score = np.concatenate([side[1] for side in sides])
    member = np.arange(len(score)) < len(sides[0][1])
    patient = np.concatenate([2 * side[0] + number for number, side in enumerate(sides)])
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
    """Return the share of members that random scores put above the threshold.

    The threshold is the highest score of the others that is not allowed. A member exceeds it as likely as each of them.
    """
    return (math.floor(max_false_positive_rate * others + 1e-9) + 1) / (others + 1)


def within_record_similarity(segments: Segments) -> tuple[Ints, Floats]:
    """Return patient and mean cosine over pairs of segments, for each record with at least two segments."""
    _, first, count = np.unique(segments.record, return_index=True, return_counts=True)
    several = count > 1
    total = pool(segments.values, segments.record)[1] * count[:, None]
    squares = pool((segments.values.astype(np.float64) ** 2).sum(1, keepdims=True), segments.record)[1][:, 0] * count
    ordered_pairs = (total**2).sum(1) - squares  # the square of a sum, without that of each with itself
    return segments.patient[first][several], ordered_pairs[several] / (count * (count - 1))[several]
