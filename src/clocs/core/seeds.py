"""Randomness: one root seed, and a generator for each named use of it."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A generator of its own for each (seed, names): drawing from one never shifts another."""
    text = "/".join(str(name) for name in names)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint32)
    return np.random.default_rng([seed, *(int(word) for word in words)])
