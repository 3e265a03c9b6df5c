"""From a recording to the frames an encoder takes: corrected, and said so, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, model_validator

from clocs.core.errors import ConfigError, LeadError, UnitError
from clocs.core.recording import Recording, Unit
from clocs.inference.input_checks import frames_that_fit, name_of, refuse_faults, refuse_flat_frames
from clocs.signals.framing import FramePolicy, Normalisation
from clocs.signals.leads import derivable, derive
from clocs.signals.resampling import Floats, resample

ANY_LEAD: Final = "any_lead=True, or --any-lead"
"""What a programmer writes to have leads taken that an encoder or a classifier does not know."""
UNNAMED: Final = "ECG"
"""The lead of recordings with one whose place nobody knows: it is there in place of the others, or they are."""


class EncoderInput(BaseModel):
    """What an encoder takes, as its config.json says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    rate: float | None
    """Hz; None: the policy it was trained with does not regard rates."""
    samples: int
    leads: tuple[str, ...]
    """Leads it was trained on, each by itself."""
    normalisation: Normalisation
    policy: FramePolicy

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        stated = (self.rate, self.samples, self.normalisation)
        if stated != (self.policy.rate, self.policy.samples, self.policy.normalisation):
            raise ValueError("rate, samples and normalisation are not those of the policy")
        return self


@dataclass(frozen=True)
class Prepared:
    """Frames as training had them; rows are ordered by time, then by lead."""

    frames: Floats
    """(rows, samples), normalised."""
    lead: tuple[str, ...]
    """(rows,)"""
    start: npt.NDArray[np.float64]
    """(rows,), seconds from the recording's first sample."""
    notes: tuple[str, ...]
    """What was corrected or left out, a sentence each."""


def prepare(recording: Recording, wanted: EncoderInput, *, any_lead: bool = False) -> Prepared:
    """Cut a recording into adjacent frames of one segment each, however many a frame had in training."""
    if wanted.rate is None:
        raise ConfigError(
            "this encoder was trained on frames that were stretched to a length whatever their rate, so there is no "
            "rate to bring a recording to. Use one trained on frames of a rate, or pass frames cut as in its training "
            "to embed_frames."
        )
    _refuse_unit(recording, wanted)
    leads = _leads(recording, wanted, any_lead)
    whole = recording if set(leads) <= set(recording.leads) else derive(recording)
    used = whole.select(leads)
    policy = wanted.policy.model_copy(update={"segments": 1})
    frames = frames_that_fit(used, policy)
    derived = [lead for lead in leads if lead in whole.provenance.derived_leads]
    refuse_faults(whole, (*leads, *(("I", "II") if derived else ())))
    refuse_flat_frames(used, policy, frames)

    signal = resample(used.physical(), used.rate, wanted.rate)
    frames = min(frames, signal.shape[1] // policy.samples)  # a ratio of rates may be rounded in a very long recording
    cut = signal[:, : frames * policy.samples].reshape(len(leads), frames, policy.samples)
    seconds = policy.samples / wanted.rate
    return Prepared(
        frames=policy.normalise(cut.transpose(1, 0, 2).reshape(-1, policy.samples)),
        lead=leads * frames,
        start=np.repeat(np.arange(frames) * seconds, len(leads)),
        notes=(*whole.provenance.notes, *_notes(whole, wanted, leads, derived, whole.seconds - frames * seconds)),
    )


def _refuse_unit(recording: Recording, wanted: EncoderInput) -> None:
    if recording.unit != wanted.unit:
        words = {"mV": "millivolt", "adu": "raw steps (adu), as files without a gain have them"}
        raise UnitError(
            f"{name_of(recording)} is in {words[recording.unit]}; the encoder was trained on {words[wanted.unit]}. "
            f"Use one that was trained on {recording.unit}."
        )


def _leads(recording: Recording, wanted: EncoderInput, any_lead: bool) -> tuple[str, ...]:
    """The encoder's leads that can be had, in its order; with ``any_lead`` then the others that the file held."""
    there = {*recording.leads, *derivable(recording.leads)}
    known = tuple(lead for lead in wanted.leads if lead in there)
    if any_lead:
        known += tuple(lead for lead in _held(recording) if lead not in known)
    if not known:
        raise LeadError(
            f"{name_of(recording)} has {', '.join(recording.leads) or 'no lead'}; the encoder was trained on "
            f"{', '.join(wanted.leads)}, and none of these is there or can be derived. To embed leads that it was not "
            "trained on, say so."
        ).with_code(ANY_LEAD)
    return known


def _held(recording: Recording) -> list[str]:
    return [lead for lead in recording.leads if lead not in recording.provenance.derived_leads]


def _notes(
    recording: Recording, wanted: EncoderInput, leads: Sequence[str], derived: Sequence[str], left: float
) -> list[str]:
    """``left``: seconds at the end that fill no frame."""
    trained = f"the encoder was trained on {', '.join(wanted.leads)}"
    unused = [lead for lead in _held(recording) if lead not in leads]
    absent = [lead for lead in wanted.leads if lead not in (*leads, UNNAMED)]
    if set(leads) == {UNNAMED} <= set(wanted.leads):
        absent = []
    unseen = [lead for lead in leads if lead not in wanted.leads]
    notes = []
    if recording.rate != wanted.rate:
        notes.append(f"resampled from {recording.rate:g} Hz to {wanted.rate:g} Hz")
    if derived:
        notes.append(f"{', '.join(derived)} derived from I and II")
    if unused:
        notes.append(f"{leads_named(unused)} not used: {trained}")
    if absent:
        notes.append(f"{leads_named(absent)} of the encoder not in the recording")
    if unseen:
        notes.append(f"{leads_named(unseen)} embedded although {trained}")
    if left >= 1 / recording.rate:
        notes.append(f"the last {left:.3g} s not used: they do not fill a frame")
    return notes


def leads_named(leads: Sequence[str]) -> str:
    """For a sentence."""
    return f"{'lead' if len(leads) == 1 else 'leads'} {', '.join(leads)}"
