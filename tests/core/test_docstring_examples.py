"""The examples in the docstrings of registries and options."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = ["clocs.core.options", "clocs.core.registry"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_right(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
