"""The examples in the docstrings of the benchmark's modules run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import clocs
import clocs.evaluation.benchmark

MODULES = sorted(path.stem for path in Path(clocs.evaluation.benchmark.__path__[0]).glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"clocs.evaluation.benchmark.{name}")
    result = doctest.testmod(module, extraglobs={"clocs": clocs, "np": np}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
