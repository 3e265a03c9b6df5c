"""EDF+ (16 bits) and BDF+ (24 bits), written through ``pyedflib``."""

from __future__ import annotations

import errno
import functools
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clocs.core.errors import MissingExtraError, SignalError, StoreError
from clocs.core.recording import Recording
from clocs.formats.channels import DERIVED_LEAD_TEXT
from clocs.formats.writers.digital_values import ROUNDED, FittedLead, check_patient_id, fit_to_bits, to_ascii
from clocs.formats.writers.edf_layout import Limits, Records, find_limits, plan_records
from clocs.formats.writing import EncodedRecording, Writer

if TYPE_CHECKING:
    import pyedflib

START: Final = datetime(1985, 1, 1)
"""EDF's earliest day, which stands for an unknown one."""
MAX_SIGNALS: Final = 511
MAX_ANNOTATION_SIGNALS: Final = 64
ANNOTATION_BYTES: Final = 40
MAX_LABEL_LENGTH: Final = 16
MAX_PATIENT_ID_LENGTH: Final = 50
END: Final = "Recording ends"
"""One of EDF+'s standard texts."""


@dataclass(frozen=True)
class _Plan:
    """What is written where."""

    leads: Sequence[FittedLead]
    limits: Sequence[Limits]
    records: Records
    texts: Sequence[tuple[float, float, str]]
    """Annotations: onset, duration (-1: none), text."""
    annotation_signals: int
    bits: int

    @property
    def spare(self) -> int:
        """Samples that the last data record has too many."""
        return self.records.num_samples * self.records.count - len(self.leads[0].values)


def _encode(recording: Recording, stem: str, *, bits: int) -> EncodedRecording:
    try:
        import pyedflib
    except ImportError as error:
        raise MissingExtraError("formats", "writing EDF and BDF files") from error
    check_patient_id(recording, MAX_PATIENT_ID_LENGTH)
    if len(recording.leads) > MAX_SIGNALS:
        raise SignalError(f"recording '{recording.record_id}': EDF holds up to {MAX_SIGNALS} leads")
    plan = _make_plan(recording, bits)
    kind = pyedflib.FILETYPE_EDFPLUS if bits == 16 else pyedflib.FILETYPE_BDFPLUS
    try:  # the library writes to a path and to nothing else
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "ecg"
            with pyedflib.EdfWriter(str(path), len(plan.leads), kind) as file:
                _write_header(file, recording, plan)
                _write_samples(file, plan)
                for onset, duration, text in plan.texts:
                    file.writeAnnotation(onset, duration, text)
            data = path.read_bytes()
        if not _is_complete(data, plan):  # nor does it tell when a disk is full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise StoreError(f"cannot write a temporary file: {error.strerror or error}. Nothing was committed.") from error
    return EncodedRecording({".edf" if bits == 16 else ".bdf": data}, tuple(_notes(recording, plan)))


