"""The examples in docstrings of the core run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

NAMES = ("csv_cells", "options", "registry", "seeds", "sources.source_files", "storage.locations")
MODULES = [f"clocs.core.{name}" for name in NAMES]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
