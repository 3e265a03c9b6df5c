"""The ``clocs`` command: help, and interruption by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import clocs
from clocs.cli.main import INTERRUPTED, PANELS, app, main

COMMANDS = {name for names in PANELS.values() for name in names}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    clocs.split(clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 100, "leads": 1}))
    return tmp_path / "store"


def interrupted(arguments: list[str], at_work: str, folder: Path) -> tuple[int, str]:
    """Exit code and errors of a process that gets SIGINT once a file of this pattern is there.

    The file must appear after all imports: libraries that catch everything while they are imported lose a SIGINT.
    """
    command = [sys.executable, "-m", "clocs", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(folder.glob(at_work)) and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(signal.SIGINT)
    try:
        errors = process.communicate()[1]
        return process.returncode, errors
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "at_work"),
    [
        (["data", "ingest", "synthetic", "-", "large", "-o", "num_records=1000000"], "large/receipts/*.json"),
        pytest.param(
            ["pretrain", "cmsc-synthetic", "store=store", "batch_size=16", "max_epochs=4000"],
            "runs/*/metrics.jsonl",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["ingest", "pretrain"],
)
def test_an_interrupted_command_says_that_it_continues(
    arguments: list[str], at_work: str, store: Path, tmp_path: Path
) -> None:
    code, errors = interrupted(arguments, at_work, tmp_path)
    assert code == 130, errors
    assert errors.splitlines()[-1] == "interrupted; the same command continues where it stopped"
    assert "Traceback" not in errors


def test_a_command_that_cannot_continue_does_not_promise_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("clocs.cli.main.app", lambda: sys.exit(INTERRUPTED))
    monkeypatch.setattr(sys, "argv", ["clocs", "classify", "pretrain.hea"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "interrupted\n"


def test_a_table_of_classes_continues(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("clocs.cli.main.app", lambda: sys.exit(INTERRUPTED))
    monkeypatch.setattr(sys, "argv", ["clocs", "classify", "ward", "--out", "classes.csv"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "interrupted; the same command continues where it stopped\n"


def test_the_help_begins_with_data_and_has_every_command_under_its_heading() -> None:
    words = [line.strip("╭─╮│ ") for line in CliRunner().invoke(app, ["--help"]).output.splitlines()]
    found = [word for line in words for word in (line, line.split(" ")[0]) if word in PANELS or word in COMMANDS]
    assert list(dict.fromkeys(found)) == [word for panel, names in PANELS.items() for word in (panel, *names)]
