"""Cohorts: embedded patients of a part of a store, from which all scores are computed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_mismatches, frame_policy_for
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs
from clocs.evaluation.scoring import pool_outputs
from clocs.signals.framing import FramePolicy
from clocs.similarity.segments import Ints, Segments, segments_of, unit_length
from clocs.store.duplicates import duplicate_groups
from clocs.store.frames import Frames
from clocs.store.store import Store, open_store
from clocs.training.seen_recordings import has_seen_keys, seen_mask

Folder = str | os.PathLike[str]
Bools = npt.NDArray[np.bool_]
FRAMES: Final = ("encoder", "paper", "segments")
"""Framing of recordings. ``encoder`` and ``paper`` are those of evaluations (``FrameChoice``). ``segments`` is the
dataset's framing for contrasts in time, at any sampling rate.
"""
WHOLE_STORE: Final = "all"
"""Name of the part that is the whole store, which needs no split."""
MAX_PATIENTS: Final = 10_000
"""Maximum number of patients. Larger cohorts are sampled, which bounds the time and makes ranks comparable."""


@dataclass(frozen=True)
class Cohort:
    """Patients with embeddings. A signal that is stored several times occurs once."""

    encoder: EncoderCheckpoint
    store: Store
    rows: ModelOutputs
    """Embeddings, one row per lead and frame."""
    frame: Ints
    """Frame number of each row within its recording, shape (rows,)."""
    notes: tuple[str, ...]
    """One sentence per exclusion or difference from the encoder's training."""

    def patients(self) -> ModelOutputs:
        """Return one row per patient: the mean of unit-length embeddings of leads and frames, scaled to unit length.

        A patient has every class of any of the recordings.
        """
        one = pool_outputs(self.rows.with_values(unit_length(self.rows.values)), self.rows.patient)
        return one.with_values(unit_length(one.values))

    def segments(self) -> Segments:
        """Return the patients' time segments."""
        return segments_of(self.rows.values, self.rows.record, self.rows.patient, self.frame)


def open_cohort(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "test",
    frames: str = "encoder",
    seed: int = 0,
    device: str | None = None,
) -> Cohort:
    """Embed the patients of a part of a store, at most ``MAX_PATIENTS``.

    Args:
        checkpoint: Folder of a run or checkpoint, name of a shipped encoder, or ``"random"``.
        store: A store, or its folder.
        split: Name of the split.
        part: ``"train"``, ``"validation"``, ``"test"``, or ``"all"`` for the whole store.
        frames: Framing of recordings, see ``FRAMES``.
        seed: Seed of random weights.
        device: Torch device that runs the encoder. Default: the CPU.

    Returns:
        The embedded patients.

    Raises:
        LeakError: The encoder was trained on test patients of the split.
    """
    opened = open_store(store)
    encoder = load_encoder_checkpoint(checkpoint, opened, seed, device)
    if part == WHOLE_STORE:
        return embed_cohort(encoder, opened, frames, np.ones(len(opened), bool))
    parts = opened.split(split)
    check_leakage(encoder.folder, encoder.about, opened, parts)
    return embed_cohort(encoder, opened, frames, parts.mask(part))


def embed_cohort(encoder: EncoderCheckpoint, store: Store, frames: str, records: Bools) -> Cohort:
    """Embed the patients of the recordings in a mask over the store."""
    policy = _frame_policy(encoder, store, frames)
    distinct = records & ~_duplicates(store, records)
    chosen = _limit_patients(store, distinct)
    channels = encoder.module.in_channels
    rows = compute_outputs(encoder.module, store, policy, chosen, in_channels=channels)
    frames_of = Frames(store, policy, records=chosen, all_leads=channels > 1)
    frame = frames_of.locate(np.arange(len(rows.values)))[1]
    notes = frame_mismatches(encoder.about["input"], policy, store)
    if left := int((records & ~distinct).sum()):
        recordings = "recording" if left == 1 else "recordings"
        notes.append(f"{left} {recordings} excluded as duplicates of another recording.")
    if (chosen != distinct).any():
        notes.append(f"A random sample of {MAX_PATIENTS:,} of {_num_patients(store, distinct):,} patients is used.")
    if seen := int(seen_recordings(encoder, store)[chosen].sum()):
        notes.append(f"The encoder used {seen:,} of these recordings in training or validation.")
    return Cohort(encoder, store, rows, frame, tuple(notes))


def seen_recordings(encoder: EncoderCheckpoint, store: Store) -> Bools:
    """Return a mask of the recordings that the encoder used in training or validation, as far as its checkpoint lists
    them."""
    if encoder.folder is None or not has_seen_keys(encoder.folder, encoder.about):
        return np.zeros(len(store), bool)
    return seen_mask(encoder.folder, encoder.about, store)


def cohort_summary(cohort: Cohort) -> dict[str, Any]:
    """Return encoder, dataset and sizes of a cohort as a JSON-compatible dictionary."""
    rows = cohort.rows
    return {
        "encoder": cohort.encoder.label,
        "weights_sha256": cohort.encoder.about.get("weights_sha256"),
        "dataset": cohort.store.manifest.dataset["name"],
        "store_sha256": cohort.store.sha256,
        "patients": len(np.unique(rows.patient)),
        "recordings": len(np.unique(rows.record)),
        "notes": list(cohort.notes),
    }


def _frame_policy(encoder: EncoderCheckpoint, store: Store, frames: str) -> FramePolicy:
    """Return the frame policy, with the encoder's leads if the dataset has no choice of its own."""
    if frames not in FRAMES:
        raise ConfigError(f"Unknown frames '{frames}'. Available: {', '.join(FRAMES)}.")
    taken = encoder.about["input"]
    if frames == "segments":
        policy = _segment_policy(store, taken["policy"])
    else:
        policy = frame_policy_for(encoder.about, store, "paper" if frames == "paper" else "encoder")
    return policy.model_copy(update={"leads": policy.leads or tuple(taken.get("leads", ()))})


def _segment_policy(store: Store, trained: dict[str, Any]) -> FramePolicy:
    """Return the dataset's segment policy with one segment per frame, normalized as in training."""
    own = store.frame_policy("segments")
    if own.num_samples != trained["num_samples"]:
        raise ConfigError(
            f"This dataset's segments have {own.num_samples} samples, the encoder expects {trained['num_samples']}."
        )
    return own.model_copy(update={"num_segments": 1, "normalization": trained["normalization"]})


def _duplicates(store: Store, records: Bools) -> Bools:
    """Return a mask of the recordings with the same signal as an earlier one."""
    found = np.zeros(len(store), bool)
    for group in duplicate_groups(store):
        found[group[records[group]][1:]] = True
    return found


def _limit_patients(store: Store, records: Bools) -> Bools:
    """Return the recordings of at most ``MAX_PATIENTS`` patients."""
    patient = store.patient_codes()[0]
    known = np.unique(patient[records])
    if len(known) <= MAX_PATIENTS:
        return records
    drawn = generator(0, "patients looked at").choice(known, MAX_PATIENTS, replace=False)
    return np.asarray(records & np.isin(patient, drawn))


def _num_patients(store: Store, records: Bools) -> int:
    return len(np.unique(store.patient_codes()[0][records]))
