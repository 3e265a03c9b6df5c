"""Read the CSV that clocs writes: ``#`` lines with metadata, a line of column names, then one row per sample.

Only the first line and the sampling rate are required, so this is the simplest format for data of other sources.
Without a unit, values are in millivolt. Without gains, values are stored with a resolution of 1 uV. A column of times
must agree with the sampling rate.
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
from clocs.core.privacy.identity import Identity
from clocs.core.recording import (
    MICROVOLT_GAIN,
    Digital,
    Episode,
    Provenance,
    Recording,
    quantize,
    to_int32,
)
from clocs.core.sources.source import Source
from clocs.formats.arrow_columns import read_rows
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
"""Maximum relative difference between the column of times and the sampling rate, in addition to one sample."""
MAX_HEADER_BYTES: Final = 1 << 20
"""Maximum number of bytes before the samples."""


@dataclass(frozen=True)
class _Header:
    names: list[str]
    """Names of the columns, including the time."""
    sampling_rate: float
    """Sampling rate in Hz."""
    gain: npt.NDArray[np.float64]
    """Digital units per mV or adu, shape (leads,)."""
    baseline: npt.NDArray[np.int32]
    """Digital value of 0, shape (leads,)."""
    unit: Literal["mV", "adu"]
    """Unit of the recording."""
    unit_factor: float
    """Size of the file's unit in mV or adu."""
    fields: dict[str, Any]
    """Metadata by key."""
    data_offset: int
    """Offset of the first sample in bytes."""


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
    free_text = [line for line in lines if line.partition(":")[0].strip() not in KEYS]
    return make_identity(patient_id=[str(fields.get("patient", ""))], free_text=free_text)


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
        raise FormatError(f"{name}: its lead names, sampling rate, gains or baselines cannot be read") from None
    if not 1 <= count <= MAX_CHANNELS or not gain.shape == baseline.shape == (count,):
        raise FormatError(f"{name}: {count} leads with {gain.size} gains and {baseline.size} baselines")
    if (
        not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]
        or not ((np.abs(gain) >= GAIN_RANGE[0]) & (np.abs(gain) <= GAIN_RANGE[1])).all()
    ):
        raise FormatError(
            f"{name}: its sampling rate or a gain is out of range; state the rate in Hz by '# sampling_rate: 500'"
        )
    return _Header(names, sampling_rate, gain, baseline, unit, unit_factor, fields, last + 1)


def _unit(fields: dict[str, Any], name: str) -> tuple[Literal["mV", "adu"], float]:
    """Return the unit of the recording, and the size of the file's unit in it."""
    unit = fields.get("unit", "mV")
    if unit == "adu":
        return "adu", 1.0
    unit_factor = millivolts(unit) if isinstance(unit, str) else None
    if unit_factor is None:
        raise FormatError(f"{name}: its unit is not V, mV, uV, nV or adu; state it by a line '# unit: \"mV\"'")
    return "mV", unit_factor


def _parse_fields(raw: bytes, name: str) -> tuple[dict[str, Any], int]:
    """Parse the ``# key: JSON`` lines. Return their values, and the offset of their end."""
    fields: dict[str, Any] = {}
    end = 0
    while raw.startswith(b"#", end):
        last = raw.find(b"\n", end, MAX_HEADER_BYTES)
        if last < 0:
            raise FormatError(f"{name}: its '#' lines do not end")
        key, _, value = raw[end + 1 : last].decode("utf-8", "replace").partition(":")
        if value:
            try:
                fields[key.strip()] = json.loads(value)
                if "\\u" in value:  # Escapes may be lone surrogates, which cannot be stored.
                    json.dumps(fields[key.strip()], ensure_ascii=False).encode()
            except (ValueError, RecursionError) as error:
                line = f"'{key.strip()}'" if key.strip() in KEYS else "a '#' line"
                raise FormatError(f"{name}: the value of {line} is not valid JSON") from error
        end = last + 1
    return fields, end


def _declared_samples(raw: bytes, header: _Header, name: str) -> int | None:
    """Return the declared number of samples. A file that declares it must also end its last row."""
    num_samples = header.fields.get("num_samples")
    if not isinstance(num_samples, int) or not 0 < num_samples <= MAX_SAMPLES:
        return None
    if not raw.endswith(b"\n"):
        raise FormatError(f"{name}: breaks off inside its last row")
    return num_samples


def _text_list(key: str, header: _Header, name: str) -> tuple[str, ...]:
    texts = header.fields.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise FormatError(f"{name}: {key}: expected a list of texts")
    return tuple(texts)


def _derived(header: _Header, leads: tuple[str, ...], name: str) -> tuple[str, ...]:
    named = _text_list("derived", header, name)
    if not {canonical_lead(lead) for lead in named} <= set(LEAD_EQUATIONS):
        raise FormatError(
            f"{name}: 'derived' may only list leads that follow from I and II: {', '.join(LEAD_EQUATIONS)}"
        )
    return computed_leads(named, leads)


def _episodes(items: Any, name: str) -> Iterator[Episode]:
    if not isinstance(items, list):
        raise FormatError(f"{name}: expected episodes as a list of [start, end, label]")
    for item in items:
        match item:
            case [int(start), int(end), str(label)] if 0 <= start <= end <= MAX_SAMPLES:
                yield Episode(start, end, label)
            case _:
                raise FormatError(f"{name}: expected an episode as [start, end, label], in samples")


def _digital(raw: bytes, header: _Header, name: str) -> Digital:
    """Parse the digital values, shape (leads, samples). Empty and NaN fields are missing samples."""
    import pyarrow as pa

    times: list[float] = []
    try:
        rows = read_rows(raw, len(header.names), header.data_offset)
        blocks = [_digital_block(block, header, times, name) for block in rows]
    except pa.ArrowException:  # Its message quotes the row.
        raise FormatError(f"{name}: expected rows of {len(header.names)} numbers") from None
    num_samples = sum(block.shape[1] for block in blocks)
    if not num_samples:
        raise FormatError(f"{name}: holds no sample")
    expected = (num_samples - 1) / header.sampling_rate
    if times and not abs(times[-1] - times[0] - expected) <= MAX_TIME_ERROR * expected + 1 / header.sampling_rate:
        raise FormatError(f"{name}: its times do not agree with {num_samples} samples at {header.sampling_rate:g} Hz")
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    return np.concatenate(blocks, axis=1)


def _digital_block(rows: npt.NDArray[np.float64], header: _Header, times: list[float], name: str) -> Digital:
    """Convert rows to digital values, shape (leads, rows). Append their first and last time to ``times``."""
    count = len(header.gain)
    if count < len(rows) and rows.size:
        times += [float(rows[0, 0]), float(rows[0, -1])]
    with np.errstate(over="ignore"):
        values = rows[-count:] * (header.gain * header.unit_factor)[:, None]
        values += header.baseline[:, None]
    try:
        if not np.isinf(values).any():
            return quantize(values, 1.0, overwrite=True)
    except ValueError:
        pass
    raise FormatError(f"{name}: holds values that do not fit 32 bits; the file is damaged")


CLOCS_CSV = Format(NAME, "the CSV that clocs writes", _matches, _read, _read_identity)
