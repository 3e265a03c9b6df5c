"""``clocs report`` from a results folder."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clocs.cli.main import app
from clocs.core.errors import MissingExtraError, StoreError
from clocs.experiments.cells import Evaluation, Pretraining
from tests.experiments.results_factory import write_results

CELL = Evaluation(protocol="linear", start=Pretraining(method="cmsc", dataset="chapman"), dataset="chapman")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["report", *arguments])


def test_report_and_pages_are_made(tmp_path: Path) -> None:
    write_results(tmp_path / "results", [CELL])
    page = tmp_path / "README.md"
    page.write_text("before <!-- results:auc-cmsc --><!-- /results --> after\n")
    done = run(str(page), "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "report.html" in done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(
            "index.md",
            "tables.md",
            "beyond.md",
            "encoders.md",
            "claims.md",
            "figures.md",
            "ours.md",
            "search.md",
            "runs.md",
            "missing.md",
            "report.html",
            "images",
        ),
    }
    text = page.read_text()
    assert text.startswith("before <!-- results:auc-cmsc -->0.")
    assert text.endswith("<!-- /results --> after\n")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    done = run("--results", str(tmp_path), "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, StoreError)
    assert not (tmp_path / "out").exists()


def test_without_jinja_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(tmp_path / "results", [CELL])
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    done = run("--results", str(tmp_path / "results"), "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, MissingExtraError)
    assert "clocs[report]" in str(done.exception)
