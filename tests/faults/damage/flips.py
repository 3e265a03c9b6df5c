"""Damage to a file: one flipped bit or truncation. The times of the file are kept."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CUTS: Final = 0.2
"""Fraction of cases that truncate a file."""
ENDS: Final = 256
"""Number of bytes at both ends of a file that count as its structure, for unknown formats."""


@dataclass(frozen=True)
class Damage:
    """A flipped bit, or with ``cut`` truncation at the position."""

    file: str
    """Path within the specimens."""
    position: int
    """Position of a bit, or of the byte at which the file is truncated."""
    cut: bool

    def __str__(self) -> str:
        return f"{self.file} {'cut to' if self.cut else 'bit'} {self.position}"


def draw_damage(folder: Path, files: list[str], choice: random.Random) -> Damage:
    """Draw a file and a position: half of the positions are in the structure, half anywhere."""
    file = choice.choice(files)
    path = folder / file
    size = path.stat().st_size
    ranges = structure(path) if choice.random() < 0.5 else [range(size)]
    span = choice.choices(ranges, [len(positions) for positions in ranges])[0]
    byte = choice.choice(span)
    if choice.random() < CUTS:
        return Damage(file, byte, cut=True)
    return Damage(file, 8 * byte + choice.randrange(8), cut=False)


def structure(path: Path) -> list[range]:
    """Return the structural bytes of a file: its headers and footers."""
    data = path.read_bytes()
    size = len(data)
    head = tail = ENDS
    if data.startswith(b"ARROW1"):
        tail = int.from_bytes(data[-10:-6], "little") + 10
        head = tail + 1024  # the schema stands here too, and after it the message of the one batch
    elif path.suffix == ".safetensors":
        head, tail = 8 + int.from_bytes(data[:8], "little"), 0
    elif path.suffix == ".npy":
        head, tail = 128, 0
    parts = range(min(head, size)), range(max(size - tail, min(head, size)), size)
    return [part for part in parts if part]


def apply_damage(folder: Path, damage: Damage) -> None:
    """Change the file in place, without changing anything but its bytes or its size."""
    path = folder / damage.file
    if damage.cut:
        with _keeping_times(path):
            os.truncate(path, damage.position)
    else:
        flip(path, damage.position)


def flip(path: Path, bit: int) -> None:
    """Flip a bit of a file. A second call restores it."""
    with _keeping_times(path), open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


@contextlib.contextmanager
def _keeping_times(path: Path) -> Iterator[None]:
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextlib.contextmanager
def damaged(folder: Path, damage: Damage) -> Iterator[None]:
    """Damage a file within this context."""
    path = folder / damage.file
    whole, before = path.read_bytes(), path.stat()
    apply_damage(folder, damage)
    try:
        yield
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flipped(path: Path, bit: int) -> contextlib.AbstractContextManager[None]:
    """Flip a bit of a file within this context."""
    return damaged(path.parent, Damage(path.name, bit, cut=False))
