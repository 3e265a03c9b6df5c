"""The CSV that clocs writes: ``#`` lines of what is known, a line of names, then a row a sample.

Only the first line and the rate are needed, so it is also the plainest way into clocs for what no other format
here holds. Without a unit, values are millivolt; without gains, they are taken in steps of 1 uV. Where a column of
times is there, it must fit the rate.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.csv_cells import unescape_cell
from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import (
    MICROVOLT_GAIN,
    Digital,
    Episode,
    Provenance,
    Recording,
    missing_value,
    to_int16,
    to_int32,
)
from clocs.core.sources import Source
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import (
    GAIN_RANGE,
    MAX_CHANNELS,
    MAX_LEAD_NAME,
    MAX_SAMPLES,
    SAMPLING_RATE_RANGE,
    millivolts,
    record_id_from_name,
)
from clocs.formats.demographics import parse_age, parse_sex
from clocs.formats.reading import Format
from clocs.signals.leads import LEAD_EQUATIONS, canonical_lead, computed_leads

NAME: Final = "clocs-csv"
MAGIC: Final = "# clocs ECG 2"
TIME: Final = "time"
KEYS: Final = (
    "sampling_rate",
    "num_samples",
    "unit",
    "gain",
    "baseline",
    "patient",
    "age",
    "sex",
    "labels",
    "episodes",
    "derived",
)
MAX_TIME_ERROR: Final = 0.01
"""Between the times of the first and the last sample and what the rate says: this part of it, and one sample."""
MAX_HEADER_BYTES: Final = 1 << 20
"""Bytes before the samples."""


@dataclass(frozen=True)
class _Header:
    names: list[str]
    """Columns, the time too where there is one."""
    sampling_rate: float
    gain: npt.NDArray[np.float64]
    """(leads,), steps per mV, or per adu."""
    baseline: npt.NDArray[np.int32]
    unit: Literal["mV", "adu"]
    unit_factor: float
    """Of a written 1, in mV or adu."""
    fields: dict[str, Any]
    data_offset: int
    """Where the samples begin."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head.split(b"\n", 1)[0].rstrip() == MAGIC.encode()


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = _parse_header(raw, name)
    leads = tuple(canonical_lead(lead[:MAX_LEAD_NAME]) or "ECG" for lead in _leads(header.names))
    if len(set(leads)) < len(leads):
        raise FormatError(f"{name}: a lead is named twice")
    return Recording(
        digital=_digital(raw, header, name),
        gain=header.gain,
        baseline=header.baseline,
        sampling_rate=header.sampling_rate,
        leads=leads,
        unit=header.unit,
        record_id=record_id_from_name(name),
        age=parse_age(header.fields.get("age")),
        sex=parse_sex(header.fields.get("sex")),
        labels=_text_list("labels", header, name),
        episodes=tuple(_episodes(header.fields.get("episodes", []), name)),
        provenance=Provenance(
            name,
            NAME,
            hashlib.sha256(raw).hexdigest(),
            num_declared_samples=_declared_samples(raw, header, name),
            derived_leads=_derived(header, leads, name),
        ),
    )


def _read_identity(source: Source, name: str) -> Identity:
    raw = source.read(name)
    fields, end = _parse_fields(raw, name)
    lines = [line[1:].strip() for line in raw[:end].decode("utf-8", "replace").splitlines()[1:]]
    typed = [line for line in lines if line.partition(":")[0].strip() not in KEYS]
    return make_identity(patient_id=[str(fields.get("patient", ""))], free_text=typed)


def _leads(names: list[str]) -> list[str]:
    return names[1:] if names[0].strip().lower() == TIME else names


def _parse_header(raw: bytes, name: str) -> _Header:
    fields, end = _parse_fields(raw, name)
    last = raw.find(b"\n", end, MAX_HEADER_BYTES)
    line = raw[end:last].decode("utf-8", "replace") if last >= 0 else ""
    try:
        names = [unescape_cell(cell) for cell in next(csv.reader([line]), [])]
        count = len(_leads(names)) if names else 0
        sampling_rate = float(fields.get("sampling_rate", 0))
        unit, unit_factor = _unit(fields, name)
        gain = (
            np.array(fields["gain"], np.float64) / unit_factor if "gain" in fields else np.full(count, MICROVOLT_GAIN)
        )
        baseline = np.array(fields.get("baseline", [0] * count), np.int32)
    except (ValueError, TypeError, OverflowError, csv.Error):
        raise FormatError(f"{name}: its names, rate, gains or baselines cannot be read") from None
    if not 1 <= count <= MAX_CHANNELS or not gain.shape == baseline.shape == (count,):
        raise FormatError(f"{name}: {count} leads with {gain.size} gains and {baseline.size} baselines")
    if (
        not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]
        or not ((np.abs(gain) >= GAIN_RANGE[0]) & (np.abs(gain) <= GAIN_RANGE[1])).all()
    ):
        raise FormatError(
            f"{name}: its rate or a gain is out of range; a line '# sampling_rate: 500' gives the rate in Hz"
        )
    return _Header(names, sampling_rate, gain, baseline, unit, unit_factor, fields, last + 1)


def _unit(fields: dict[str, Any], name: str) -> tuple[Literal["mV", "adu"], float]:
    """What values are in, and how much of it a written 1 is."""
    written = fields.get("unit", "mV")
    if written == "adu":
        return "adu", 1.0
    unit_factor = millivolts(written) if isinstance(written, str) else None
    if unit_factor is None:
        raise FormatError(f"{name}: its unit is none of V, mV, uV, nV and adu; a line '# unit: \"mV\"' gives it")
    return "mV", unit_factor


