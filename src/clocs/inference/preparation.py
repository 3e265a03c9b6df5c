"""From a recording to the frames an encoder takes: corrected, and said so, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, model_validator

from clocs.core.errors import ConfigError, LeadError, UnitError
from clocs.core.recording import Recording, Unit
from clocs.inference.input_checks import check_flat_frames, check_signal_quality, count_frames, recording_label
from clocs.signals.framing import UNNAMED_LEAD, FramePolicy, Normalization
from clocs.signals.leads import add_derived_leads, derivable_leads
from clocs.signals.resampling import Floats, resample

ANY_LEAD: Final = "any_lead=True, or --any-lead"
"""What a programmer writes to have leads taken that an encoder or a classifier does not know."""
ALL_LEADS: Final = "all"
"""What a row of several leads is called where others have the name of a lead."""


class EncoderInput(BaseModel):
    """What an encoder takes, as its config.json says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    sampling_rate: float | None
    """Hz; None: the policy it was trained with does not regard rates."""
    num_samples: int
    leads: tuple[str, ...]
    """Leads it was trained on: each by itself or, with several channels, one a channel."""
    normalization: Normalization
    policy: FramePolicy
    in_channels: int = 1
    """C, leads that it takes at once."""
    lead_dropout: bool = False
    """Whether training left out leads by chance, so that a frame may lack some."""

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        stated = (self.sampling_rate, self.num_samples, self.normalization)
        if stated != (self.policy.sampling_rate, self.policy.num_samples, self.policy.normalization):
            raise ValueError("rate, samples and normalisation are not those of the policy")
        if self.in_channels > 1 and len(self.leads) != self.in_channels:
            raise ValueError(f"{len(self.leads)} leads are named for {self.in_channels} channels")
        return self

    @property
    def all_leads(self) -> bool:
        """Whether all leads of a frame are taken at once."""
        return self.in_channels > 1

    @property
    def embeds_leads(self) -> bool:
        """Whether a lead has an embedding of its own."""
        return not self.all_leads or self.lead_dropout


@dataclass(frozen=True)
class PreparedFrames:
    """Frames as training had them; rows are ordered by time, then by lead."""

    frames: Floats
    """(rows, C, S), normalised; zeros where a lead is missing."""
    lead_mask: npt.NDArray[np.bool_]
    """(rows, C), false where a lead is missing."""
    lead: tuple[str, ...]
    """(rows,), the lead of each row, or ``all``."""
    leads: tuple[str, ...]
    """The leads of the recording that are used."""
    start: npt.NDArray[np.float64]
    """(rows,), seconds from the recording's first sample."""
    notes: tuple[str, ...]
    """What was corrected or left out, a sentence each."""


def prepare(recording: Recording, wanted: EncoderInput, *, any_lead: bool = False) -> PreparedFrames:
    """Cut a recording into adjacent frames of one segment each, however many a frame had in training.

    Args:
        recording: What is to be embedded.
        wanted: What the encoder takes.
        any_lead: Take also leads that the encoder was not trained on; of no effect where it takes several at once.

    Returns:
        One row a lead and frame; one row a frame where the encoder takes several leads at once.

    Raises:
        LeadError: The recording has no lead of the encoder, or lacks one that it needs.
        SignalError: The recording is faulty or too short.
        UnitError: It is in another unit.
    """
    if wanted.sampling_rate is None:
        raise ConfigError(
            "this encoder was trained on frames that were stretched to a length whatever their rate, so there is no "
            "rate to bring a recording to. Use one trained on frames of a rate, or pass frames cut as in its training "
            "to embed_frames."
        )
    _refuse_unit(recording, wanted)
    recording = _with_named_lead(recording, wanted)
    leads = _leads(recording, wanted, any_lead and not wanted.all_leads)
    if wanted.all_leads:
        _refuse_lacking(recording, wanted, leads)
    whole = recording if set(leads) <= set(recording.leads) else add_derived_leads(recording)
    used = whole.select(leads)
    policy = wanted.policy.model_copy(update={"num_segments": 1})
    frames = count_frames(used, policy)
    derived = [lead for lead in leads if lead in whole.provenance.derived_leads]
    check_signal_quality(whole, (*leads, *(("I", "II") if derived else ())))
    check_flat_frames(used, policy, frames)

    signal = resample(used.physical(), used.sampling_rate, wanted.sampling_rate)
    frames = min(
        frames, signal.shape[1] // policy.num_samples
    )  # a ratio of rates may be rounded in a very long recording
    cut = signal[:, : frames * policy.num_samples].reshape(len(leads), frames, policy.num_samples).transpose(1, 0, 2)
    seconds = policy.num_samples / wanted.sampling_rate
    starts = np.arange(frames) * seconds
    notes = (*whole.provenance.notes, *_notes(whole, wanted, leads, derived, whole.seconds - frames * seconds))
    if wanted.all_leads:
        signals, lead_mask = _into_channels(policy.normalize(cut), leads, wanted)
        return PreparedFrames(signals, lead_mask, (ALL_LEADS,) * frames, leads, starts, notes)
    signals = policy.normalize(cut.reshape(-1, 1, policy.num_samples))
    lead_mask = np.ones((len(signals), 1), np.bool_)
    return PreparedFrames(signals, lead_mask, leads * frames, leads, np.repeat(starts, len(leads)), notes)


