"""Segments: metadata of many shards in few files, which follow from the shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.signals.quality import GATE_OFF
from clocs.store import segments
from clocs.store.arrow_files import write_arrow
from clocs.store.checksums import write_checksums
from clocs.store.segment_plan import repeated_record_ids
from clocs.store.segments import COLUMNS, hash_id, segment_path
from clocs.store.shard import ACQUIRED
from clocs.store.store import Store, open_store
from clocs.store.verify import verify
from tests.store.conftest import Maker


def test_a_table_has_the_columns_of_the_shards_in_order(store: Store) -> None:
    batches = [store.shard(number).columns(COLUMNS) for number in range(len(store.shards))]
    assert store.table(COLUMNS).equals(pa.Table.from_batches(batches))


def test_files_without_times_are_those_of_before(store_of: Maker, varied: list[Recording]) -> None:
    """One of eight recordings has a time: its shard and the segment have the column, other shards lack it."""
    made = store_of(varied, gate=GATE_OFF, per_shard=1)
    times = [recording.acquired for recording in varied]
    assert [ACQUIRED in made.shard(number)._file.schema.names for number in range(8)] == [
        time is not None for time in times
    ]
    assert made.table(ACQUIRED).column(0).to_pylist() == [recording.acquired for recording in made] == times
    assert made.shard(0).column(ACQUIRED).to_pylist() == [None]
    assert verify(made.folder) == []


def test_recordings_are_found_by_id(store: Store) -> None:
    ids = store.table("record_id").column(0).to_pylist()
    assert [store.index_of(record_id) for record_id in ids] == list(range(len(store)))
    with pytest.raises(ConfigError, match="has no record 'absent'"):
        store.index_of("absent")


def test_equal_hashes_are_told_apart_by_the_ids(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all ids had one hash, look-ups would still be right."""
    monkeypatch.setattr(segments, "hash_id", lambda text: 7)
    for kind in ("ids", "records"):
        segment_path(store.folder, store.segments[0].info.name, kind).unlink()
    again = open_store(store.folder)
    ids = again.table("record_id").column(0).to_pylist()
    assert [again.index_of(record_id) for record_id in ids] == list(range(len(store)))
    assert repeated_record_ids(store.folder, again.manifest.segments, ()) == []


def test_patients_are_counted_in_the_order_of_their_first_recordings(store: Store) -> None:
    codes = store.table("patient_id").column(0).combine_chunks().dictionary_encode()
    found, count = store.patient_codes()
    np.testing.assert_array_equal(found, codes.indices.to_numpy())
    assert count == len(codes.dictionary)


@pytest.mark.parametrize("kind", ["records", "ids"])
def test_a_missing_file_is_written_again(kind: str, store: Store) -> None:
    path = segment_path(store.folder, store.segments[0].info.name, kind)
    before = path.read_bytes()
    path.unlink()
    assert open_store(store.folder).index_of(store.recording(5).record_id) == 5
    assert path.read_bytes() == before


def test_a_missing_file_of_a_read_only_store_is_computed_in_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("read-only")

    path = segment_path(store.folder, store.segments[0].info.name, "records")
    path.unlink()
    monkeypatch.setattr(segments, "write_arrow", refuse)
    assert len(open_store(store.folder).table("record_id")) == len(store)
    assert not path.exists()


def test_a_damaged_list_of_shards_is_refused(store: Store) -> None:
    path = segment_path(store.folder, store.segments[0].info.name, "shards")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match="content differs from its recorded hash"):
        open_store(store.folder).recording(0)


def test_metadata_that_differ_from_the_shards_are_found(store: Store) -> None:
    """A file with matching checksums and another content, as only a defect or an attack makes it."""
    segment = store.segments[0]
    batch = segment.read("records")
    changed = batch.set_column(batch.schema.get_field_index("site"), "site", pa.array(["elsewhere"] * len(batch)))
    path = segment_path(store.folder, segment.info.name, "records")
    written = write_arrow(path, changed)
    write_checksums(path, written.sha256, written.checksums)
    (fault,) = verify(store.folder)
    assert fault.file == f"metadata/{path.name}"
    assert "differs from its shards" in fault.problem


def test_hashes_of_ids_are_those_of_xxhash() -> None:
    """The value is from the specification of XXH3: 64 bits, empty input, seed 0."""
    assert hash_id("") == 0x2D06800538D394C2
