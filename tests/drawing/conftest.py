"""Fixtures for tests of figures."""

from __future__ import annotations

import builtins
from typing import Any

import pytest


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that the extra ``plot`` is not installed."""
    original = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