def split_by_lead(ready: PreparedFrames, wanted: EncoderInput) -> PreparedFrames:
    """Return the frames of an encoder of several leads as one row a lead, with all other leads masked."""
    channels = [wanted.leads.index(lead) for lead in ready.leads]
    count, frames = len(channels), len(ready.frames)
    kept = np.zeros((count, wanted.in_channels), np.bool_)
    kept[np.arange(count), channels] = True
    lead_mask = np.tile(kept, (frames, 1))
    signals = np.repeat(ready.frames, count, axis=0) * lead_mask[..., None]
    return PreparedFrames(
        signals, lead_mask, ready.leads * frames, ready.leads, np.repeat(ready.start, count), ready.notes
    )


def _into_channels(cut: Floats, leads: Sequence[str], wanted: EncoderInput) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """(frames, leads, S) -> (frames, C, S) and (frames, C)."""
    channels = [wanted.leads.index(lead) for lead in leads]
    signals = np.zeros((len(cut), wanted.in_channels, cut.shape[-1]), np.float32)
    signals[:, channels] = cut
    lead_mask = np.zeros(signals.shape[:2], np.bool_)
    lead_mask[:, channels] = True
    return signals, lead_mask


def _refuse_lacking(recording: Recording, wanted: EncoderInput, leads: Sequence[str]) -> None:
    """Refuse a recording that lacks a lead, unless the encoder was trained on such frames."""
    lacking = [lead for lead in wanted.leads if lead not in leads]
    if lacking and not (wanted.lead_dropout or wanted.policy.allow_missing_leads):
        raise LeadError(
            f"{recording_label(recording)} has no {format_leads(lacking)}; the encoder takes "
            f"{', '.join(wanted.leads)} at once and was trained on recordings that have all of them. Use one that was "
            "trained with missing leads."
        )


def _with_named_lead(recording: Recording, wanted: EncoderInput) -> Recording:
    """Give an unnamed lead the name that the policy takes it for, unless that lead is there."""
    name = wanted.policy.unnamed_lead
    if name is None or UNNAMED_LEAD not in recording.leads or name in recording.leads:
        return recording
    return replace(recording, leads=tuple(name if lead == UNNAMED_LEAD else lead for lead in recording.leads))


def _refuse_unit(recording: Recording, wanted: EncoderInput) -> None:
    if recording.unit != wanted.unit:
        words = {"mV": "millivolt", "adu": "raw steps (adu), as files without a gain have them"}
        raise UnitError(
            f"{recording_label(recording)} is in {words[recording.unit]}; the encoder was trained on "
            f"{words[wanted.unit]}. Use one that was trained on {recording.unit}."
        )


def _leads(recording: Recording, wanted: EncoderInput, any_lead: bool) -> tuple[str, ...]:
    """The encoder's leads that can be had, in its order; with ``any_lead`` then the others that the file held."""
    there = {*recording.leads, *derivable_leads(recording.leads)}
    known = tuple(lead for lead in wanted.leads if lead in there)
    if any_lead:
        known += tuple(lead for lead in _held(recording) if lead not in known)
    if not known:
        raise LeadError(
            f"{recording_label(recording)} has {', '.join(recording.leads) or 'no lead'}; the encoder was trained on "
            f"{', '.join(wanted.leads)}, and none of these is there or can be derived. To embed leads that it was not "
            "trained on, say so."
        ).with_code_hint(ANY_LEAD)
    return known


def _held(recording: Recording) -> list[str]:
    return [lead for lead in recording.leads if lead not in recording.provenance.derived_leads]


def _notes(
    recording: Recording, wanted: EncoderInput, leads: Sequence[str], derived: Sequence[str], left: float
) -> list[str]:
    """``left``: seconds at the end that fill no frame."""
    trained = f"the encoder was trained on {', '.join(wanted.leads)}"
    unused = [lead for lead in _held(recording) if lead not in leads]
    absent = [lead for lead in wanted.leads if lead not in (*leads, UNNAMED_LEAD)]
    if set(leads) == {UNNAMED_LEAD} <= set(wanted.leads):
        absent = []
    unseen = [lead for lead in leads if lead not in wanted.leads]
    notes = []
    if recording.sampling_rate != wanted.sampling_rate:
        notes.append(f"resampled from {recording.sampling_rate:g} Hz to {wanted.sampling_rate:g} Hz")
    if derived:
        notes.append(f"{', '.join(derived)} derived from I and II")
    if unused:
        notes.append(f"{format_leads(unused)} not used: {trained}")
    if absent:
        notes.append(f"{format_leads(absent)} of the encoder not in the recording")
    if unseen:
        notes.append(f"{format_leads(unseen)} embedded although {trained}")
    if left >= 1 / recording.sampling_rate:
        notes.append(f"the last {left:.3g} s not used: they do not fill a frame")
    return notes


def format_leads(leads: Sequence[str]) -> str:
    """For a sentence."""
    return f"{'lead' if len(leads) == 1 else 'leads'} {', '.join(leads)}"
