"""The patients of a part of a store, as an encoder sees them: the rows that every score is computed on."""

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
"""How recordings are cut: as for evaluations (``FrameChoice``), or, ``segments``, as the dataset is for contrasts in
time, whatever the encoder's rate."""
WHOLE_STORE: Final = "all"
"""The part that is the whole store; it needs no split."""
MAX_PATIENTS: Final = 10_000
"""Patients that are looked at; of more, so many are drawn. It bounds the time, and ranks among as many compare."""


@dataclass(frozen=True)
class Cohort:
    """Patients with their embeddings; a signal that several names share is there once."""

    encoder: EncoderCheckpoint
    store: Store
    rows: ModelOutputs
    """One a lead and frame."""
    frame: Ints
    """(rows,) which of the recording's frames."""
    notes: tuple[str, ...]
    """A sentence for all that was left out, or is not as the encoder was trained."""

    def patients(self) -> ModelOutputs:
        """A row a patient: the mean of unit-length embeddings of leads and frames, itself of unit length, as an archive
        has it of a recording. A patient has each class that any of the recordings has.
        """
        one = pool_outputs(self.rows.with_values(unit_length(self.rows.values)), self.rows.patient)
        return one.with_values(unit_length(one.values))

    def segments(self) -> Segments:
        """The patients' segments."""
        return segments_of(self.rows.values, self.rows.record, self.rows.patient, self.frame)


def open_cohort(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "test",
    frames: str = "encoder",
    seed: int = 0,
) -> Cohort:
    """The patients of ``part``, of at most ``MAX_PATIENTS``; refused where the encoder has seen test patients.

    ``seed``: of random weights.
    """
    place = open_store(store)
    encoder = load_encoder_checkpoint(checkpoint, place, seed)
    if part == WHOLE_STORE:
        return embed_cohort(encoder, place, frames, np.ones(len(place), bool))
    parts = place.split(split)
    check_leakage(encoder.folder, encoder.about, place, parts)
    return embed_cohort(encoder, place, frames, parts.mask(part))


def embed_cohort(encoder: EncoderCheckpoint, store: Store, frames: str, records: Bools) -> Cohort:
    """The patients of some recordings, given as a mask over the store's."""
    policy = _frame_policy(encoder, store, frames)
    distinct = records & ~_duplicates(store, records)
    chosen = _limit_patients(store, distinct)
    channels = encoder.module.in_channels
    rows = compute_outputs(encoder.module, store, policy, chosen, in_channels=channels)
    frames_of = Frames(store, policy, records=chosen, all_leads=channels > 1)
    frame = frames_of.locate(np.arange(len(rows.values)))[1]
    notes = frame_mismatches(encoder.about["input"], policy, store)
    if left := int((records & ~distinct).sum()):
        many = "recording left out: its" if left == 1 else "recordings left out: their"
        notes.append(f"{left} {many} signal is there under another name")
    if (chosen != distinct).any():
        notes.append(f"{MAX_PATIENTS:,} of {_num_patients(store, distinct):,} patients, drawn at random")
    if seen := int(seen_recordings(encoder, store)[chosen].sum()):
        notes.append(f"{seen:,} of these recordings are among those that the encoder was trained or chosen by")
    return Cohort(encoder, store, rows, frame, tuple(notes))


def seen_recordings(encoder: EncoderCheckpoint, store: Store) -> Bools:
    """Which recordings of a store the encoder has seen, as far as it says: in training, or to choose when to stop."""
    if encoder.folder is None or not has_seen_keys(encoder.folder, encoder.about):
        return np.zeros(len(store), bool)
    return seen_mask(encoder.folder, encoder.about, store)


def cohort_summary(cohort: Cohort) -> dict[str, Any]:
    """Who was looked at, for a result."""
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
    """Of the encoder's leads, where the dataset has no choice of its own: as an archive is embedded."""
    if frames not in FRAMES:
        raise ConfigError(f"no frames '{frames}'; there are {', '.join(FRAMES)}")
    taken = encoder.about["input"]
    if frames == "segments":
        policy = _segment_policy(store, taken["policy"])
    else:
        policy = frame_policy_for(encoder.about, store, "paper" if frames == "paper" else "encoder")
    return policy.model_copy(update={"leads": policy.leads or tuple(taken.get("leads", ()))})


def _segment_policy(store: Store, trained: dict[str, Any]) -> FramePolicy:
    """Single segments, normalised as in training."""
    own = store.frame_policy("segments")
    if own.num_samples != trained["num_samples"]:
        raise ConfigError(
            f"this dataset's segments have {own.num_samples} samples, the encoder takes {trained['num_samples']}"
        )
    return own.model_copy(update={"num_segments": 1, "normalization": trained["normalization"]})


def _duplicates(store: Store, records: Bools) -> Bools:
    """Which of these recordings have the signal of an earlier one of them."""
    found = np.zeros(len(store), bool)
    for group in duplicate_groups(store):
        found[group[records[group]][1:]] = True
    return found


def _limit_patients(store: Store, records: Bools) -> Bools:
    """The recordings of at most ``MAX_PATIENTS`` of the patients."""
    patient = store.patient_codes()[0]
    known = np.unique(patient[records])
    if len(known) <= MAX_PATIENTS:
        return records
    drawn = generator(0, "patients looked at").choice(known, MAX_PATIENTS, replace=False)
    return np.asarray(records & np.isin(patient, drawn))


def _num_patients(store: Store, records: Bools) -> int:
    return len(np.unique(store.patient_codes()[0][records]))
