"""Write EDF+ (16 bits) and BDF+ (24 bits) with ``pyedflib``."""

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
"""Earliest date in EDF, which stands for an unknown one."""
MAX_SIGNALS: Final = 511
MAX_ANNOTATION_SIGNALS: Final = 64
ANNOTATION_BYTES: Final = 40
MAX_LABEL_LENGTH: Final = 16
MAX_PATIENT_ID_LENGTH: Final = 50
END: Final = "Recording ends"
"""Standard text of EDF+ for the end of a recording."""


@dataclass(frozen=True)
class _Plan:
    """Content and layout of a file."""

    leads: Sequence[FittedLead]
    """Digital values of each lead."""
    limits: Sequence[Limits]
    """Limits of each lead in the header."""
    records: Records
    """Layout of the data records."""
    texts: Sequence[tuple[float, float, str]]
    """Annotations: onset and duration in seconds (-1 for none), and text."""
    annotation_signals: int
    """Number of annotation signals."""
    bits: int
    """Bits per sample."""

    @property
    def spare(self) -> int:
        """Return the number of padding samples in the last data record."""
        return self.records.num_samples * self.records.count - len(self.leads[0].values)


def _encode(recording: Recording, stem: str, *, bits: int) -> EncodedRecording:
    try:
        import pyedflib
    except ImportError as error:
        raise MissingExtraError("edf", "writing EDF and BDF files") from error
    check_patient_id(recording, MAX_PATIENT_ID_LENGTH)
    if len(recording.leads) > MAX_SIGNALS:
        raise SignalError(f"recording '{recording.record_id}': EDF holds up to {MAX_SIGNALS} leads")
    plan = _make_plan(recording, bits)
    kind = pyedflib.FILETYPE_EDFPLUS if bits == 16 else pyedflib.FILETYPE_BDFPLUS
    try:  # The library can only write to a path.
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "ecg"
            with pyedflib.EdfWriter(str(path), len(plan.leads), kind) as file:
                _write_header(file, recording, plan)
                _write_samples(file, plan)
                for onset, duration, text in plan.texts:
                    file.writeAnnotation(onset, duration, text)
            data = path.read_bytes()
        if not _is_complete(data, plan):  # The library does not report a full disk.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise StoreError(f"cannot write a temporary file: {error.strerror or error}. Nothing was committed.") from error
    return EncodedRecording({".edf" if bits == 16 else ".bdf": data}, tuple(_notes(recording, plan)))


def _make_plan(recording: Recording, bits: int) -> _Plan:
    leads = fit_to_bits(recording, bits, prefer_zero_baseline=False)
    records = plan_records(recording.num_samples, recording.sampling_rate, len(leads) * bits // 8)
    # Raw digital values have no unit, so 1 is written as 1.
    per_unit = 1.0 if recording.unit == "mV" else 1000.0
    limits = [
        find_limits(lead.gain * per_unit, lead.baseline, int(lead.values.min()), int(lead.values.max()), bits)
        for lead in leads
    ]
    texts = list(_annotations(recording, records))
    signals = min(max(math.ceil(len(texts) / records.count), 1), MAX_ANNOTATION_SIGNALS)
    return _Plan(leads, limits, records, texts[: signals * records.count], signals, bits)


def _annotations(recording: Recording, records: Records) -> Iterator[tuple[float, float, str]]:
    """Iterate over the end of the recording if padding follows, the labels, and the episodes."""
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
    """Truncate a text to the length of an annotation of ``pyedflib``, between characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable.encode()[:ANNOTATION_BYTES].decode(errors="ignore")


def _label(lead: str) -> str:
    return lead if lead.startswith("ECG") else f"ECG {lead}"


def _labels(recording: Recording) -> list[str]:
    """Return the standard labels of EDF+, such as ``ECG II``, or numbered labels if they are not unique."""
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
    # Each setter writes the whole header, so attributes are set directly where possible.
    file.recording_start_time = START
    file.patient_code = to_ascii(recording.patient_id, MAX_PATIENT_ID_LENGTH).replace(" ", "_")
    file.sex = int(recording.sex == "male") if recording.sex else None
    file.number_of_annotations = plan.annotation_signals
    file.setDatarecordDuration(plan.records.seconds)
    file.setSignalHeaders(headers)


def _write_samples(file: pyedflib.EdfWriter, plan: _Plan) -> None:
    """Write the samples by data record. The last one is padded with the digital value of 0."""
    values = np.stack([lead.values for lead in plan.leads]).astype(np.int32)
    zeros = [[np.clip(lead.baseline, lead.values.min(), lead.values.max())] for lead in plan.leads]
    values = np.concatenate([values, np.repeat(np.array(zeros, np.int32), plan.spare, axis=1)], axis=1)
    for start in range(0, values.shape[1], plan.records.num_samples):
        block = np.ascontiguousarray(values[:, start : start + plan.records.num_samples])
        if file.blockWriteDigitalSamples(block.reshape(-1)) != 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def _is_complete(data: bytes, plan: _Plan) -> bool:
    """Return whether the file has the length that its header declares."""
    signals = len(plan.leads) + plan.annotation_signals
    fields = data[256 + 216 * signals : 256 + 224 * signals].split()
    expected = 256 * (1 + signals) + plan.records.count * sum(map(int, fields)) * plan.bits // 8
    return len(fields) == signals and len(data) == expected


def _notes(recording: Recording, plan: _Plan) -> Iterator[str]:
    if any(lead.is_rounded for lead in plan.leads):
        yield ROUNDED
    if not all(limit.is_exact for limit in plan.limits):
        yield "the gain is rounded to the eight characters of its header field"
    if not plan.records.has_exact_rate:
        yield "the sampling rate is rounded, because the header counts time in 10 us"
    if plan.spare:
        yield "the last data record is padded with 0; an annotation marks the end of the recording"
    if _labels(recording) != [_label(lead) for lead in recording.leads]:
        yield "lead names are shortened or written in ASCII"
    texts = [*recording.labels, *(episode.label for episode in recording.episodes)]
    if len(plan.texts) < len(texts) + bool(plan.spare) or any(_shorten(text) != text for text in texts):
        yield "labels are shortened or left out"
    if recording.age is not None:
        yield "the age is not written, because the header has no field for it"


EDF = Writer("edf", "EDF+: 16 bits", (".edf",), functools.partial(_encode, bits=16), supports_missing=False)
BDF = Writer("bdf", "BDF+: as EDF+, 24 bits", (".bdf",), functools.partial(_encode, bits=24), supports_missing=False)
