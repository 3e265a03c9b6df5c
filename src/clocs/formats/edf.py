"""Read EDF, EDF+ and BDF (24 bits): a text header with fixed fields, then data records with samples of every signal.

Files are read from bytes, because ``pyedflib`` needs a file on disk. The tests compare every value with ``pyedflib``
and ``edfio``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import DERIVED_LEAD_TEXT, Channel, gain_from_resolution, millivolts, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_sex
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

NAME: Final = "edf"
FIXED_BYTES: Final = 256
MAX_SIGNALS: Final = 512
WIDTHS: Final = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
"""Length of each field of a signal: label, transducer, unit, physical and digital limits, filter, samples per record,
reserved."""
SAMPLE_BYTES: Final = {b"0       ": 2, b"\xffBIOSEMI": 3}
"""Bytes per sample, by the first bytes of the file: EDF, BDF."""
MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MAX_EXPONENT: Final = 12
MIN_GAP_SECONDS: Final = Decimal("0.00001")
"""Minimum duration of a gap in seconds. Smaller differences are rounding errors."""
MAX_ANNOTATED_RECORDS: Final = 300_000
"""Maximum number of data records whose annotations are read: over three days of one record per second."""

_ECG = re.compile(r"^(ECG|EKG)(?![A-Z])[\s_\-:.]*", re.IGNORECASE)
_LEAD = re.compile(r"^(M?L?I{1,3}|aV[RLF]|M?V[1-9]R?|CM5|CC5|MCL[1-6])$", re.IGNORECASE)
_ANNOTATIONS = re.compile(r"^(EDF|BDF) Annotations$")
_DAY = re.compile(r"(\d\d)-([A-Z]{3})-(\d{4})")
_ONSET = re.compile(rb"^([+-]\d{1,15}(?:\.\d{1,15})?)(?:\x15[\d.]*)?\x14")


@dataclass(frozen=True)
class _Signal:
    label: str
    transducer: str
    unit: str
    limits: tuple[Decimal, Decimal, Decimal, Decimal]
    """Physical minimum and maximum, digital minimum and maximum."""
    num_samples: int
    """Number of samples in a data record."""
    offset: int
    """Offset within a data record in bytes."""


@dataclass(frozen=True)
class _Header:
    patient: str
    recording: str
    start: str
    reserved: str
    records: int
    seconds: Decimal
    """Duration of a data record."""
    is_rounded: bool
    """True if the duration fills its field, so that digits may be lost."""
    signals: tuple[_Signal, ...]
    sample_bytes: int
    """Bytes per sample."""
    record_bytes: int
    data_offset: int


def _matches(head: bytes, source: Source, name: str) -> bool:
    count = head[252:256].strip()
    return (
        head[:8] in SAMPLE_BYTES
        and count.isdigit()
        and len(head) >= FIXED_BYTES
        and head[236:244].strip(b" -").isdigit()
    )


def _number(text: str, what: str, name: str) -> Decimal:
    try:
        value = Decimal(text.strip().replace(",", "."))
    except InvalidOperation:
        raise FormatError(f"{name}: its {what} is not a number") from None
    if not value.is_finite() or (value and not -MAX_EXPONENT <= value.adjusted() <= MAX_EXPONENT):
        raise FormatError(f"{name}: its {what} is out of range")
    return value


def _header(raw: bytes, name: str) -> _Header:
    text = raw[:FIXED_BYTES].decode("latin-1")
    count = int(_number(text[252:256], "number of signals", name))
    if not 1 <= count <= MAX_SIGNALS or len(raw) < FIXED_BYTES * (1 + count):
        raise FormatError(f"{name}: the header of {count} signals does not fit its {len(raw)} bytes")
    sample_bytes = SAMPLE_BYTES[raw[:8]]
    signals = tuple(_signals(raw[FIXED_BYTES : FIXED_BYTES * (1 + count)].decode("latin-1"), count, sample_bytes, name))
    record_bytes = sample_bytes * sum(signal.num_samples for signal in signals)
    seconds = _number(text[244:252], "duration of a data record", name)
    if seconds <= 0 or not record_bytes:
        raise FormatError(f"{name}: data records of {seconds:g} s with {record_bytes} bytes hold no signal")
    return _Header(
        patient=text[8:88].strip(),
        recording=text[88:168].strip(),
        start=text[168:184],
        reserved=text[192:236].strip(),
        records=int(_number(text[236:244], "number of data records", name)),
        seconds=seconds,
        is_rounded=len(text[244:252].strip()) == 8,
        signals=signals,
        sample_bytes=sample_bytes,
        record_bytes=record_bytes,
        data_offset=FIXED_BYTES * (1 + count),
    )


def _signals(text: str, count: int, sample_bytes: int, name: str) -> Iterator[_Signal]:
    columns, start = [], 0
    for size in WIDTHS:
        columns.append([text[start + row * size : start + (row + 1) * size].strip() for row in range(count)])
        start += size * count
    labels, transducers, units, *limits, _, lengths, _ = columns
    offset = 0
    for row in range(count):
        num_samples = int(_number(lengths[row], "number of samples in a record", name))
        if num_samples < 0:
            raise FormatError(f"{name}: {num_samples} samples in a data record. The file is damaged.")
        low, high, lowest, highest = (_number(column[row], "limits of a signal", name) for column in limits)
        yield _Signal(labels[row], transducers[row], units[row], (low, high, lowest, highest), num_samples, offset)
        offset += num_samples * sample_bytes


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = _header(raw, name)
    data = _data(raw, header)
    if header.reserved.startswith(("EDF+D", "BDF+D")):
        _check_gaps(data, header, name)
    signals, notes = _select_signals(header, name)
    if any(_scale(signal, name)[1].denominator > 1 for signal in signals):
        notes.append("the baseline is rounded to the nearest digital value")
    return recording_from_channels(
        [_channel(data, signal, header.sample_bytes, name) for signal in signals],
        _rate(signals[0].num_samples, header),
        raw,
        name,
        NAME,
        demographics=_demographics(header),
        num_declared_samples=header.records * signals[0].num_samples,
        notes=notes,
    )


def _rate(num_samples: int, header: _Header) -> float:
    """Return the sampling rate in Hz. For example, 2 samples in 0.007812 s, rounded from 0.0078125, mean 256 Hz."""
    exact = Fraction(num_samples) / Fraction(header.seconds)
    last_digit = Fraction(10) ** int(header.seconds.as_tuple().exponent)
    if (
        header.is_rounded
        and round(exact)
        and abs(Fraction(num_samples, round(exact)) - Fraction(header.seconds)) < last_digit
    ):
        return float(round(exact))
    return float(exact)


def _data(raw: bytes, header: _Header) -> npt.NDArray[np.uint8]:
    """Return all data records in the file, shape (records, bytes). The quality gate checks whether some are missing."""
    records = (len(raw) - header.data_offset) // header.record_bytes
    data = np.frombuffer(raw, np.uint8, records * header.record_bytes, header.data_offset)
    return data.reshape(records, header.record_bytes)


def _lead(signal: _Signal) -> str | None:
    """Return the lead of a signal, or None if it is not an ECG."""
    if millivolts(signal.unit) is None or _ANNOTATIONS.match(signal.label) or not signal.num_samples:
        return None
    bare = _ECG.sub("", signal.label).strip()
    if canonical_lead(bare) in STANDARD_LEADS or _LEAD.match(bare):
        return bare
    return "ECG" if _ECG.match(signal.label) else None


def _select_signals(header: _Header, name: str) -> tuple[list[_Signal], list[str]]:
    """Select the ECG signals of the most common sampling rate, the higher one in case of a tie."""
    ecg_signals = [signal for signal in header.signals if _lead(signal)]
    if not ecg_signals:
        raise FormatError(f"{name}: none of its {len(header.signals)} signals has the label of an ECG in V, mV or uV")
    num_signals_by_length = Counter(signal.num_samples for signal in ecg_signals)
    num_samples = max(num_signals_by_length, key=lambda length: (num_signals_by_length[length], length))
    others = sum(not _lead(signal) and not _ANNOTATIONS.match(signal.label) for signal in header.signals)
    notes = [f"left out {others} signals that are not ECG"] if others else []
    if len(ecg_signals) > num_signals_by_length[num_samples]:
        notes.append(f"left out {len(ecg_signals) - num_signals_by_length[num_samples]} ECG signals of other rates")
    return [signal for signal in ecg_signals if signal.num_samples == num_samples], notes


def _scale(signal: _Signal, name: str) -> tuple[Fraction, Fraction]:
    """Return the size of one digital unit, and the digital value of 0."""
    low, high, lowest, highest = map(Fraction, signal.limits)
    if low == high or lowest >= highest:
        raise FormatError(f"{name}: the limits of a signal are invalid")
    resolution = (high - low) / (highest - lowest)
    zero = lowest - low / resolution
    if abs(zero) >= 2**31:
        raise FormatError(f"{name}: the baseline of a signal is out of range")
    return resolution, zero


def _channel(data: npt.NDArray[np.uint8], signal: _Signal, sample_bytes: int, name: str) -> Channel:
    resolution, zero = _scale(signal, name)
    block = data[:, signal.offset : signal.offset + signal.num_samples * sample_bytes].reshape(-1, sample_bytes)
    gain = gain_from_resolution(float(resolution), signal.unit, name)
    is_derived = signal.transducer == DERIVED_LEAD_TEXT
    return Channel(_lead(signal) or "ECG", _samples(block), gain, round(zero), is_derived=is_derived)


def _samples(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.integer[Any]]:
    """Convert bytes of shape (samples, bytes per sample) to samples of shape (samples,)."""
    if block.shape[1] == 2:
        return np.ascontiguousarray(block).view("<i2").reshape(-1)
    wide = np.empty((len(block), 4), np.uint8)
    wide[:, 1:] = block
    wide[:, 0] = 0
    return wide.view("<i4").reshape(-1) >> 8


def _annotations(data: npt.NDArray[np.uint8], header: _Header) -> Iterator[bytes]:
    """Iterate over the bytes of the first annotation signal in each data record."""
    found = next((signal for signal in header.signals if _ANNOTATIONS.match(signal.label)), None)
    if found:
        for record in data[:MAX_ANNOTATED_RECORDS]:
            yield record[found.offset : found.offset + found.num_samples * header.sample_bytes].tobytes()


def _check_gaps(data: npt.NDArray[np.uint8], header: _Header, name: str) -> None:
    """Raise an error for a recording with gaps. A file of type EDF+D without gaps is valid."""
    seen = [_ONSET.match(annotation) for annotation in _annotations(data, header)]
    onsets = [Decimal(match.group(1).decode()) for match in seen if match]
    gaps = any(abs(after - before - header.seconds) > MIN_GAP_SECONDS for before, after in pairwise(onsets))
    if len(onsets) < len(data) or gaps:
        raise FormatError(
            f"{name}: an interrupted recording (EDF+D) is not supported; export each part as a separate file"
        )


def _day(text: str) -> date | None:
    found = _DAY.search(text.upper())
    try:
        return date(int(found.group(3)), MONTHS.index(found.group(2)) + 1, int(found.group(1))) if found else None
    except ValueError:
        return None


def _start(header: _Header) -> datetime | None:
    """Return the start of the recording. Two digits of a year mean 1985 to 2084; EDF+ also states all four."""
    numbers = re.findall(r"\d\d", header.start)
    try:
        day, month, year, hour, minute, second = map(int, numbers)
        found = datetime(year + (1900 if year >= 85 else 2000), month, day, hour, minute, second)
    except ValueError:
        return None
    stated = _day(header.recording) if header.recording.startswith("Startdate") else None
    return datetime.combine(stated, found.time()) if stated else found


def _patient(header: _Header) -> tuple[str, str, str, str]:
    """Return code, sex, date of birth and name as EDF+ stores them. In plain EDF the whole field is the code."""
    fields = header.patient.split()
    if len(fields) >= 4 and fields[1] in ("F", "M", "X") and (fields[2] == "X" or _day(fields[2])):
        return fields[0], fields[1], fields[2], " ".join(fields[3:])
    return header.patient, "X", "X", "X"


def _demographics(header: _Header) -> Demographics:
    _, sex, birth, _ = _patient(header)
    start = _start(header)
    return Demographics(age_at(_day(birth), start.date() if start else None), parse_sex(sex))


def _read_identity(source: Source, name: str) -> Identity:
    raw = source.read(name)
    header = _header(raw, name)
    code, _, birth, patient_name = _patient(header)
    start = _start(header)
    parts = header.recording.split() if header.recording.startswith("Startdate") else []
    order, operator, device = [part if part != "X" else "" for part in (*parts[2:5], "", "", "")[:3]]
    return make_identity(
        patient_id=["" if code == "X" else code],
        patient_name=["" if patient_name == "X" else patient_name],
        birth_date=["" if birth == "X" else birth],
        acquired=[start.isoformat() if start else header.start],
        order=[order],
        operator=[operator],
        device_serial=[device],
        free_text=[*(parts[5:] if parts else [header.recording]), *_annotation_texts(_data(raw, header), header)],
    )


def _annotation_texts(data: npt.NDArray[np.uint8], header: _Header) -> Iterator[str]:
    """Iterate over the texts of annotations. Each list of texts starts with its time."""
    for annotation in _annotations(data, header):
        for texts in annotation.split(b"\0"):
            yield from (text.decode("utf-8", "replace") for text in texts.split(b"\x14")[1:])


EDF = Format(NAME, "EDF, EDF+ and BDF: the ECG signals among those they hold", _matches, _read, _read_identity)
