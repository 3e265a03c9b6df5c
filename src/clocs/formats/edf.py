"""EDF, EDF+ and BDF (24 bits): a text header of fixed places, then data records, in each the samples of every signal.

Read here from bytes: ``pyedflib`` needs a file on disk. The tests hold every value against it and ``edfio``.
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
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import DERIVED_LEAD_TEXT, Channel, gain_from_resolution, millivolts, recording_from_channels
from clocs.formats.demographics import Demographics, age_at, parse_sex
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

NAME: Final = "edf"
FIXED_BYTES: Final = 256
MAX_SIGNALS: Final = 512
WIDTHS: Final = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
"""Of a signal: label, transducer, unit, physical and digital limits, filter, samples a record, reserved."""
SAMPLE_BYTES: Final = {b"0       ": 2, b"\xffBIOSEMI": 3}
"""Bytes a sample, by the first bytes: EDF, BDF."""
MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MAX_EXPONENT: Final = 12
MIN_GAP_SECONDS: Final = Decimal("0.00001")
"""Seconds; less is rounding."""
MAX_ANNOTATED_RECORDS: Final = 300_000
"""Data records whose annotations are looked at: over three days of one a second."""

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
    """In a data record."""
    offset: int
    """First byte in a data record."""


@dataclass(frozen=True)
class _Header:
    patient: str
    recording: str
    start: str
    reserved: str
    records: int
    seconds: Decimal
    """Of a data record."""
    is_rounded: bool
    """Whether its seconds fill their field, and may have lost digits."""
    signals: tuple[_Signal, ...]
    sample_bytes: int
    """Bytes a sample."""
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
        raise FormatError(f"{name}: its {what} is no number") from None
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
        _refuse_gaps(data, header, name)
    signals, notes = _select_signals(header, name)
    if any(_scale(signal, name)[1].denominator > 1 for signal in signals):
        notes.append("zero lies between two steps; the nearer one is taken")
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
    """Hz. 2 samples in 0.007812 s, all that a field holds of 0.0078125, mean 256."""
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
    """(data records, bytes of one), as many as are there: the gate compares with those announced."""
    records = (len(raw) - header.data_offset) // header.record_bytes
    data = np.frombuffer(raw, np.uint8, records * header.record_bytes, header.data_offset)
    return data.reshape(records, header.record_bytes)


def _lead(signal: _Signal) -> str | None:
    """The lead of a signal; None where it is no ECG."""
    if millivolts(signal.unit) is None or _ANNOTATIONS.match(signal.label) or not signal.num_samples:
        return None
    bare = _ECG.sub("", signal.label).strip()
    if canonical_lead(bare) in STANDARD_LEADS or _LEAD.match(bare):
        return bare
    return "ECG" if _ECG.match(signal.label) else None


def _select_signals(header: _Header, name: str) -> tuple[list[_Signal], list[str]]:
    """The ECG signals of one rate: that of most of them, of two the higher."""
    ecg_signals = [signal for signal in header.signals if _lead(signal)]
    if not ecg_signals:
        raise FormatError(f"{name}: none of its {len(header.signals)} signals is an ECG in V, mV or uV by its label")
    num_signals_by_length = Counter(signal.num_samples for signal in ecg_signals)
    num_samples = max(num_signals_by_length, key=lambda each: (num_signals_by_length[each], each))
    others = sum(not _lead(signal) and not _ANNOTATIONS.match(signal.label) for signal in header.signals)
    notes = [f"left out {others} signals that are no ECG"] if others else []
    if len(ecg_signals) > num_signals_by_length[num_samples]:
        notes.append(f"left out {len(ecg_signals) - num_signals_by_length[num_samples]} ECG signals of other rates")
    return [signal for signal in ecg_signals if signal.num_samples == num_samples], notes


def _scale(signal: _Signal, name: str) -> tuple[Fraction, Fraction]:
    """The unit's worth of a step, and the step that means zero."""
    low, high, lowest, highest = map(Fraction, signal.limits)
    if low == high or lowest >= highest:
        raise FormatError(f"{name}: the limits of a signal give no scale")
    step = (high - low) / (highest - lowest)
    zero = lowest - low / step
    if abs(zero) >= 2**31:
        raise FormatError(f"{name}: the zero of a signal lies beyond its steps")
    return step, zero


def _channel(data: npt.NDArray[np.uint8], signal: _Signal, sample_bytes: int, name: str) -> Channel:
    step, zero = _scale(signal, name)
    block = data[:, signal.offset : signal.offset + signal.num_samples * sample_bytes].reshape(-1, sample_bytes)
    gain = gain_from_resolution(float(step), signal.unit, name)
    is_derived = signal.transducer == DERIVED_LEAD_TEXT
    return Channel(_lead(signal) or "ECG", _samples(block), gain, round(zero), is_derived=is_derived)


def _samples(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.integer[Any]]:
    """(samples,) from (samples, bytes of one)."""
    if block.shape[1] == 2:
        return np.ascontiguousarray(block).view("<i2").reshape(-1)
    wide = np.empty((len(block), 4), np.uint8)
    wide[:, 1:] = block
    wide[:, 0] = 0
    return wide.view("<i4").reshape(-1) >> 8


def _annotations(data: npt.NDArray[np.uint8], header: _Header) -> Iterator[bytes]:
    """The bytes of the first annotation signal, data record by data record."""
    found = next((signal for signal in header.signals if _ANNOTATIONS.match(signal.label)), None)
    if found:
        for record in data[:MAX_ANNOTATED_RECORDS]:
            yield record[found.offset : found.offset + found.num_samples * header.sample_bytes].tobytes()


def _refuse_gaps(data: npt.NDArray[np.uint8], header: _Header, name: str) -> None:
    """A recording with interruptions has no single time axis; one that only could have had some is whole."""
    seen = [_ONSET.match(annotation) for annotation in _annotations(data, header)]
    onsets = [Decimal(match.group(1).decode()) for match in seen if match]
    gaps = any(abs(after - before - header.seconds) > MIN_GAP_SECONDS for before, after in pairwise(onsets))
    if len(onsets) < len(data) or gaps:
        raise FormatError(f"{name}: an interrupted recording (EDF+D); export its parts as files of their own")


def _day(text: str) -> date | None:
    found = _DAY.search(text.upper())
    try:
        return date(int(found.group(3)), MONTHS.index(found.group(2)) + 1, int(found.group(1))) if found else None
    except ValueError:
        return None


def _start(header: _Header) -> datetime | None:
    """When it began: EDF's two digits of the year mean 1985 to 2084, EDF+ gives all four."""
    numbers = re.findall(r"\d\d", header.start)
    try:
        day, month, year, hour, minute, second = map(int, numbers)
        found = datetime(year + (1900 if year >= 85 else 2000), month, day, hour, minute, second)
    except ValueError:
        return None
    stated = _day(header.recording) if header.recording.startswith("Startdate") else None
    return datetime.combine(stated, found.time()) if stated else found


def _patient(header: _Header) -> tuple[str, str, str, str]:
    """Code, sex, birth date and name as EDF+ has them; in plain EDF the whole field stands for the code."""
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
    """The texts of annotations; each list of them starts with its time."""
    for annotation in _annotations(data, header):
        for listed in annotation.split(b"\0"):
            yield from (text.decode("utf-8", "replace") for text in listed.split(b"\x14")[1:])


EDF = Format(NAME, "EDF, EDF+ and BDF: the ECG signals among those they hold", _matches, _read, _read_identity)
