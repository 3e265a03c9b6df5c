"""Benchmarks of commands in a new process, against the least that such a process needs."""

from __future__ import annotations

import statistics
import sys
from typing import Any

from measuring import child_processor_seconds, in_turns, line, ratios, scratch

import clocs
from clocs.formats.writing import write

ROUNDS = 11


def help_time() -> None:
    """Compare ``clocs --help`` with a process that imports the library of its command line."""
    _compare("clocs --help / import of its library", "import typer.main, typer.rich_utils", ["--help"], 2.5)


def classify_time() -> None:
    """Compare ``clocs classify FILE`` with a process that imports the libraries it needs.

    The file is an EDF of twelve leads and ten seconds at 500 Hz.
    """
    dataset = clocs.DATASETS.get("synthetic")
    options = dataset.parse_options({"num_records": 1, "leads": 12})
    nothing: Any = None
    recording = dataset.load(nothing, next(iter(dataset.entries(nothing, options))), options)
    with scratch() as folder:
        write(recording, folder / "ecg.edf")
        _compare(
            "clocs classify FILE / import of its libraries",
            "import numpy, onnxruntime, pydantic, safetensors.numpy, typer.main",
            ["classify", str(folder / "ecg.edf")],
            5.0,
        )


def _compare(name: str, least: str, arguments: list[str], limit: float) -> None:
    """Compare the processor time of a command with that of a statement, each in a new process."""
    commands = {"least": [sys.executable, "-c", least], "clocs": [sys.executable, "-m", "clocs", *arguments]}
    taken = in_turns(commands, ROUNDS, child_processor_seconds)
    bare, ours = (statistics.median(times) for times in taken.values())
    print(f"  processor time: imports {bare:.2f} s, {name.partition(' /')[0]} {ours:.2f} s")
    line(name, ratios(taken["clocs"], taken["least"]), limit, at_least=False, unit="x")
