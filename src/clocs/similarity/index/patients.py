"""Patient rows: pooling of recordings by patient, and normalisation of patient ids.

A patient's vector is the mean of the unit vectors of the recordings, scaled to unit length. Pooled rows are recordings
of an archive, or patients of an index together with new recordings. All operations work on whole columns, because an
index may have a hundred million rows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import PSEUDONYM, read_key
from clocs.similarity.archive.archive import STORE_COLUMNS, Archive
from clocs.similarity.segments import Ints, Vectors, unit_length

RECORDING: Final = pa.struct([("record_id", pa.large_string()), ("archive", pa.int32()), ("row", pa.int64())])
SCHEMA: Final = pa.schema(
    [
        ("patient_id", pa.large_string()),
        ("site", pa.large_string()),
        ("age", pa.float32()),
        ("sex", pa.large_string()),
        ("labels", pa.large_list(pa.large_string())),
        ("recordings", pa.large_list(RECORDING)),
        ("coherence", pa.float32()),
    ]
)
"""Columns of a volume. ``site`` and ``sex`` are the first known values, ``age`` is the highest, ``labels`` are those of
all
recordings, sorted. ``recordings`` holds their positions. ``coherence`` is the length of the mean vector, 1 if all
recordings have the same direction."""
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
            pa.LargeListArray.from_arrays(offsets, recordings),
            pa.array(np.ones(len(rows), np.float32)),
        ],
        schema=SCHEMA,
    )
    return PatientRows(table, lambda some: archive.vectors(rows[some]))


def patient_ids(recordings: pa.Table) -> pa.Array:
    """Return the patient of each recording. A recording without a patient id counts as its own patient."""
    record, patient = (recordings.column(name).combine_chunks() for name in ("record_id", "patient_id"))
    return pc.if_else(pc.equal(patient, ""), record, patient).cast(pa.large_string())


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
        _labels(table, code, len(encoded.dictionary)),
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


def _labels(table: pa.Table, code: Ints, patients: int) -> pa.LargeListArray:
    labels = table.column("labels").combine_chunks()
    owner = code[pc.list_parent_indices(labels).to_numpy()]
    pairs = pa.table({"code": owner, "label": labels.flatten()}).group_by(["code", "label"]).aggregate([])
    pairs = pairs.sort_by([("code", "ascending"), ("label", "ascending")])
    counts = np.bincount(pairs.column("code").to_numpy(), minlength=patients)
    return pa.LargeListArray.from_arrays(pa.array(_offsets(counts)), pairs.column("label").combine_chunks())


def _recordings(table: pa.Table, order: Ints, starts: Ints) -> pa.LargeListArray:
    moved = table.column("recordings").combine_chunks().take(pa.array(order))
    ends = _offsets(pc.list_value_length(moved).to_numpy())
    return pa.LargeListArray.from_arrays(pa.array(ends[starts]), moved.flatten())


def _offsets(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def normalize_patient_ids(ids: Iterable[str], patients: list[pa.Array], gone: pa.Array, key: Path | None) -> pa.Array:
    """Return patient ids as the index stores them, sorted and without duplicates.

    Args:
        ids: Ids from a user.
        patients: Ids of each volume's patients.
        gone: Ids deleted before.
        key: Key file of the pseudonyms. If all patients have pseudonyms, original ids need it.

    Returns:
        Normalised ids.

    Raises:
        ConfigError: The key is missing, or the index has no pseudonyms.
    """
    named = {name.strip() for name in ids} - {""}
    numbers = {name for name in named if not PSEUDONYM.fullmatch(name)}
    pseudonyms = [pc.match_substring_regex(part, f"^{PSEUDONYM.pattern}$") for part in patients or [gone]]
    if key is None:
        if numbers and all(pc.all(part).as_py() for part in pseudonyms):
            raise ConfigError(
                f"All patients of the index have pseudonyms, but {len(numbers)} of {len(named)} ids are not. "
                "No patient was deleted. Pass the key file of the pseudonyms with --key."
            )
        held = _normalize_letters(named, [*patients, gone])
    else:
        if not any(pc.any(part).as_py() for part in pseudonyms):
            raise ConfigError("No patient of the index has a pseudonym, and no patient was deleted. Omit --key.")
        secret = read_key(key)
        held = (named - numbers) | {secret.patient(number) for number in numbers}
    return pa.array(sorted(held), pa.large_string())


def _normalize_letters(named: set[str], held: list[pa.Array]) -> set[str]:
    """Apply Unicode normalisation (NFKC) to ids, except to ids that the index stores as given."""
    asked = pa.array(sorted(named), pa.large_string())
    known = {name for part in held for name in part.filter(pc.is_in(part, value_set=asked)).to_pylist()}
    return {name if name in known else unicodedata.normalize("NFKC", name) for name in named}
