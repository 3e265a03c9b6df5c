"""Independent random streams, derived from one root seed and the name of each use."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return an independent generator for a seed and names.

    Draws from one generator do not shift the draws of another.

    Args:
        seed: The root seed.
        names: Names and numbers that identify the use, for example ``"bootstrap"``.

    Returns:
        A NumPy generator. The same arguments always give the same stream.

    Example:
        >>> bool(generator(0, "split").random() == generator(0, "split").random())
        True
    """
    words = np.frombuffer(_digest(names), dtype=np.uint32)
    return np.random.default_rng([seed, *(int(word) for word in words)])


def derived_seed(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for a root seed and names, for generators other than NumPy's.

    Args:
        seed: The root seed.
        names: Names and numbers that identify the use.

    Returns:
        A non-negative integer below 2**63.
    """
    return int.from_bytes(_digest((seed, *names))[:8], "little") >> 1


def _digest(names: tuple[str | int, ...]) -> bytes:
    return hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
