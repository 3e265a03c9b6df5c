"""Frames ready made, in one file for a store and a policy."""

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
from clocs.core.files import atomic_file, content_hash, seal, unseal, write_bytes
from clocs.signals.resampling import Floats
from clocs.store.frame_index import Ints

if TYPE_CHECKING:
    from clocs.store.frames import Frames

BATCH = 256
FORM = 3
"""Changes when frames come out otherwise than before."""


class FrameCache:
    """A file of frames (items, segments, leads, samples), memory-mapped.

    Args:
        path: The file.
        numbers: Number in the file of each item, (items,). Default: the same.
    """

    def __init__(self, path: Path, numbers: Ints | None = None) -> None:
        self.path, self.numbers = path, numbers
        self._frames = np.load(path, mmap_mode="r", allow_pickle=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file's name: another process maps it itself."""
        return FrameCache, (self.path, self.numbers)

    def take(self, items: Ints) -> Floats:
        """Return copies of some frames."""
        return np.asarray(self._frames[items if self.numbers is None else self.numbers[items]])


def cache_file(frames: Frames, folder: str | os.PathLike[str] | None) -> Path:
    """Return the file of all of a store's frames, which is made first where it is not there or damaged."""
    place = Path(folder) if folder is not None else frames.store.folder / "frames"
    if folder is None and not os.access(place if place.exists() else frames.store.folder, os.W_OK):
        place = Path(_own_folder().name)
    policy = frames.policy.model_dump(mode="json")
    path = place.absolute() / f"{content_hash([frames.store.sha256, policy, frames.all_leads, FORM])[:32]}.npy"
    if not _is_whole(path):
        _write(frames, path)
    return path


@functools.cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="clocs-frames-")


def _is_whole(path: Path) -> bool:
    """Return whether a cache is there and undamaged, all of its bytes hashed."""
    try:
        stated = unseal(path.with_suffix(".json").read_bytes(), path.name)["xxh3_128"]
        digest = xxhash.xxh3_128()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except FileNotFoundError:
        return False
    except (OSError, IntegrityError):
        stated = None
    if stated is None or digest.hexdigest() != stated:
        warnings.warn(f"{path.parent.name}/{path.name} is damaged and is made again", stacklevel=4)
        return False
    return True


def _write(frames: Frames, path: Path) -> None:
    if not len(frames):
        raise StoreError("no frame to cache: no recording is long enough or has the leads of this policy")
    header = _header((len(frames), *frames.views([0]).shape[1:]))
    digest = xxhash.xxh3_128(header)
    with atomic_file(path) as file:
        file.write(header)
        for start in range(0, len(frames), BATCH):
            batch = frames.views(np.arange(start, min(start + BATCH, len(frames)))).astype("<f4").tobytes()
            digest.update(batch)
            file.write(batch)
    write_bytes(path.with_suffix(".json"), seal({"xxh3_128": digest.hexdigest()}))


def _header(shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    told = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, told)
    return header.getvalue()
