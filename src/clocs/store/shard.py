"""Shards: Arrow IPC files of several recordings, with all samples in one integer buffer.

Any Arrow reader (pandas, polars, DuckDB) opens them. The column ``values`` holds the samples lead by lead. A physical
value is ``(value - baseline) / gain``. Bytes are compared with their checksums on first use, see
``clocs.store.checksums``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError
from clocs.core.recording import MICROVOLT_GAIN, Digital, Episode, Provenance, Recording, missing_value, to_int32
from clocs.core.stated_measurements import STATED_COLUMNS, from_columns, to_columns
from clocs.store.arrow_files import CheckedArrow, buffer_view, column_view, write_arrow
from clocs.store.checksums import write_checksums

_EPISODE = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())])
SHARDS = "shards"
"""Folder of the shards within a store."""
HASH_BYTES = 16


ACQUIRED: Final = "acquired"
"""Column of the times of recordings. A file without times lacks it."""
Columns = Callable[[Sequence[str]], pa.RecordBatch]
"""Function that returns columns of a file by their names."""


@functools.cache
def schema(dtype: str) -> pa.Schema:
    """Return the columns of a shard with samples of ``int16`` or ``int32``, of which ``acquired`` may be absent."""
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("patient_id", pa.string()),
            ("site", pa.string()),
            ("age", pa.float32()),
            ("sex", pa.string()),
            ("labels", pa.list_(pa.string())),
            ("episodes", pa.list_(_EPISODE)),
            ("sampling_rate", pa.float64()),
            ("num_samples", pa.int64()),
            ("leads", pa.list_(pa.string())),
            ("unit", pa.string()),
            ("gain", pa.list_(pa.float64())),
            ("baseline", pa.list_(pa.int32())),
            ("missing", pa.list_(pa.int64())),
            ("signal_hash", pa.binary(HASH_BYTES)),
            ("lead_hashes", pa.list_(pa.uint64())),
            ("source", pa.string()),
            ("source_sha256", pa.string()),
            ("format", pa.string()),
            ("num_declared_samples", pa.int64()),
            ("notes", pa.list_(pa.string())),
            ("extra", pa.map_(pa.string(), pa.string())),
            (ACQUIRED, pa.timestamp("s")),
            ("values", pa.large_list(pa.int16() if dtype == "int16" else pa.int32())),
        ]
    )


_METADATA = [name for name in schema("int16").names if name not in ("values", "signal_hash", "lead_hashes", "missing")]


def drop_absent_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without the column of times if no row has one."""
    is_absent = batch.column(ACQUIRED).null_count == batch.num_rows
    return batch.drop_columns([ACQUIRED]) if is_absent else batch


def columns_with_times(known: pa.Schema, columns: Columns, names: Sequence[str]) -> pa.RecordBatch:
    """Return columns of a file, and null times of a file without times.

    Args:
        known: Schema of the file.
        columns: Returns columns of the file.
        names: Names of the columns.
    """
    if ACQUIRED not in names or ACQUIRED in known.names:
        return columns(names)
    stored = columns([name for name in names if name != ACQUIRED] or [known.names[0]])
    times = pa.nulls(stored.num_rows, schema("int16").field(ACQUIRED).type)
    return pa.record_batch([times if name == ACQUIRED else stored.column(name) for name in names], list(names))


