"""Randomness: one root seed, and a stream of its own for each named use of it."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A generator of its own for each (seed, names): drawing from one never shifts another."""
    words = np.frombuffer(_digest(names), dtype=np.uint32)
    return np.random.default_rng([seed, *(int(word) for word in words)])


def derived_seed(seed: int, *names: str | int) -> int:
    """A seed of 63 bits for each (seed, names), for generators that are not numpy's."""
    return int.from_bytes(_digest((seed, *names))[:8], "little") >> 1


def _digest(names: tuple[str | int, ...]) -> bytes:
    return hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
