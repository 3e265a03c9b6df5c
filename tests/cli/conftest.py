"""Fixtures that run ``clocs`` in this process, because importing torch takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clocs.cli.main import main

Command = Callable[..., tuple[str, str]]
Clocs = Callable[..., str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Output and errors of ``clocs`` with these arguments, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["clocs", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert int(ended.value.code or 0) == code, out + err
        return out, err

    return run


@pytest.fixture
def clocs(command: Command) -> Clocs:
    """The output of ``clocs`` with these arguments; with a failure code its errors too."""

    def run(*arguments: object, code: int = 0) -> str:
        out, err = command(*arguments, code=code)
        assert "Traceback" not in err
        return out if code == 0 else out + err

    return run
