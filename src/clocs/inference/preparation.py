"""Conversion of a recording to the frames that an encoder takes.

Recordings are resampled, cut and normalized as in training, with a note. Incompatible ones are rejected with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import BaseModel, ConfigDict, model_validator

from clocs.core.errors import ConfigError, LeadError, UnitError
from clocs.core.recording import Recording, Unit
from clocs.inference.input_checks import check_flat_frames, check_signal_quality, count_frames, recording_label
from clocs.signals.framing import UNNAMED_LEAD, FramePolicy, Normalization
from clocs.signals.leads import add_derived_leads, derivable_leads
from clocs.signals.resampling import Floats, resample

ANY_LEAD: Final = "any_lead=True, or --any-lead"
"""Hint for errors: the option that allows leads which an encoder or a classifier was not trained on."""
ALL_LEADS: Final = "all"
"""Name of a row that has all leads, in the column of lead names."""
UNIT_NAMES: Final = {"mV": "millivolt", "adu": "raw steps (adu), as files without a gain have them"}


class EncoderInput(BaseModel):
    """The input format of an encoder: the section ``input`` of its config.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    """Unit of the signals."""
    sampling_rate: float | None
    """Sampling rate in Hz. None: it was trained on frames of any sampling rate."""
    num_samples: int
    """S, samples of a frame."""
    leads: tuple[str, ...]
    """Leads it was trained on: one at a time or, with several channels, one a channel."""
    normalization: Normalization
    """Normalization of a frame."""
    policy: FramePolicy
    """Frame policy of training."""
    in_channels: int = 1
    """C, leads that it takes at once."""
    lead_dropout: bool = False
    """True if training left out leads at random, so that a frame may lack some."""

    @model_validator(mode="after")
    def _agrees_with_policy(self) -> Self:
        stated = (self.sampling_rate, self.num_samples, self.normalization)
        if stated != (self.policy.sampling_rate, self.policy.num_samples, self.policy.normalization):
            raise ValueError("sampling rate, number of samples and normalization differ from the policy's")
        if self.in_channels > 1 and len(self.leads) != self.in_channels:
            raise ValueError(f"{len(self.leads)} leads are named for {self.in_channels} channels")
        return self

    @property
    def all_leads(self) -> bool:
        """True if the encoder takes all leads of a frame at once."""
        return self.in_channels > 1

    @property
    def embeds_leads(self) -> bool:
        """True if a single lead can be embedded."""
        return not self.all_leads or self.lead_dropout


@dataclass(frozen=True)
class PreparedFrames:
    """Frames in the encoder's input format, which are made when they are needed. Rows are ordered by time, then lead.

    A frame of twelve leads takes as much memory as ten seconds of one lead, and overlapping frames share samples.
    """

    windows: Floats
    """Windows of the resampled leads before normalization, (frames, leads, S); a view."""
    frame: npt.NDArray[np.int64]
    """Window of each row, (rows,)."""
    lead_mask: npt.NDArray[np.bool_]
    """False where a lead is missing, (rows, C)."""
    lead: tuple[str, ...]
    """Lead of each row, or ``all``, (rows,)."""
    leads: tuple[str, ...]
    """Leads of the recording that are used."""
    start: npt.NDArray[np.float64]
    """Seconds from the recording's first sample to the start of the frame, (rows,)."""
    notes: tuple[str, ...]
    """Corrections and omissions, one sentence each."""
    expected: EncoderInput
    """The encoder's input format."""

    def __len__(self) -> int:
        return len(self.frame)

    def signals(self, begin: int = 0, end: int | None = None) -> Floats:
        """Return normalized frames (rows, C, S), zero where a lead is missing.

        Args:
            begin: First row.
            end: Row after the last one. None: all that follow.
        """
        frame, lead_mask, policy = self.frame[begin:end], self.lead_mask[begin:end], self.expected.policy
        if not self.expected.all_leads:
            place = {lead: row for row, lead in enumerate(self.leads)}
            return policy.normalize(self.windows[frame, [place[lead] for lead in self.lead[begin:end]]][:, None])
        needed, place_of_row = np.unique(frame, return_inverse=True)
        channels = [self.expected.leads.index(lead) for lead in self.leads]
        signals = np.zeros((len(frame), self.expected.in_channels, self.windows.shape[2]), np.float32)
        signals[:, channels] = policy.normalize(self.windows[needed])[place_of_row]
        return np.asarray(signals * lead_mask[..., None])


