"""Damage to a file: one flipped bit, or a cut, after which the file has the times that it had before."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CUTS: Final = 0.2
"""The share of cases that cut a file off."""
ENDS: Final = 256
"""Bytes at either end of a file that count as its structure, where its format does not say."""


@dataclass(frozen=True)
class Damage:
    """A flipped bit, or with ``cut`` all bytes from the position on removed."""

    file: str
    """Its path within the specimens."""
    position: int
    """Of a bit, or of a byte where the file is cut."""
    cut: bool

    def __str__(self) -> str:
        return f"{self.file} {'cut to' if self.cut else 'bit'} {self.position}"


def draw_damage(folder: Path, files: list[str], choice: random.Random) -> Damage:
    """Draw a file and a place in it: half of all places lie in the structure, half anywhere."""
    file = choice.choice(files)
    path = folder / file
    size = path.stat().st_size
    places = structure(path) if choice.random() < 0.5 else [range(size)]
    span = choice.choices(places, [len(place) for place in places])[0]
    byte = choice.choice(span)
    if choice.random() < CUTS:
        return Damage(file, byte, cut=True)
    return Damage(file, 8 * byte + choice.randrange(8), cut=False)


def structure(path: Path) -> list[range]:
    """The bytes of a file that say how to read the others: its headers and footers."""
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
    """Change the file where it lies, so that nothing but its bytes, or its size, tells."""
    path = folder / damage.file
    before = path.stat()
    handle = os.open(path, os.O_RDWR)
    try:
        if damage.cut:
            os.ftruncate(handle, damage.position)
        else:
            byte = os.pread(handle, 1, damage.position // 8)[0]
            os.pwrite(handle, bytes([byte ^ (1 << damage.position % 8)]), damage.position // 8)
    finally:
        os.close(handle)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
