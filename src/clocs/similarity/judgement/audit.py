"""What the embeddings of an encoder give away: whether they tell a patient again, and who trained the encoder.

For whoever is about to share an encoder, or embeddings. Embeddings are personal data, whatever the audit finds: it
tries simple attacks on one store, and an attacker who does more finds no less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.judgement import in_words
from clocs.evaluation.leakage import check_contract
from clocs.similarity.judgement.cohort import Bools, Folder, cohort_of, seen_by, told
from clocs.similarity.judgement.membership import infer_membership
from clocs.similarity.judgement.retrieval import FEWEST, find_own_segments
from clocs.similarity.judgement.verification import verify_patients
from clocs.similarity.segments import Segments
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.seen import has_list

SINGLE = "no recording has two segments under these frames: nothing to tell a patient again by. Try frames 'segments'"
UNSEEN = "the encoder has seen nobody of this store's training part, so there is no membership to show"
CONTROL = "random weights: nobody trained them, so membership is a control that should find nothing"


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
    check_contract(encoder.folder, encoder.about, place, parts)
    test = cohort_of(encoder, place, frames, parts.mask("test"))
    segments, known = test.segments(), told(test)
    reidentified = _reidentification(segments, replicates)
    members = _members(encoder, place, parts)
    membership = None
    if members.any():
        trained = cohort_of(encoder, place, frames, members).segments()
        membership = infer_membership(trained, segments, replicates=replicates)
    notes = [*known.pop("notes")]
    notes += [SINGLE] if reidentified is None else _too_few(reidentified)
    notes += [UNSEEN] if not members.any() else []
    notes += [CONTROL] if encoder.folder is None else []
    identity = {"split": split, "split_sha256": parts.sha256}
    return {**known, **identity, "reidentification": reidentified, "membership": membership, "notes": notes}


def in_rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """An audit for people: what was tried, what came of it, and what guessing gives."""
    rows = []
    for where, words in (("any_segment", ""), ("other_recordings", ", in another recording")):
        one = (found["reidentification"] or {}).get(where)
        if one is None or "examples" in one:
            continue
        for kind, said in (("rank_1", "the nearest"), ("rank_10", "one of the ten nearest")):
            said = f"{said} of {one['segments']:,} segments is the patient's own{words}"
            rows.append((said, in_words(one[kind]), f"{one['chance'][kind]:.4f}"))
        if "equal_error_rate" in one:
            rows.append((f"same patient or not{words}: equal error rate", in_words(one["equal_error_rate"]), "0.5"))
    if one := found["membership"]:
        said = f"training records found at {100 * one['false_positives']:g} % false alarms"
        rows.append(("trained the encoder or not: AUC", in_words(one["auc"]), "0.5"))
        rows.append((said, in_words(one["true_positives"]), f"{one['chance']:.2g}"))
    return rows


def _reidentification(segments: Segments, replicates: int) -> dict[str, Any] | None:
    found = {
        name: _both(segments, across, replicates)
        for name, across in (("any_segment", False), ("other_recordings", True))
    }
    return found if found["any_segment"] is not None else None


def _too_few(reidentified: dict[str, Any]) -> list[str]:
    """A sentence for each test with too few patients to count them."""
    have = {"any_segment": "with two segments", "other_recordings": "with two recordings"}
    return [
        f"fewer than {FEWEST} patients {words} ({reidentified[name]['patients']}): no statistics of re-identification"
        for name, words in have.items()
        if reidentified[name] is not None and "examples" in reidentified[name]
    ]


def _both(segments: Segments, across_recordings: bool, replicates: int) -> dict[str, Any] | None:
    """Ranks among all, and errors between pairs."""
    ranks = find_own_segments(segments, across_recordings=across_recordings, replicates=replicates)
    if ranks is None or "examples" in ranks:
        return ranks
    errors = verify_patients(segments, across_recordings=across_recordings, replicates=replicates)
    return {**ranks, **(errors or {})}


def _members(encoder: EncoderCheckpoint, store: Store, split: Split) -> Bools:
    """Recordings of the training part that trained the encoder; all of them for random weights, as a control."""
    train = split.mask("train")
    told_what = encoder.folder is not None and has_list(encoder.folder, encoder.about)
    return np.asarray(train & seen_by(encoder, store)) if told_what else train
