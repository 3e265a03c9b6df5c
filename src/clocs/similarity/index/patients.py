"""Patient rows: pooling of recordings by patient.

A patient's vector is the mean of the unit vectors of the recordings, scaled to unit length. Pooled rows are recordings
of an archive, or patients of an index together with new recordings. All operations work on whole columns, because an
index may have a hundred million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.similarity.archive.archive import STORE_COLUMNS, Archive, lead_column, patient_ids
from clocs.similarity.segments import Ints, Vectors, unit_length

RECORDING: Final = pa.struct([("record_id", pa.large_string()), ("archive", pa.int32()), ("row", pa.int64())])
EXTRA_VALUE: Final = pa.struct([("name", pa.large_string()), ("value", pa.large_string())])
SCHEMA: Final = pa.schema(
    [
        ("patient_id", pa.large_string()),
        ("site", pa.large_string()),
        ("age", pa.float32()),
        ("sex", pa.large_string()),
        ("labels", pa.large_list(pa.large_string())),
        ("extra", pa.large_list(EXTRA_VALUE)),
        ("leads", pa.large_list(pa.large_string())),
        ("recordings", pa.large_list(RECORDING)),
        ("coherence", pa.float32()),
    ]
)
"""Columns of a volume. ``site`` and ``sex`` are the first known values, ``age`` is the highest, ``labels``,
``extra`` and ``leads`` are those of all recordings, sorted and without repetition; leads are those with their own
vectors. ``recordings`` holds their positions.
``coherence`` is the length of the mean vector, 1 if all recordings have the same direction."""
PATIENTS_PER_BLOCK: Final = 8192
"""Patients per block of vectors."""


@dataclass(frozen=True, eq=False)
class PatientRows:
    """Rows to be pooled by patient."""

    table: pa.Table
    """Table with the columns of ``SCHEMA``."""
    sums: Callable[[Ints], Vectors]
    """Function from row numbers (n,) to the sum of the unit vectors of each row's recordings, shape (n, E)."""


@dataclass(frozen=True, eq=False)
class PooledPatients:
    """Rows pooled by patient."""

    table: pa.Table
    """Table with the columns of ``SCHEMA`` except ``coherence``, patients in order of appearance."""
    parts: Sequence[PatientRows]
    order: Ints
    """Rows numbered over all parts, sorted by patient."""
    starts: Ints
    """Start of each patient's rows in ``order``, shape (patients + 1,)."""

    def vectors(self) -> Iterator[tuple[Vectors, Vectors]]:
        """Iterate over blocks of unit vectors (n, E) and coherences (n,)."""
        counts = pc.list_value_length(self.table.column("recordings")).to_numpy()
        for begin in range(0, self.table.num_rows, PATIENTS_PER_BLOCK):
            end = min(begin + PATIENTS_PER_BLOCK, self.table.num_rows)
            first, last = self.starts[begin], self.starts[end]
            sums = np.add.reduceat(self._sums(self.order[first:last]), self.starts[begin:end] - first, axis=0)
            yield unit_length(sums), np.linalg.norm(sums, axis=1) / counts[begin:end].astype(np.float32)

    def _sums(self, rows: Ints) -> Vectors:
        """Return vector sums (n, E) of rows that are numbered over all parts."""
        bounds = np.cumsum([0, *(part.table.num_rows for part in self.parts)])
        found: list[Vectors] = []
        positions: list[Ints] = []
        for part, low, high in zip(self.parts, bounds, bounds[1:], strict=False):
            here = np.flatnonzero((rows >= low) & (rows < high))
            if len(here):
                found.append(part.sums(rows[here] - low))
                positions.append(here)
        if len(found) == 1:
            return found[0]
        joined = np.empty((len(rows), found[0].shape[1]), np.float32)
        joined[np.concatenate(positions)] = np.concatenate(found)
        return joined


def archive_rows(archive: Archive, number: int, rows: Ints) -> PatientRows:
    """Return recordings of an archive by their ascending rows; ``number`` is the archive's number in the index."""
    known = archive.table(STORE_COLUMNS, int(rows[0]), int(rows[-1]) + 1)
    if len(rows) != known.num_rows:
        known = known.take(pa.array(rows - rows[0]))
    columns = {name: known.column(name).combine_chunks() for name in STORE_COLUMNS}
    record = columns["record_id"].cast(pa.large_string())
    archives = pa.array(np.full(len(rows), number, np.int32))
    recordings = pa.StructArray.from_arrays([record, archives, pa.array(rows)], fields=list(RECORDING))
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int64))
    table = pa.table(
        [
            patient_ids(known),
            columns["site"].cast(pa.large_string()),
            columns["age"],
            columns["sex"].cast(pa.large_string()),
            columns["labels"].cast(pa.large_list(pa.large_string())),
            _extra_values(columns["extra"]),
            _embedded_leads(archive, rows),
            pa.LargeListArray.from_arrays(offsets, recordings),
            pa.array(np.ones(len(rows), np.float32)),
        ],
        schema=SCHEMA,
    )
    return PatientRows(table, lambda some: archive.vectors(rows[some]))


