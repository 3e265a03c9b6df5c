"""Rewriting of shards for a new version: rows that remain of a shard, and several shards in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clocs.core.hashes import content_hash
from clocs.store.segment_plan import plan_segments
from clocs.store.segments import Segment, SegmentInfo
from clocs.store.shard import SHARDS, Shard, ShardInfo, write_shard

Rows = npt.NDArray[np.int64]
Replacements = Mapping[str, ShardInfo | None]
"""New shard by the file of the old one; None for shards without a successor."""


def write_rows(folder: Path, parts: Sequence[tuple[ShardInfo, Rows]]) -> ShardInfo:
    """Write rows of shards as a new shard. Its name follows from them, so a repeated attempt writes the same file.

    Args:
        folder: Folder of the store.
        parts: Entry of each shard, and its rows in ascending order, at least one in all.

    Returns:
        Entry of the new shard.
    """
    name = content_hash([[info.file, info.sha256, rows.tolist()] for info, rows in parts])[:16]
    opened = [(Shard(folder / SHARDS / info.file, info), rows.tolist()) for info, rows in parts]
    recordings = [shard.recording(row) for shard, rows in opened for row in rows]
    return write_shard(folder / SHARDS / f"{name}.arrow", recordings)


def replace_shards(folder: Path, segments: Sequence[SegmentInfo], replaced: Replacements) -> list[SegmentInfo]:
    """Return segments in which shards are replaced, and write those that change. The order remains.

    Args:
        folder: Folder of the store.
        segments: Segments of a version.
        replaced: The shards to replace.

    Returns:
        Segments of a new version.
    """
    planned: list[SegmentInfo] = []
    for info in segments:
        segment = Segment(folder, info)
        if replaced.keys().isdisjoint(segment.files()):
            planned.append(info)
            continue
        shards = [replaced.get(shard.file, shard) for shard in segment.shard_infos]
        planned += plan_segments(folder, (), [shard for shard in shards if shard is not None])
    return planned