class ShardInfo(BaseModel):
    """Entry of a shard in the manifest: its file, and the values that all its recordings share.

    A value is None if the recordings differ. Uniform shards are indexed by arithmetic, without reading them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    """Name of the file."""
    sha256: str
    """Hash of the file."""
    bytes: int
    """Size of the file."""
    records: int
    """Number of recordings."""
    dtype: str
    """Type of the samples, ``int16`` or ``int32``."""
    leads: tuple[str, ...] | None
    """Leads in stored order."""
    unit: str | None
    """Unit of the physical values."""
    sampling_rate: float | None
    """Sampling rate in Hz."""
    num_samples: int | None
    """Number of samples per lead."""
    gain: float | None
    """Steps per unit."""
    baseline: int | None
    """Step of the physical value 0."""
    missing: int
    """Number of recordings with missing samples."""
    episodes: bool
    """True if any recording has labelled episodes."""


def signal_hash(recording: Recording) -> bytes | None:
    """Return a hash of sampling rate, leads and samples (to 1 uV); None for a flat signal.

    Flat recordings are not duplicates of each other.
    """
    if (recording.digital == recording.digital[:, :1]).all():
        return None
    digest = hashlib.blake2b(repr(recording.sampling_rate).encode(), digest_size=HASH_BYTES)
    for row in sorted(range(len(recording.leads)), key=lambda row: recording.leads[row]):
        digest.update(recording.leads[row].encode())
        lead = recording.digital[row], recording.gain[row], recording.baseline[row]
        digest.update(_microvolts(*lead, recording.unit).tobytes())
    return digest.digest()


def lead_hashes(recording: Recording) -> list[int]:
    """Return a 64-bit hash of sampling rate and samples (to 1 uV) of each lead; 0 for a flat lead."""
    prefix, found = repr(recording.sampling_rate).encode(), []
    for values, gain, baseline in zip(recording.digital, recording.gain, recording.baseline, strict=True):
        steps = b"" if (values == values[0]).all() else _microvolts(values, gain, baseline, recording.unit).tobytes()
        digest = hashlib.blake2b(prefix + steps, digest_size=HASH_BYTES).digest()
        found.append(int.from_bytes(digest[:8], "little") if steps else 0)
    return found


def _microvolts(values: Digital, gain: float, baseline: int, unit: str) -> npt.NDArray[np.int32]:
    if unit != "mV" or gain == MICROVOLT_GAIN:
        steps = values.astype(np.int32) - baseline
    else:
        limits = np.iinfo(np.int32)
        steps = (
            np.rint((values - float(baseline)) * (MICROVOLT_GAIN / gain)).clip(limits.min, limits.max).astype(np.int32)
        )
    steps[values == missing_value(values.dtype)] = missing_value(np.int32)
    return np.asarray(steps)


def write_shard(path: Path, recordings: Sequence[Recording]) -> ShardInfo:
    """Write recordings as a shard with its checksums, each file atomically. Return its entry in the manifest.

    A part of the shard's hash is appended to its name, so that no two contents have the same name.
    """
    wide = any(recording.digital.dtype == np.int32 for recording in recordings)
    dtype = "int32" if wide else "int16"
    batch = _batch(recordings, dtype)
    written = write_arrow(path, batch, hash_in_name=True)
    write_checksums(path.with_name(written.name), written.sha256, written.checksums)
    gains = {float(gain) for recording in recordings for gain in recording.gain}
    baselines = {int(baseline) for recording in recordings for baseline in recording.baseline}
    return ShardInfo(
        file=written.name,
        sha256=written.sha256,
        bytes=written.num_bytes,
        records=len(recordings),
        dtype=dtype,
        leads=_shared([recording.leads for recording in recordings]),
        unit=_shared([recording.unit for recording in recordings]),
        sampling_rate=_shared([recording.sampling_rate for recording in recordings]),
        num_samples=_shared([recording.num_samples for recording in recordings]),
        gain=_shared(list(gains)),
        baseline=_shared(list(baselines)),
        missing=sum(any(counts) for counts in batch.column("missing").to_pylist()),
        episodes=any(recording.episodes for recording in recordings),
    )


def _shared(values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else None


def _batch(recordings: Sequence[Recording], dtype: str) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema(dtype).names if name != "values"}
    for recording in recordings:
        for name, value in _row(recording).items():
            columns[name].append(value)
    samples = [to_int32(item.digital) if dtype == "int32" else item.digital for item in recordings]
    flat = [values.reshape(-1) for values in samples]
    offsets = np.cumsum([0, *(len(values) for values in flat)], dtype=np.int64)
    values = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(flat)))
    arrays = [pa.array(columns[name], schema(dtype).field(name).type) for name in columns]
    return drop_absent_times(pa.RecordBatch.from_arrays([*arrays, values], schema=schema(dtype)))


def _row(recording: Recording) -> dict[str, Any]:
    absent = recording.digital == missing_value(recording.digital.dtype)
    origin, stated = recording.provenance, to_columns(recording.stated_measurements)
    return {
        "record_id": recording.record_id,
        "patient_id": recording.patient_id,
        "site": recording.site,
        "age": recording.age,
        "sex": recording.sex,
        "labels": recording.labels,
        "episodes": [vars(episode) for episode in recording.episodes],
        "sampling_rate": recording.sampling_rate,
        "num_samples": recording.num_samples,
        "leads": recording.leads,
        "unit": recording.unit,
        "gain": recording.gain,
        "baseline": recording.baseline,
        "missing": np.count_nonzero(absent, axis=1),
        "signal_hash": signal_hash(recording),
        "lead_hashes": lead_hashes(recording),
        "source": origin.source,
        "source_sha256": origin.sha256,
        "format": origin.format,
        "num_declared_samples": origin.num_declared_samples,
        "notes": origin.notes,
        ACQUIRED: recording.acquired,
        "extra": sorted((name, value) for name, value in {**recording.extra, **stated}.items() if value),
    }


class Shard:
    """A shard with views into its memory map. Its file is opened and its bytes are checked on first use.

    Args:
        path: File of the shard.
        info: Entry of the shard in the manifest.
        checked: Chunks that were checked before, see ``CheckedArrow``.
        open_file: Called with a function that opens the file, and the file's size. It may close other files first.
    """

    def __init__(
        self,
        path: Path,
        info: ShardInfo,
        checked: npt.NDArray[np.bool_] | None = None,
        open_file: Callable[[Callable[[], CheckedArrow], int], CheckedArrow] = lambda open_file, num_bytes: open_file(),
    ) -> None:
        self.path, self.info, self._checked, self._open_file = path, info, checked, open_file

    @property
    def is_open(self) -> bool:
        """Return whether the file is mapped into memory."""
        return "_file" in self.__dict__

    @functools.cached_property
    def _file(self) -> CheckedArrow:
        info = self.info
        file = self._open_file(lambda: CheckedArrow(self.path, info.sha256, self._checked, info.bytes), info.bytes)
        full = schema(self.info.dtype)
        without_times = full.remove(full.get_field_index(ACQUIRED))
        if file.num_rows != self.info.records or file.schema not in (full, without_times):
            raise IntegrityError(f"{file.name}: differs from its entry in the manifest. Run 'clocs data verify'.")
        return file

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns after checking all their bytes."""
        return columns_with_times(self._file.schema, self._file.columns, names)

    def column(self, name: str) -> pa.Array:
        """Return a column after checking all its bytes."""
        return self.columns([name]).column(0)

    def check_chunks(self, chunks: npt.NDArray[np.int64]) -> None:
        """Compare unchecked chunks of the file with their checksums."""
        self._file.check_chunks(chunks)

    @functools.cached_property
    def _values(self) -> tuple[npt.NDArray[np.int64], Digital, int]:
        offsets, values, begin = self._file.list_column("values")
        starts = column_view(offsets, np.int64)
        return starts, buffer_view(values, self.info.dtype, int(starts[-1])), begin

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start of each recording's samples, and the end of the last, (recordings + 1,)."""
        return self._values[0]

    @property
    def unchecked_values(self) -> tuple[Digital, int]:
        """Samples of all recordings, and the byte of the file at which they begin.

        Only the gatherer uses them, because it checks the chunks of a batch at once.
        """
        return self._values[1:]

    def digital(self, row: int) -> Digital:
        """Return the samples of a recording, (leads, samples)."""
        offsets, values, begin = self._values
        first, end = int(offsets[row]), int(offsets[row + 1])
        self._file.check_bytes(begin + first * values.itemsize, begin + end * values.itemsize)
        return values[first:end].reshape(-1, int(self.num_samples[row]))

    @functools.cached_property
    def num_samples(self) -> npt.NDArray[np.int64]:
        """Number of samples per lead of each recording, (recordings,)."""
        if self.info.num_samples is not None:
            return np.full(self.info.records, self.info.num_samples)
        return column_view(self.column("num_samples"), np.int64)

    @functools.cached_property
    def sampling_rate(self) -> npt.NDArray[np.float64]:
        """Sampling rate of each recording in Hz, (recordings,)."""
        if self.info.sampling_rate is not None:
            return np.full(self.info.records, self.info.sampling_rate)
        return column_view(self.column("sampling_rate"), np.float64)

    @functools.cached_property
    def leads(self) -> list[tuple[str, ...]]:
        """Stored leads of each recording."""
        if self.info.leads is not None:
            return [self.info.leads] * self.info.records
        return [tuple(leads) for leads in self.column("leads").to_pylist()]

    def lead_values(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return a flattened per-lead column (gain, baseline, missing), and the start of each recording in it."""
        column = self.column(name)
        kind = schema(self.info.dtype).field(name).type.value_type.to_pandas_dtype()
        return column_view(column.values, kind), column_view(column.offsets, np.int32)

    @functools.cached_property
    def _metadata(self) -> pa.RecordBatch:
        """Checked columns of recordings."""
        return self.columns(_METADATA)

    def recording(self, row: int) -> Recording:
        """Read a recording with its stored leads only."""
        data = self._metadata.slice(row, 1).to_pylist()[0]
        extra = dict(data["extra"])
        return Recording(
            digital=self.digital(row),
            gain=np.array(data["gain"], np.float64),
            baseline=np.array(data["baseline"], np.int32),
            sampling_rate=data["sampling_rate"],
            leads=tuple(data["leads"]),
            unit=data["unit"],
            record_id=data["record_id"],
            patient_id=data["patient_id"],
            site=data["site"],
            age=data["age"],
            sex=data["sex"],
            labels=tuple(data["labels"]),
            episodes=tuple(Episode(**episode) for episode in data["episodes"]),
            provenance=Provenance(
                source=data["source"],
                format=data["format"],
                sha256=data["source_sha256"],
                num_declared_samples=data["num_declared_samples"],
                notes=tuple(data["notes"]),
            ),
            stated_measurements=from_columns(extra),
            extra={name: value for name, value in extra.items() if name not in STATED_COLUMNS},
            acquired=data[ACQUIRED],
        )