def _parse_fields(raw: bytes, name: str) -> tuple[dict[str, Any], int]:
    """What the ``# key: JSON`` lines say, and where they end."""
    fields: dict[str, Any] = {}
    end = 0
    while raw.startswith(b"#", end):
        last = raw.find(b"\n", end, MAX_HEADER_BYTES)
        if last < 0:
            raise FormatError(f"{name}: its '#' lines have no end")
        key, _, value = raw[end + 1 : last].decode("utf-8", "replace").partition(":")
        if value:
            try:
                fields[key.strip()] = json.loads(value)
                # JSON can spell half a character, which nothing can store
                json.dumps(fields[key.strip()], ensure_ascii=False).encode()
            except (ValueError, RecursionError) as error:
                what = f"'{key.strip()}'" if key.strip() in KEYS else "a '#' line"
                raise FormatError(f"{name}: what {what} says is no JSON of whole characters") from error
        end = last + 1
    return fields, end


def _declared_samples(raw: bytes, header: _Header, name: str) -> int | None:
    """How many samples the head says there are; a file that says so also ends its last row."""
    num_samples = header.fields.get("num_samples")
    if not isinstance(num_samples, int) or not 0 < num_samples <= MAX_SAMPLES:
        return None
    if not raw.endswith(b"\n"):
        raise FormatError(f"{name}: breaks off inside its last row")
    return num_samples


def _text_list(key: str, header: _Header, name: str) -> tuple[str, ...]:
    given = header.fields.get(key, [])
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise FormatError(f"{name}: {key} are a list of texts")
    return tuple(given)


def _derived(header: _Header, leads: tuple[str, ...], name: str) -> tuple[str, ...]:
    named = _text_list("derived", header, name)
    if not {canonical_lead(lead) for lead in named} <= set(LEAD_EQUATIONS):
        raise FormatError(f"{name}: 'derived' lists leads that follow from I and II: {', '.join(LEAD_EQUATIONS)}")
    return computed_leads(named, leads)


def _episodes(given: Any, name: str) -> Iterator[Episode]:
    if not isinstance(given, list):
        raise FormatError(f"{name}: episodes are a list of [start, end, label]")
    for one in given:
        match one:
            case [int(start), int(end), str(label)] if 0 <= start <= end <= MAX_SAMPLES:
                yield Episode(start, end, label)
            case _:
                raise FormatError(f"{name}: an episode is [start, end, label], in samples")


def _digital(raw: bytes, header: _Header, name: str) -> Digital:
    """(leads, samples), missing where a field is empty or NaN."""
    import pyarrow as pa

    times: list[float] = []
    try:
        blocks = [_digital_batch(batch, header, times, name) for batch in _batches(raw, header)]
    except pa.ArrowException:  # it quotes the row
        raise FormatError(f"{name}: no samples, or not {len(header.names)} numbers a row") from None
    num_samples = sum(block.shape[1] for block in blocks)
    if not num_samples:
        raise FormatError(f"{name}: holds no sample")
    expected = (num_samples - 1) / header.sampling_rate
    if times and not abs(times[-1] - times[0] - expected) <= MAX_TIME_ERROR * expected + 1 / header.sampling_rate:
        raise FormatError(f"{name}: its times are not those of {num_samples} samples at {header.sampling_rate:g} Hz")
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    return np.concatenate(blocks, axis=1)


def _batches(raw: bytes, header: _Header) -> Iterator[Any]:
    """Some rows at a time: as text a zero takes two bytes, as a number eight."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    columns = [str(number) for number in range(len(header.names))]
    yield from open_csv(
        pa.BufferReader(pa.py_buffer(raw).slice(header.data_offset)),
        read_options=ReadOptions(column_names=columns, use_threads=False),
        parse_options=ParseOptions(quote_char=False),
        convert_options=ConvertOptions(
            column_types=dict.fromkeys(columns, pa.float64()), null_values=["NaN", "nan", ""]
        ),
    )


def _digital_batch(batch: Any, header: _Header, times: list[float], name: str) -> Digital:
    """(leads, rows of a batch); where there is a column of times, the first and the last are added to ``times``."""
    columns = batch.columns[len(header.names) - len(header.gain) :]
    if len(columns) < len(header.names) and len(batch):
        ends = (batch.columns[0][0].as_py(), batch.columns[0][-1].as_py())
        times += [float("nan") if time is None else time for time in ends]
    digital: Digital = np.empty((len(columns), len(batch)), np.int32)
    peak = 0.0
    for row, column, gain, zero in zip(digital, columns, header.gain, header.baseline, strict=True):
        with np.errstate(over="ignore"):
            steps = np.rint(column.to_numpy(zero_copy_only=False) * (gain * header.unit_factor) + zero)
        missing = np.isnan(steps)
        steps[missing] = 0
        peak = max(peak, float(np.abs(steps).max(initial=0)))
        if not peak <= np.iinfo(np.int32).max:
            raise FormatError(f"{name}: holds values that do not fit 32 bits; the file is damaged")
        row[:] = steps
        row[missing] = missing_value(np.int32)
    return to_int16(digital) if peak <= np.iinfo(np.int16).max else digital


CLOCS_CSV = Format(NAME, "the CSV that clocs writes", _matches, _read, _read_identity)
