"""Read Apple Watch ECGs exported by the Health app: some lines of metadata, then one value per line.

The words depend on the language and the decimal mark on the country. The lines are therefore identified by their
order and form: the device is ``Watch6,1`` or similar, the sampling rate follows it, and the unit is last.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Digital, Recording, quantize, to_int32
from clocs.core.sources.source import Source
from clocs.formats.arrow_columns import float_values
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import Channel, millivolts, recording_from_channels
from clocs.formats.demographics import Demographics, age_at
from clocs.formats.reading import HEAD_BYTES, Format
from clocs.signals.leads import STANDARD_LEADS, canonical_lead

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "apple-watch"
GAIN: Final = 1e6
"""Digital units per millivolt. The resolution is 1 nV, because the files have three decimals of a microvolt."""
MAX_MILLIVOLT: Final = 1000.0
SAMPLING_RATE_RANGE: Final = (400.0, 650.0)
"""Valid sampling rates in Hz. Watches record at about 512 Hz."""
SECONDS: Final = 30
"""Duration of a recording."""
MIN_COMPLETE_SECONDS: Final = 29
"""Duration below which a recording counts as incomplete."""

_DEVICE = re.compile(r'^"?Watch\d+,\d+"?$')
_RATE = re.compile(r'^"?(\d{2,4}(?:[.,]\d+)?)\s*[^\d\s,.][^\d]*"?$')
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d) ?([+-]\d\d):?(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class _Header:
    rows: tuple[str, ...]
    """Values of the lines before the device: name, date of birth, time of recording, then the classification."""
    sampling_rate: float
    """Sampling rate in Hz."""
    lead: str
    """Name of the lead."""
    millivolts: float
    """Size of the file's unit in millivolt."""
    samples_offset: int
    """Offset of the first sample in bytes."""


def _line_values(head: bytes) -> Iterator[tuple[str, int]]:
    """Iterate over the value of each line, and the offset of the next line."""
    start = len(head) - len(head.removeprefix(b"\xef\xbb\xbf"))
    while start < len(head):
        end = head.find(b"\n", start)
        if end < 0:
            return
        line, start = head[start:end].decode("utf-8", "replace").strip(), end + 1
        separator = re.search(r"[,;\t]", line)
        yield (line[separator.end() :].strip() if separator else ""), start


def _header(head: bytes) -> _Header | None:
    """Parse the lines before the samples. Return None if the file has another format."""
    lines = list(_line_values(head))
    values = [value for value, _ in lines]
    device = next((row for row, value in enumerate(values) if _DEVICE.match(value)), None)
    if device is None:
        return None
    unit = next((row for row in range(device + 1, len(values)) if millivolts(values[row].strip('"'))), None)
    rates = [found for value in values[device + 1 : unit] if (found := _RATE.match(value))]
    if unit is None or not rates:
        return None
    leads = [
        word
        for value in values[device + 1 : unit]
        if (word := canonical_lead(value.strip('"').split(" ")[-1])) in STANDARD_LEADS
    ]
    samples_offset = lines[unit][1]
    return _Header(
        rows=tuple(value.strip('"') for value in values[:device]),
        sampling_rate=float(rates[0].group(1).replace(",", ".")),
        lead=leads[0] if leads else "ECG",
        millivolts=millivolts(values[unit].strip('"')) or 0.0,
        samples_offset=samples_offset,
    )


def _matches(head: bytes, source: Source, name: str) -> bool:
    return b"Watch" in head and _header(head) is not None


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = _header(raw[:HEAD_BYTES])
    if header is None:
        raise FormatError(f"{name}: no device, rate and unit before the samples; the file is damaged")
    if not SAMPLING_RATE_RANGE[0] <= header.sampling_rate <= SAMPLING_RATE_RANGE[1]:
        raise FormatError(
            f"{name}: a sampling rate of {header.sampling_rate:g} Hz; an Apple Watch records at about 512"
        )
    digital = _digital_values(raw, header, name)
    is_complete = len(digital) >= MIN_COMPLETE_SECONDS * header.sampling_rate
    return recording_from_channels(
        [Channel(header.lead, digital, GAIN)],
        header.sampling_rate,
        raw,
        name,
        NAME,
        demographics=Demographics(age=age_at(_birth(header), _recorded(header))),
        num_declared_samples=None if is_complete else round(SECONDS * header.sampling_rate),
    )


def _digital_values(raw: bytes, header: _Header, name: str) -> Digital:
    """Read the samples, shape (samples,), in batches to limit memory."""
    import pyarrow as pa

    try:
        blocks = [_quantize_batch(batch, header, name) for batch in _batches(raw[header.samples_offset :])]
    except pa.ArrowException:
        raise FormatError(f"{name}: expected one number per line after the unit") from None
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    return np.concatenate([np.empty(0, np.int16), *blocks])


def _batches(text: bytes) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    if not text.strip():
        return
    yield from csv.open_csv(
        io.BytesIO(text),
        read_options=csv.ReadOptions(column_names=["value"], use_threads=False),
        parse_options=csv.ParseOptions(delimiter="\t"),
        convert_options=csv.ConvertOptions(
            column_types={"value": pa.float64()}, null_values=[], decimal_point="," if b"," in text else "."
        ),
    )


def _quantize_batch(batch: pa.RecordBatch, header: _Header, name: str) -> Digital:
    values = float_values(batch)[0] * header.millivolts
    if not np.all(np.abs(values) <= MAX_MILLIVOLT):
        raise FormatError(f"{name}: holds values over {MAX_MILLIVOLT:g} mV; the file is damaged")
    return quantize(values, GAIN)


def _recorded(header: _Header) -> date | None:
    found = next((match for row in header.rows if (match := _DATETIME.search(row))), None)
    try:
        return date.fromisoformat(found.group(1)) if found else None
    except ValueError:
        return None


def _birth(header: _Header) -> date | None:
    """Parse the date of birth if its form is unambiguous: 1980-12-31, 31.12.1980, Dec 31, 1980 or 31 Dec 1980."""
    text = header.rows[1].lower() if len(header.rows) > 1 else ""
    numbers = [int(number) for number in re.findall(r"(?<!\d)\d{1,4}(?!\d)", text)]
    months = [number + 1 for number, month in enumerate(_MONTHS) if re.search(rf"\b{month}", text)]
    if len(months) == 1 and len(numbers) == 2:
        numbers = [max(numbers), months[0], min(numbers)]
    elif re.fullmatch(r"\d{1,2}\.\s?\d{1,2}\.\s?\d{4}", text.strip()):
        numbers.reverse()
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()):
        return None
    try:
        return date(*numbers)
    except (ValueError, TypeError):
        return None


def _read_identity(source: Source, name: str) -> Identity:
    header = _header(source.head(name, HEAD_BYTES))
    if header is None:
        raise FormatError(f"{name}: no device, rate and unit before the samples; the file is damaged")
    patient_name, birth, *others = (*header.rows, "", "")
    return make_identity(
        patient_name=[patient_name],
        birth_date=[birth],
        acquired=[_iso(row) for row in others if _DATETIME.search(row)],
        free_text=[row for row in others if not _DATETIME.search(row) and not re.fullmatch(r"[\d.]*", row)],
    )


def _iso(text: str) -> str:
    found = _DATETIME.search(text)
    try:
        return datetime.fromisoformat("{}T{}{}:{}".format(*found.groups())).isoformat() if found else text
    except ValueError:
        return text


APPLE_WATCH = Format(NAME, "Apple Watch ECG, the Health app's CSV export", _matches, _read, _read_identity)