def _extra_values(extra: pa.MapArray) -> pa.LargeListArray:
    """Return maps from name to value as lists of names and values."""
    texts = [part.cast(pa.large_string()) for part in (extra.keys, extra.items)]
    pairs = pa.StructArray.from_arrays(texts, fields=list(EXTRA_VALUE))
    return pa.LargeListArray.from_arrays(extra.offsets.cast(pa.int64()), pairs)


def _embedded_leads(archive: Archive, rows: Ints) -> pa.LargeListArray:
    """Return the leads of recordings that have their own vectors, by ascending rows."""
    leads = archive.manifest.leads
    table = archive.table([lead_column(lead) for lead in leads], int(rows[0]), int(rows[-1]) + 1)
    present = np.zeros((len(rows), len(leads)), bool)
    for number, column in enumerate(table.columns):
        present[:, number] = pc.is_valid(column).to_numpy()[rows - rows[0]]
    names = pa.array(np.array(leads, object)[np.nonzero(present)[1]], pa.large_string())
    return pa.LargeListArray.from_arrays(pa.array(_offsets(present.sum(axis=1))), names)


def pool_patients(parts: Sequence[PatientRows]) -> PooledPatients:
    """Pool rows by patient."""
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    encoded = table.column("patient_id").combine_chunks().dictionary_encode()
    code = np.asarray(encoded.indices.to_numpy()).astype(np.int64)
    order = np.argsort(code, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=len(encoded.dictionary)))]).astype(np.int64)
    metadata = _metadata(table, code)
    columns = [
        encoded.dictionary,
        pc.fill_null(metadata.column("site_first"), ""),
        metadata.column("age_max"),
        metadata.column("sex_first"),
        _names(table, "labels", code, len(encoded.dictionary)),
        _extra(table, code, len(encoded.dictionary)),
        _names(table, "leads", code, len(encoded.dictionary)),
        _recordings(table, order, starts),
    ]
    return PooledPatients(
        pa.table(columns, schema=SCHEMA.remove(SCHEMA.get_field_index("coherence"))), parts, order, starts
    )


def _metadata(table: pa.Table, code: Ints) -> pa.Table:
    """Return site, age and sex of each patient, in the order of their codes."""
    site = table.column("site")
    known = pa.table(
        {
            "code": code,
            "site": pc.if_else(pc.equal(site, ""), pa.scalar(None, pa.large_string()), site),
            "age": table.column("age"),
            "sex": table.column("sex"),
        }
    )
    found = known.group_by("code", use_threads=False).aggregate([("site", "first"), ("age", "max"), ("sex", "first")])
    return found.sort_by("code")


def _names(table: pa.Table, column: str, code: Ints, patients: int) -> pa.LargeListArray:
    """Return the distinct names of each patient in a column of lists."""
    names = table.column(column).combine_chunks()
    offsets, found = _distinct(names, {"name": names.flatten()}, code, patients)
    return pa.LargeListArray.from_arrays(offsets, found.column("name").combine_chunks())


def _extra(table: pa.Table, code: Ints, patients: int) -> pa.LargeListArray:
    extra = table.column("extra").combine_chunks()
    pairs = extra.flatten()
    values = {name: pc.struct_field(pairs, name) for name in ("name", "value")}
    offsets, found = _distinct(extra, values, code, patients)
    columns = [found.column(name).combine_chunks() for name in values]
    return pa.LargeListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(EXTRA_VALUE)))


def _distinct(
    lists: pa.LargeListArray, values: dict[str, pa.Array], code: Ints, patients: int
) -> tuple[pa.Array, pa.Table]:
    """Return the distinct elements of each patient's lists, sorted, and where each patient's elements start."""
    owner = code[pc.list_parent_indices(lists).to_numpy()]
    found = pa.table({"code": owner, **values}).group_by(["code", *values]).aggregate([])
    found = found.sort_by([(name, "ascending") for name in ("code", *values)])
    return pa.array(_offsets(np.bincount(found.column("code").to_numpy(), minlength=patients))), found


def _recordings(table: pa.Table, order: Ints, starts: Ints) -> pa.LargeListArray:
    moved = table.column("recordings").combine_chunks().take(pa.array(order))
    ends = _offsets(pc.list_value_length(moved).to_numpy())
    return pa.LargeListArray.from_arrays(pa.array(ends[starts]), moved.flatten())


def _offsets(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
