"""The package's own names: functions of a store take the store or its folder."""

from __future__ import annotations

from pathlib import Path

import clocs


def test_functions_of_a_store_take_it_or_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = clocs.ingest("synthetic", None, folder, options={"num_records": 20, "leads": 1})
    made = clocs.split(folder)
    for place in (store, folder, str(folder)):
        assert clocs.info(place)["sha256"] == store.sha256
        assert clocs.verify(place) == []
        assert clocs.split(place).sha256 == made.sha256
        clocs.check_leaks(place, made)
        assert clocs.archive_report(place) == clocs.archive_report(store)
    shard = next((folder / "shards").glob("*.arrow"))
    shard.write_bytes(b"")
    for place in (store, folder):
        assert [fault.file for fault in clocs.verify(place)] == [f"shards/{shard.name}"]