def _make_plan(recording: Recording, bits: int) -> _Plan:
    leads = fit_to_bits(recording, bits, prefer_zero_baseline=False)
    records = plan_records(recording.num_samples, recording.sampling_rate, len(leads) * bits // 8)
    # Of raw steps, which have no unit, a step of 1 is to be written as 1.
    per_unit = 1.0 if recording.unit == "mV" else 1000.0
    limits = [
        find_limits(lead.gain * per_unit, lead.baseline, int(lead.values.min()), int(lead.values.max()), bits)
        for lead in leads
    ]
    texts = list(_annotations(recording, records))
    signals = min(max(math.ceil(len(texts) / records.count), 1), MAX_ANNOTATION_SIGNALS)
    return _Plan(leads, limits, records, texts[: signals * records.count], signals, bits)


def _annotations(recording: Recording, records: Records) -> Iterator[tuple[float, float, str]]:
    """The end of what was recorded where more is written, labels of the whole, and labelled stretches."""
    if records.num_samples * records.count > recording.num_samples:
        yield recording.seconds, -1.0, END
    for label in recording.labels:
        yield 0.0, -1.0, _shorten(label)
    for episode in recording.episodes:
        yield (
            episode.start / recording.sampling_rate,
            (episode.end - episode.start) / recording.sampling_rate,
            _shorten(episode.label),
        )


def _shorten(text: str) -> str:
    """What an annotation of ``pyedflib`` holds, cut between characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable.encode()[:ANNOTATION_BYTES].decode(errors="ignore")


def _label(lead: str) -> str:
    return lead if lead.startswith("ECG") else f"ECG {lead}"


def _labels(recording: Recording) -> list[str]:
    """EDF+'s standard names of signals, ``ECG II``; by number where they would not differ."""
    names = [to_ascii(_label(lead), MAX_LABEL_LENGTH) for lead in recording.leads]
    return names if len(set(names)) == len(names) else [f"ECG {row + 1}" for row in range(len(names))]


def _write_header(file: pyedflib.EdfWriter, recording: Recording, plan: _Plan) -> None:
    headers: list[dict[str, Any]] = [
        {
            "label": label,
            "dimension": limit.unit if recording.unit == "mV" else "",
            "sample_frequency": plan.records.num_samples / plan.records.seconds,
            "physical_min": float(limit.low),
            "physical_max": float(limit.high),
            "digital_min": limit.lowest,
            "digital_max": limit.highest,
            "transducer": DERIVED_LEAD_TEXT if lead in recording.provenance.derived_leads else "",
            "prefilter": "",
        }
        for label, lead, limit in zip(_labels(recording), recording.leads, plan.limits, strict=True)
    ]
    # Its setters write the whole header each time, so all that can be set beforehand is.
    file.recording_start_time = START
    file.patient_code = to_ascii(recording.patient_id, MAX_PATIENT_ID_LENGTH).replace(" ", "_")
    file.sex = int(recording.sex == "male") if recording.sex else None
    file.number_of_annotations = plan.annotation_signals
    file.setDatarecordDuration(plan.records.seconds)
    file.setSignalHeaders(headers)


def _write_samples(file: pyedflib.EdfWriter, plan: _Plan) -> None:
    """Data record by data record, the last one filled up with each lead's zero."""
    values = np.stack([lead.values for lead in plan.leads]).astype(np.int32)
    zeros = [[np.clip(lead.baseline, lead.values.min(), lead.values.max())] for lead in plan.leads]
    values = np.concatenate([values, np.repeat(np.array(zeros, np.int32), plan.spare, axis=1)], axis=1)
    for start in range(0, values.shape[1], plan.records.num_samples):
        block = np.ascontiguousarray(values[:, start : start + plan.records.num_samples])
        if file.blockWriteDigitalSamples(block.reshape(-1)) != 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def _is_complete(data: bytes, plan: _Plan) -> bool:
    """Whether all that the header announces is there."""
    signals = len(plan.leads) + plan.annotation_signals
    fields = data[256 + 216 * signals : 256 + 224 * signals].split()
    expected = 256 * (1 + signals) + plan.records.count * sum(map(int, fields)) * plan.bits // 8
    return len(fields) == signals and len(data) == expected


def _notes(recording: Recording, plan: _Plan) -> Iterator[str]:
    if any(lead.is_rounded for lead in plan.leads):
        yield ROUNDED
    if not all(limit.is_exact for limit in plan.limits):
        yield "the scale is rounded to the eight characters that the header has for it"
    if not plan.records.has_exact_rate:
        yield "the rate is rounded, for the header counts time in 10 us"
    if plan.spare:
        yield "the last data record is filled up with 0; an annotation says where the recording ends"
    if _labels(recording) != [_label(lead) for lead in recording.leads]:
        yield "lead names are shortened or written in ASCII"
    texts = [*recording.labels, *(episode.label for episode in recording.episodes)]
    if len(plan.texts) < len(texts) + bool(plan.spare) or any(_shorten(text) != text for text in texts):
        yield "labels are shortened or left out"
    if recording.age is not None:
        yield "the age has no place in the header"


EDF = Writer("edf", "EDF+: 16 bits", (".edf",), functools.partial(_encode, bits=16), supports_missing=False)
BDF = Writer("bdf", "BDF+: as EDF+, 24 bits", (".bdf",), functools.partial(_encode, bits=24), supports_missing=False)
