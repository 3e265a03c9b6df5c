"""The segments of a new version."""

import pytest

from clocs import Store
from clocs.store import segment_plan, segments
from clocs.store.segment_plan import plan_segments, repeated_record_ids
from clocs.store.segments import Segment, write_segment


def test_a_version_keeps_the_segments_whose_shards_remain(store: Store) -> None:
    infos = list(store.shards)
    first, second = (write_segment(store.folder, part) for part in (infos[:2], infos[2:]))
    assert plan_segments(store.folder, [first, second], infos) == [first, second]
    (kept, new) = plan_segments(store.folder, [first], infos)
    assert (kept, new) == (first, second)
    (rest,) = plan_segments(store.folder, [first, second], infos[1:2])
    assert Segment(store.folder, rest).files() == [infos[1].file]


def test_neighbours_are_merged_when_there_are_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_plan, "MAX_SEGMENTS", 2)
    infos = list(store.shards)
    parts = [write_segment(store.folder, [info]) for info in infos]
    monkeypatch.setattr(segments, "Shard", None)  # rows come from the merged segments
    found = plan_segments(store.folder, parts, infos)
    monkeypatch.undo()
    monkeypatch.setattr(segment_plan, "MAX_SEGMENTS", 2)
    assert len(found) == 2
    for segment in (Segment(store.folder, info) for info in found):
        assert all(segment.read(kind).equals(segment.computed(kind)) for kind in ("records", "ids"))
    assert [name for info in found for name in Segment(store.folder, info).files()] == [info.file for info in infos]
    monkeypatch.setattr(segment_plan, "MAX_RECORDS", 10)
    assert plan_segments(store.folder, parts, infos) == parts, "merged, they would be too large"


def test_repeated_ids_are_found_within_and_between_segments(store: Store) -> None:
    infos = list(store.shards)
    one, other = write_segment(store.folder, infos[:2]), write_segment(store.folder, infos[1:])
    shared = Segment(store.folder, write_segment(store.folder, infos[1:2])).columns(["record_id"]).column(0)
    expected = sorted(shared.to_pylist())
    assert repeated_record_ids(store.folder, [one, other], ()) == expected
    assert repeated_record_ids(store.folder, [one, other], [one]) == expected
    twice = write_segment(store.folder, [infos[1], infos[1]])
    assert repeated_record_ids(store.folder, [twice], ()) == expected
