"""The segments of a new version: those that remain, new ones, and small ones that are merged."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from clocs.store.segments import Codes, Segment, SegmentInfo, write_segment
from clocs.store.shard import ShardInfo

MAX_RECORDS: Final = 1 << 20
"""Maximum number of recordings of a segment, which bounds the memory for writing it."""
MAX_SEGMENTS: Final = 16
"""Number of segments above which two neighbors are merged by the next commit."""


def plan_segments(folder: Path, previous: Sequence[SegmentInfo], shards: Sequence[ShardInfo]) -> list[SegmentInfo]:
    """Return the segments of a new version, and write those that are missing.

    Recordings of the previous version keep their order, and new ones follow.

    Args:
        folder: Folder of the store.
        previous: Segments of the previous version.
        shards: Entries of all shards of the new version.

    Returns:
        Segments of the previous version whose shards all remain, followed by new segments.
    """
    wanted, covered, kept = {info.file for info in shards}, set[str](), []
    for info in previous:
        files = Segment(folder, info).files()
        if wanted.issuperset(files):
            kept.append(info)
            covered.update(files)
    new = [info for info in shards if info.file not in covered]
    segments = [*kept, *(write_segment(folder, part) for part in _parts(new))]
    return _merge_smallest(folder, segments) if len(segments) > MAX_SEGMENTS else segments


def _parts(shards: Sequence[ShardInfo]) -> Iterator[list[ShardInfo]]:
    """Divide shards into lists of at most ``MAX_RECORDS`` recordings, or of one shard."""
    part: list[ShardInfo] = []
    for info in shards:
        if part and sum(each.records for each in part) + info.records > MAX_RECORDS:
            yield part
            part = []
        part.append(info)
    if part:
        yield part


def _merge_smallest(folder: Path, segments: list[SegmentInfo]) -> list[SegmentInfo]:
    """Merge the two neighbors with the fewest recordings, unless they are too large."""
    sizes = [one.records + other.records for one, other in itertools.pairwise(segments)]
    first = int(np.argmin(sizes))
    if sizes[first] > MAX_RECORDS:
        return segments
    neighbours = [Segment(folder, info) for info in segments[first : first + 2]]
    shards = [info for segment in neighbours for info in segment.shard_infos]
    return [*segments[:first], write_segment(folder, shards, merged_from=neighbours), *segments[first + 2 :]]


def repeated_record_ids(folder: Path, segments: Sequence[SegmentInfo], known: Collection[SegmentInfo]) -> list[str]:
    """Return record ids that occur more than once.

    Args:
        folder: Folder of the store.
        segments: Segments of a version.
        known: Those among them whose ids are known to differ.
    """
    opened = [Segment(folder, info) for info in segments]
    repeated: set[str] = set()
    for number, segment in enumerate(opened):
        if segment.info in known:
            continue
        own = segment.id_hashes
        repeated.update(_repeated(segment, own[1:][np.diff(own) == 0]))
        for other in (*opened[:number], *(each for each in opened[number + 1 :] if each.info in known)):
            repeated.update(_repeated(segment, _common(own, other.id_hashes), other))
    return sorted(repeated)


def _common(one: Codes, other: Codes) -> Codes:
    """Return the common values of two sorted arrays, by binary search of the shorter one in the longer one."""
    few, many = sorted((one, other), key=len)
    return few[np.searchsorted(many, few, "left") < np.searchsorted(many, few, "right")]


def _repeated(segment: Segment, hashes: Codes, other: Segment | None = None) -> list[str]:
    """Return the ids behind equal hashes that are really equal."""
    own = Counter(name for code in np.unique(hashes) for name in segment.ids_of(code))
    if other is None:
        return [name for name, count in own.items() if count > 1]
    return [name for name in own if other.find(name) is not None]
