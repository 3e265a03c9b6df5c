"""Reader of stores: manifest, shards, tables and recordings. Opening a store reads only its manifest."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import add_derived_leads, derivable_leads
from clocs.store.checksums import CheckedChunks
from clocs.store.extra_columns import common_type, lookup, match_values
from clocs.store.manifest import read_manifest
from clocs.store.open_shards import OpenShards
from clocs.store.segments import COLUMNS, Segment
from clocs.store.shard import SHARDS, Shard, schema
from clocs.store.shard_table import ShardTable

StoreLike = str | os.PathLike[str]
"""Folder of a store, or an open store."""
SKIP_CHECKSUMS = "CLOCS_SKIP_CHECKSUMS"
"""Environment variable. With the value 1, stores are read without checksums."""


class StoreReader:
    """Base class of ``Store`` without frames and splits, which build on it. See ``Store`` for the arguments."""

    def __init__(self, folder: StoreLike, version: int | None = None, *, check: bool | None = None) -> None:
        self.folder = to_location(folder)
        self.manifest = read_manifest(self.folder, version)
        self._check = os.environ.get(SKIP_CHECKSUMS) != "1" if check is None else check
        self.segments = tuple(Segment(self.folder, info, self._check) for info in self.manifest.segments)
        self.shards = ShardTable(self.segments)
        """Entries of the shards, in order."""
        self.open_shards = OpenShards(self._make_shard, isinstance(self.folder, ObjectPath))
        """Shards whose files are mapped into memory."""

    @property
    def sha256(self) -> str:
        """Hash of the content. Any change of a recording or label changes it."""
        return self.manifest.content_sha256

    def __len__(self) -> int:
        return self.manifest.stored

    @functools.cached_property
    def shard_starts(self) -> npt.NDArray[np.int64]:
        """Index of the first recording of each shard, and the number of recordings, (shards + 1,)."""
        return np.concatenate([[0], np.cumsum(self.shards.column("records"))]).astype(np.int64)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as folder and version: another process opens the store itself."""
        return functools.partial(type(self), check=self._check), (self.folder.absolute(), self.manifest.version)

    def __repr__(self) -> str:
        name, version = self.manifest.dataset["name"], self.manifest.version
        return f"<{type(self).__name__} {self.folder} version {version}: {len(self):,} recordings of {name}>"

    @functools.cached_property
    def checked(self) -> CheckedChunks:
        """Flags of the chunks that were compared with their checksums."""
        chunks = CheckedChunks(self.shards.column("bytes"))
        if not self._check:
            chunks.skip()
        return chunks

    def shard(self, number: int) -> Shard:
        """Return a shard by its index. Its file is opened when it is used."""
        return self.open_shards.get(number)

    def _make_shard(self, number: int) -> Shard:
        info = self.shards[number]
        path, checked = self.folder / SHARDS / info.file, self.checked.of_file(number)
        return Shard(path, info, checked, self.open_shards.open_file)

    def check_samples(self, shards: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], num_bytes: int) -> None:
        """Check windows of the shards' files that were not checked before.

        Args:
            shards: Index of each window's shard, (N,).
            begin: First byte of each window in its file, (N,).
            num_bytes: Length of a window in bytes.
        """
        for number, chunks in self.checked.missing(shards, begin, num_bytes):
            self.shard(number).check_chunks(chunks)

    def locate(self, record: int) -> tuple[int, int]:
        """Return shard and row of a recording.

        Args:
            record: Index of the recording.

        Returns:
            Index of the shard, and row in it.
        """
        if not 0 <= record < len(self):
            raise ConfigError(f"Expected a recording index in 0..{len(self) - 1}, got {record}.")
        shard = int(np.searchsorted(self.shard_starts, record, "right")) - 1
        return shard, record - int(self.shard_starts[shard])

    def recording(self, record: int | str) -> Recording:
        """Read a recording, including the leads that follow from I and II.

        Args:
            record: Index or record id.

        Returns:
            The recording.
        """
        shard, row = self.locate(self.index_of(record) if isinstance(record, str) else record)
        return add_derived_leads(self.shard(shard).recording(row))

    def index_of(self, record_id: str) -> int:
        """Return the index of a recording.

        Args:
            record_id: Record id.

        Returns:
            Index of the recording in the store.

        Raises:
            ConfigError: The store has no such record id.
        """
        first = 0
        for segment in self.segments:
            row = segment.find(record_id)
            if row is not None:
                return first + row
            first += segment.info.records
        raise ConfigError(f"{self.folder} has no record '{record_id}'. List the ids: clocs data records {self.folder}")

    def __iter__(self) -> Iterator[Recording]:
        return (self.recording(number) for number in range(len(self)))

    def table(self, columns: str | Sequence[str]) -> pa.Table:
        """Return metadata columns of all recordings, in order, as views into files.

        Args:
            columns: Name of a column, or several. Extra columns have the type of all their values: integers, numbers,
                true or false, or text. Absent values are null.

        Returns:
            Table with one row per recording.

        Raises:
            ConfigError: A column is unknown.
        """
        columns = [columns] if isinstance(columns, str) else list(columns)
        types = {name: schema("int16").field(name).type for name in columns if name in COLUMNS}
        if len(types) < len(set(columns)):
            types |= self.extra_types
        unknown = [name for name in columns if name not in types]
        if unknown:
            extra = f" Extra columns of this store: {', '.join(self.extra_types)}." if self.extra_types else ""
            raise ConfigError(f"Unknown column {', '.join(unknown)}. Columns of a store: {', '.join(COLUMNS)}.{extra}")
        chunks = [
            pa.chunked_array([_segment_column(segment, name, types[name]) for segment in self.segments], types[name])
            for name in columns
        ]
        return pa.table(chunks, columns)

    @functools.cached_property
    def extra_types(self) -> dict[str, pa.DataType]:
        """Type of each extra column over all recordings, by name."""
        names = sorted({name for segment in self.segments for name in segment.extra_types})
        by_name = {name: [segment.extra_types.get(name) for segment in self.segments] for name in names}
        return {name: common_type([kind for kind in types if kind is not None]) for name, types in by_name.items()}

    def where(self, **conditions: Any) -> npt.NDArray[np.bool_]:
        """Return which recordings have these values, as a mask.

        Args:
            **conditions: A value, or several of which one must match, by name of a column. None stands for an absent
                value. A recording matches a column of lists, such as ``labels``, by any of its elements.
                In a column of numbers, ``"60..100"`` stands for numbers from 60 to below 100; an end may be left out.

        Returns:
            Mask over the recordings, (N,) bool. All conditions are met where it is true.

        Raises:
            ConfigError: A column is unknown, or a value is not of its type.

        Example:
            >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
            >>> int(store.where(sex=["female", "male"], sampling_rate=500).sum())
            4
        """
        mask = np.ones(len(self), bool)
        for name, values in conditions.items():
            mask &= match_values(name, self.table(name).column(0), values)
        return mask

    def rows_by_leads(
        self, number: int, records: npt.NDArray[np.bool_] | None = None
    ) -> dict[tuple[str, ...], npt.NDArray[np.int64]]:
        """Return the rows of a shard by their stored leads. The shard is read only if they differ.

        Args:
            number: Index of the shard.
            records: Recordings to use, a mask over the store; by default all.

        Returns:
            Rows of each tuple of leads.
        """
        info, begin = self.shards[number], int(self.shard_starts[number])
        rows = np.arange(info.records) if records is None else np.flatnonzero(records[begin : begin + info.records])
        if info.leads is not None:
            return {info.leads: rows}
        by_leads: dict[tuple[str, ...], list[int]] = {}
        for row in rows.tolist():
            by_leads.setdefault(self.shard(number).leads[row], []).append(row)
        return {leads: np.array(members, np.int64) for leads, members in by_leads.items()}

    def leads(self) -> set[str]:
        """Return the leads that at least one recording stores, or that follow from its leads."""
        layouts = {layout for number in range(len(self.shards)) for layout in self.rows_by_leads(number)}
        return {lead for layout in layouts for lead in (*layout, *derivable_leads(layout))}

    def patient_codes(self) -> tuple[npt.NDArray[np.int64], int]:
        """Return an integer code of each recording's patient, (recordings,), and the number of patients.

        Codes count from 0 in the order of the patients' first recordings.
        """
        return self._patient_codes

    @functools.cached_property
    def _patient_codes(self) -> tuple[npt.NDArray[np.int64], int]:
        hashes = np.concatenate([segment.patient_codes for segment in self.segments] or [np.empty(0, np.uint64)])
        _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        codes = rank[inverse]
        codes.setflags(write=False)
        return codes, len(first)

    def frame_policy(self, name: str) -> FramePolicy:
        """Return a frame policy of the dataset.

        Args:
            name: ``evaluation`` or ``segments``.

        Returns:
            The frame policy.

        Raises:
            ConfigError: The dataset has no such policy.
        """
        policies = self.manifest.dataset["frame_policies"]
        if name not in policies:
            raise ConfigError(f"No frame policy '{name}'. Policies of this store: {', '.join(policies) or 'none'}.")
        return FramePolicy.model_validate(policies[name])


def _segment_column(segment: Segment, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of a segment in the type of the store. An absent extra column is null."""
    own = segment.extra_types.get(name) if name not in COLUMNS else kind
    if own is None:
        return pa.nulls(segment.info.records, kind)
    if own != kind and pa.types.is_string(kind):
        return lookup(segment.columns(["extra"]).column(0), name)
    column = segment.columns([name]).column(0)
    return column if own == kind else column.cast(kind)


def open_reader(folder: StoreLike) -> StoreReader:
    """Open the newest version of a store. An open store is returned unchanged."""
    return folder if isinstance(folder, StoreReader) else StoreReader(folder)
