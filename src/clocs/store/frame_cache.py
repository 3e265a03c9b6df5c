"""Cache of frames: one file per store and frame policy."""

from __future__ import annotations

import functools
import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.hashes import content_hash, seal, unseal
from clocs.core.storage.files import atomic_file, write_bytes
from clocs.core.storage.object_cache import local_folder
from clocs.signals.resampling import Floats
from clocs.store.frame_index import Ints

if TYPE_CHECKING:
    from clocs.store.frames import Frames

BATCH = 256
"""Frames that are written at a time."""
FRAMES = "frames"
"""Folder of the caches within a store."""
CACHE_FORMAT = 3
"""Version of the cached frames. Increase it when frames change."""


class FrameCache:
    """A file of frames (items, segments, leads, samples), memory-mapped.

    Args:
        path: The file.
        indices: Index in the file of each item, (items,); by default the same.
    """

    def __init__(self, path: Path, indices: Ints | None = None) -> None:
        self.path, self.indices = path, indices
        self._frames = np.load(path, mmap_mode="r", allow_pickle=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the path: another process maps the file itself."""
        return FrameCache, (self.path, self.indices)

    def take(self, items: Ints) -> Floats:
        """Return copies of frames, (N, segments, leads, samples)."""
        return np.asarray(self._frames[items if self.indices is None else self.indices[items]])


def cache_file(frames: Frames, folder: str | os.PathLike[str] | None) -> Path:
    """Return the file of all frames of a store. It is written if it is missing or damaged."""
    place = local_folder(frames.store.folder)
    cache_dir = Path(folder) if folder is not None else place / FRAMES
    if folder is None and place.exists() and not os.access(cache_dir if cache_dir.exists() else place, os.W_OK):
        cache_dir = Path(_temporary_dir().name)
    policy = frames.policy.model_dump(mode="json")
    path = (
        cache_dir.absolute() / f"{content_hash([frames.store.sha256, policy, frames.all_leads, CACHE_FORMAT])[:32]}.npy"
    )
    if not _is_intact(path):
        _write(frames, path)
    return path


@functools.cache
def _temporary_dir() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="clocs-frames-")


def _is_intact(path: Path) -> bool:
    """Return whether a cache exists and matches its hash."""
    try:
        expected = unseal(path.with_suffix(".json").read_bytes(), path.name)["xxh3_128"]
        digest = xxhash.xxh3_128()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except FileNotFoundError:
        return False
    except (OSError, IntegrityError):
        expected = None
    if expected is None or digest.hexdigest() != expected:
        warnings.warn(f"{path.parent.name}/{path.name} is damaged. It is written again.", stacklevel=4)
        return False
    return True


def _write(frames: Frames, path: Path) -> None:
    if not len(frames):
        raise StoreError("There are no frames to cache. No recording is long enough or has the leads of this policy.")
    header = _header((len(frames), *frames.views([0]).shape[1:]))
    digest = xxhash.xxh3_128(header)
    with atomic_file(path) as file:
        file.write(header)
        for start in range(0, len(frames), BATCH):
            batch = frames.views(np.arange(start, min(start + BATCH, len(frames)))).astype("<f4").tobytes()
            digest.update(batch)
            file.write(batch)
    about = {"xxh3_128": digest.hexdigest(), "store_sha256": frames.store.sha256}
    write_bytes(path.with_suffix(".json"), seal(about))


def cached_store_hash(path: Path) -> str:
    """Return the hash of the store version whose frames a cache holds; empty if it is unknown.

    Args:
        path: File of the frames, or the JSON beside it.
    """
    try:
        return str(unseal(path.with_suffix(".json").read_bytes(), path.name)["store_sha256"])
    except (OSError, IntegrityError, KeyError):
        return ""


def _header(shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return header.getvalue()
