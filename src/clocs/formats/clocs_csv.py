"""The CSV that clocs writes: ``#`` lines of what is known, a line of names, then a row a sample.

Only the first line and the rate are needed, so it is also the plainest way into clocs for what no other format
here holds. Without gains, values are taken in steps of 1 uV.
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

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import MICROVOLT_GAIN, Digital, Episode, Provenance, Recording, missing_value, widen
from clocs.core.sources import Source
from clocs.formats.byte_fields import gathered
from clocs.formats.channels import GAINS, MAX_CHANNELS, MAX_LEAD_NAME, MAX_SAMPLES, RATES
from clocs.formats.demographics import age_of
from clocs.formats.reading import Format
from clocs.signals.leads import canonical

NAME: Final = "clocs-csv"
MAGIC: Final = "# clocs ECG 1"
TIME: Final = "time"
MAX_HEAD: Final = 1 << 20
"""Bytes before the samples."""


@dataclass(frozen=True)
class _Head:
    names: list[str]
    """Columns, the time too where there is one."""
    rate: float
    gain: npt.NDArray[np.float64]
    """(leads,), steps per unit."""
    baseline: npt.NDArray[np.int32]
    unit: Literal["mV", "adu"]
    known: dict[str, Any]
    end: int
    """Where the samples begin."""


def _recognises(head: bytes, source: Source, name: str) -> bool:
    return head.split(b"\n", 1)[0].rstrip() == MAGIC.encode()


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    head = _head(raw, name)
    leads = tuple(canonical(lead[:MAX_LEAD_NAME]) or "ECG" for lead in _leads(head.names))
    if len(set(leads)) < len(leads):
        raise FormatError(f"{name}: a lead is named twice")
    sex = head.known.get("sex")
    return Recording(
        digital=_digital(raw, head, name),
        gain=head.gain,
        baseline=head.baseline,
        rate=head.rate,
        leads=leads,
        unit=head.unit,
        record_id=name.rsplit("/", 1)[-1].removesuffix(".csv"),
        age=age_of(str(head.known.get("age", ""))),
        sex="female" if sex == "female" else "male" if sex == "male" else None,
        labels=_labels(head.known.get("labels", []), name),
        episodes=tuple(_episodes(head.known.get("episodes", []), name)),
        provenance=Provenance(name, NAME, hashlib.sha256(raw).hexdigest()),
    )


def _identify(source: Source, name: str) -> Identity:
    known, _ = _known(source.read(name), name)
    return gathered(patient_id=[str(known.get("patient", ""))])


def _leads(names: list[str]) -> list[str]:
    return names[1:] if names[0] == TIME else names


def _head(raw: bytes, name: str) -> _Head:
    known, end = _known(raw, name)
    last = raw.find(b"\n", end, MAX_HEAD)
    line = raw[end:last].decode("utf-8", "replace") if last >= 0 else ""
    try:
        names = next(csv.reader([line]), [])
        count = len(_leads(names)) if names else 0
        rate = float(known.get("rate", 0))
        gain = np.array(known.get("gain", [MICROVOLT_GAIN] * count), np.float64)
        baseline = np.array(known.get("baseline", [0] * count), np.int32)
    except (ValueError, TypeError, OverflowError, csv.Error) as error:
        raise FormatError(f"{name}: its names, rate, gains or baselines cannot be read: {error}") from error
    if not 1 <= count <= MAX_CHANNELS or not gain.shape == baseline.shape == (count,):
        raise FormatError(f"{name}: {count} leads with {gain.size} gains and {baseline.size} baselines")
    if not RATES[0] <= rate <= RATES[1] or not ((np.abs(gain) >= GAINS[0]) & (np.abs(gain) <= GAINS[1])).all():
        raise FormatError(f"{name}: its rate or a gain is out of range; a line '# rate: 500' gives the rate in Hz")
    unit: Literal["mV", "adu"] = "adu" if known.get("unit") == "adu" else "mV"
    return _Head(names, rate, gain, baseline, unit, known, last + 1)


def _known(raw: bytes, name: str) -> tuple[dict[str, Any], int]:
    """What the ``# key: JSON`` lines say, and where they end."""
    known: dict[str, Any] = {}
    end = 0
    while raw.startswith(b"#", end):
        last = raw.find(b"\n", end, MAX_HEAD)
        if last < 0:
            raise FormatError(f"{name}: its '#' lines have no end")
        key, _, value = raw[end + 1 : last].decode("utf-8", "replace").partition(":")
        if value:
            try:
                known[key.strip()] = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{name}: what '{key.strip()[:40]}' says is no JSON") from error
        end = last + 1
    return known, end


def _labels(given: Any, name: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        raise FormatError(f"{name}: labels are a list of texts")
    return tuple(given)


def _episodes(given: Any, name: str) -> Iterator[Episode]:
    if not isinstance(given, list):
        raise FormatError(f"{name}: episodes are a list of [start, end, label]")
    for one in given:
        match one:
            case [int(start), int(end), str(label)] if 0 <= start <= end <= MAX_SAMPLES:
                yield Episode(start, end, label)
            case _:
                raise FormatError(f"{name}: an episode is [start, end, label], in samples")


def _digital(raw: bytes, head: _Head, name: str) -> Digital:
    """(leads, samples), missing where a field is empty or NaN."""
    import pyarrow as pa

    try:
        blocks = [_steps(batch, head, name) for batch in _batches(raw, head)]
    except pa.ArrowException as error:
        raise FormatError(f"{name}: not {len(head.names)} numbers a row: {str(error)[:200]}") from error
    if not sum(block.shape[1] for block in blocks):
        raise FormatError(f"{name}: holds no sample")
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [widen(block) for block in blocks]
    return np.concatenate(blocks, axis=1)


def _batches(raw: bytes, head: _Head) -> Iterator[Any]:
    """Some rows at a time: as text a zero takes two bytes, as a number eight."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    columns = [str(number) for number in range(len(head.names))]
    yield from open_csv(
        pa.BufferReader(pa.py_buffer(raw).slice(head.end)),
        read_options=ReadOptions(column_names=columns, use_threads=False),
        parse_options=ParseOptions(quote_char=False),
        convert_options=ConvertOptions(
            column_types=dict.fromkeys(columns, pa.float64()), null_values=["NaN", "nan", ""]
        ),
    )


def _steps(batch: Any, head: _Head, name: str) -> Digital:
    columns = batch.columns[len(head.names) - len(head.gain) :]
    values = np.stack([column.to_numpy(zero_copy_only=False) for column in columns])
    steps = np.rint(values * head.gain[:, None] + head.baseline[:, None])
    absent = np.isnan(steps)
    steps[absent] = 0
    peak = np.abs(steps).max(initial=0)
    if not peak <= np.iinfo(np.int32).max:
        raise FormatError(f"{name}: holds values that do not fit 32 bits; the file is damaged")
    digital: Digital = steps.astype(np.int16 if peak <= np.iinfo(np.int16).max else np.int32)
    digital[absent] = missing_value(digital.dtype)
    return digital


CLOCS_CSV = Format(NAME, "the CSV that clocs writes", _recognises, _read, _identify)