def in_batches(prepared: Sequence[PreparedFrames], size: int) -> Iterator[tuple[Floats, npt.NDArray[np.bool_]]]:
    """Iterate over the frames (N, C, S) and lead masks (N, C) of recordings, ``size`` rows at a time."""
    held: list[tuple[Floats, npt.NDArray[np.bool_]]] = []
    num_rows = 0
    for item in prepared:
        begin = 0
        while begin < len(item):
            end = min(len(item), begin + size - num_rows)
            held.append((item.signals(begin, end), item.lead_mask[begin:end]))
            num_rows, begin = num_rows + end - begin, end
            if num_rows == size:
                yield _joined(held)
                held, num_rows = [], 0
    if held:
        yield _joined(held)


def _joined(parts: Sequence[tuple[Floats, npt.NDArray[np.bool_]]]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([signals for signals, _ in parts]), np.concatenate([mask for _, mask in parts])


def prepare(
    recording: Recording,
    expected: EncoderInput,
    *,
    any_lead: bool = False,
    only_leads: tuple[str, ...] = (),
    overlap: float = 0.0,
) -> PreparedFrames:
    """Cut a recording into frames of one segment each, however many segments a frame had in training.

    Args:
        recording: The recording.
        expected: The encoder's input format.
        any_lead: Use also leads that the encoder was not trained on. Ignored if it takes several leads at once.
        only_leads: Leads that a classifier takes, which the recording has or which can be derived. They are used, in
            this order, and no others. Empty: the encoder's leads.
        overlap: Fraction of a frame that the next one repeats. 0: frames are adjacent.

    Returns:
        One row a lead and frame; one row a frame if the encoder takes several leads at once.

    Raises:
        LeadError: The recording has no lead of the encoder, or lacks one that it needs.
        SignalError: The recording fails the quality gate or is too short.
        UnitError: The recording has another unit.
    """
    if expected.sampling_rate is None:
        raise ConfigError(
            "This encoder was trained on frames of any sampling rate, so there is no sampling rate to resample a "
            "recording to. Use another encoder, or pass frames cut as in its training to embed_frames."
        )
    check_unit(recording, expected)
    recording = _name_unnamed_lead(recording, expected)
    leads = only_leads or _usable_leads(recording, expected, any_lead and not expected.all_leads)
    if expected.all_leads:
        _check_missing_leads(recording, expected, leads)
    complete = recording if set(leads) <= set(recording.leads) else add_derived_leads(recording)
    used = complete.select(leads)
    policy = expected.policy.model_copy(update={"num_segments": 1, "overlap": overlap})
    num_frames = count_frames(used, policy)
    derived = [lead for lead in leads if lead in complete.provenance.derived_leads]
    check_signal_quality(complete, (*leads, *(("I", "II") if derived else ())))
    check_flat_frames(used, policy, num_frames)

    length, hop = policy.num_samples, policy.hop_length(expected.sampling_rate)
    assert hop is not None
    signal = resample(used.physical(), used.sampling_rate, expected.sampling_rate)
    windows = sliding_window_view(signal, length, axis=1)[:, ::hop]
    num_frames = min(num_frames, windows.shape[1])  # resampling rounds the length of very long recordings
    starts = np.arange(num_frames) * hop / expected.sampling_rate
    remainder = complete.seconds - starts[-1] - length / expected.sampling_rate
    lead_notes = [] if only_leads else _lead_notes(complete, expected, leads)
    notes = (*complete.provenance.notes, *_notes(complete, expected, derived, lead_notes, remainder))
    used_channels = np.array([expected.leads.index(lead) for lead in leads]) if expected.all_leads else [0]
    lead_mask = np.zeros((num_frames, expected.in_channels), np.bool_)
    lead_mask[:, used_channels] = True
    ready = PreparedFrames(
        windows[:, :num_frames].transpose(1, 0, 2),
        np.arange(num_frames),
        lead_mask,
        (ALL_LEADS,) * num_frames,
        leads,
        starts,
        notes,
        expected,
    )
    return ready if expected.all_leads else _repeated(ready, np.ones((len(leads), 1), np.bool_))


def split_by_lead(prepared: PreparedFrames) -> PreparedFrames:
    """Return the frames of an encoder of several leads as one row a lead, with all other leads masked."""
    channels = [prepared.expected.leads.index(lead) for lead in prepared.leads]
    kept = np.zeros((len(channels), prepared.expected.in_channels), np.bool_)
    kept[np.arange(len(channels)), channels] = True
    return _repeated(prepared, kept)


def _repeated(prepared: PreparedFrames, lead_mask: npt.NDArray[np.bool_]) -> PreparedFrames:
    """Return one row a lead for each row of all leads, with the lead mask (leads, C) of each."""
    num_leads, num_frames = len(prepared.leads), len(prepared)
    return replace(
        prepared,
        frame=np.repeat(prepared.frame, num_leads),
        lead_mask=np.tile(lead_mask, (num_frames, 1)),
        lead=prepared.leads * num_frames,
        start=np.repeat(prepared.start, num_leads),
    )


def _check_missing_leads(recording: Recording, expected: EncoderInput, leads: Sequence[str]) -> None:
    """Raise an error if a lead is missing, unless the encoder was trained on such frames."""
    missing = [lead for lead in expected.leads if lead not in leads]
    if missing and not (expected.lead_dropout or expected.policy.allow_missing_leads):
        raise LeadError(
            f"{recording_label(recording)} has no {format_leads(missing)}; the encoder takes "
            f"{', '.join(expected.leads)} at once, all of them. Use an encoder that was trained with missing leads."
        )


def _name_unnamed_lead(recording: Recording, expected: EncoderInput) -> Recording:
    """Give an unnamed lead the name that the policy states, unless the recording has a lead of that name."""
    name = expected.policy.unnamed_lead
    if name is None or UNNAMED_LEAD not in recording.leads or name in recording.leads:
        return recording
    return replace(recording, leads=tuple(name if lead == UNNAMED_LEAD else lead for lead in recording.leads))


def check_length(recording: Recording, expected: EncoderInput) -> None:
    """Raise an error if a recording is shorter than a frame of the encoder."""
    if expected.sampling_rate is not None:
        count_frames(recording, expected.policy.model_copy(update={"num_segments": 1}))


def check_unit(recording: Recording, expected: EncoderInput) -> None:
    """Raise an error if a recording has another unit than the encoder."""
    if recording.unit != expected.unit:
        raise UnitError(
            f"{recording_label(recording)} is in {UNIT_NAMES[recording.unit]}; the encoder was trained on "
            f"{UNIT_NAMES[expected.unit]}. Use one that was trained on {recording.unit}."
        )


def _usable_leads(recording: Recording, expected: EncoderInput, any_lead: bool) -> tuple[str, ...]:
    """Return the encoder's leads that are there or can be derived; with ``any_lead``, then the file's other leads."""
    available = {*recording.leads, *derivable_leads(recording.leads)}
    leads = tuple(lead for lead in expected.leads if lead in available)
    if any_lead:
        leads += tuple(lead for lead in _stored_leads(recording) if lead not in leads)
    if not leads:
        reason = (
            f"{recording_label(recording)} has {', '.join(recording.leads) or 'no lead'}; the encoder was trained on "
            f"{', '.join(expected.leads)}, and none of these is there or can be derived."
        )
        if expected.all_leads:
            raise LeadError(f"{reason} Name the lead correctly, or use an encoder of single leads.")
        raise LeadError(f"{reason} Other leads are embedded only on request.").with_code_hint(ANY_LEAD)
    return leads


def _stored_leads(recording: Recording) -> list[str]:
    """Return the leads that the file has, without derived ones."""
    return [lead for lead in recording.leads if lead not in recording.provenance.derived_leads]


def _notes(
    recording: Recording,
    expected: EncoderInput,
    derived: Sequence[str],
    lead_notes: Sequence[str],
    remainder: float,
) -> list[str]:
    """Return a note for each correction and omission; ``remainder`` is the time after the last frame in seconds."""
    notes = []
    if recording.sampling_rate != expected.sampling_rate:
        notes.append(f"resampled from {recording.sampling_rate:g} Hz to {expected.sampling_rate:g} Hz")
    if derived:
        notes.append(f"{', '.join(derived)} derived from I and II")
    notes += lead_notes
    if remainder >= 1 / recording.sampling_rate:
        notes.append(f"the last {remainder:.3g} s not used: they do not fill a frame")
    return notes


def _lead_notes(recording: Recording, expected: EncoderInput, leads: Sequence[str]) -> list[str]:
    """Return notes on differences between the leads that are used, those of the recording and the encoder's."""
    trained = f"the encoder was trained on {', '.join(expected.leads)}"
    unused = [lead for lead in _stored_leads(recording) if lead not in leads]
    absent = [lead for lead in expected.leads if lead not in (*leads, UNNAMED_LEAD)]
    if set(leads) == {UNNAMED_LEAD} <= set(expected.leads):
        absent = []
    unseen = [lead for lead in leads if lead not in expected.leads]
    notes = []
    if unused:
        notes.append(f"{format_leads(unused)} not used: {trained}")
    if absent:
        notes.append(f"{format_leads(absent)} of the encoder not in the recording")
    if unseen:
        notes.append(f"{format_leads(unseen)} embedded although {trained}")
    return notes


def format_leads(leads: Sequence[str]) -> str:
    """Return lead names for a sentence: ``lead II``, or ``leads I, II``."""
    return f"{'lead' if len(leads) == 1 else 'leads'} {', '.join(leads)}"
