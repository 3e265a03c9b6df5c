"""``clocs show``: pictures and messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import clocs
from clocs.cli.main import main


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 60, "leads": 4}))
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The command's exit code, in this process: importing torch each time takes seconds."""
    monkeypatch.setattr(sys, "argv", ["clocs", "show", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_batch_is_drawn(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "batch.png"
    words = ("batch", "cmsc-synthetic", f"store={store}", "batch_size=16", "--out", out, "--instances", 2)
    assert run(monkeypatch, *words) == 0
    assert capsys.readouterr() == (f"{out}\n", "")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_augmentations_are_drawn(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "p.svg"
    assert run(monkeypatch, "augmentations", store, "--record", "0000003", "--lead", "V2", "--out", out) == 0
    assert b"<svg" in out.read_bytes()


def test_curves_of_runs_are_drawn(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = [f"store={store}", f"runs={tmp_path}", "max_steps=1", "batch_size=16"]
    runs = [clocs.pretrain(name, here)["run"] for name in ("cmsc-synthetic", "byol-synthetic")]
    out = tmp_path / "curves.svg"
    assert run(monkeypatch, "curves", *runs, "--out", out, "--title", "both") == 0
    picture = out.read_text()
    for words in ("<!-- cmsc-synthetic -->", "<!-- byol-synthetic -->", "<!-- both -->"):
        assert words in picture


def test_scores_of_an_evaluation_are_drawn(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from clocs.evaluation.probe import probe

    evaluation = probe("random", store, runs=tmp_path / "runs")["run"]
    assert run(monkeypatch, "scores", evaluation, "--out", tmp_path, "--level", "recording") == 0
    paths = [tmp_path / "roc-recording.png", tmp_path / "reliability-recording.png"]
    assert capsys.readouterr().out == "".join(f"{path}\n" for path in paths)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("batch", "cmsc-synthetic", "batchh=16"), "did you mean 'batch_size'"),
        (("batch", "cmsc-synthetic", "store={store}", "batch_size=100000"), "do not fill a batch"),
        (
            ("batch", "cmsc-synthetic", "store={store}", "batch_size=16", "--checkpoint", "nowhere"),
            "neither a folder nor a shipped encoder",
        ),
        (("augmentations", "{store}", "--record", "nobody"), "no record 'nobody'"),
        (("curves", "{store}"), "is not a run"),
        (("curves", "runs/cmsc-*"), "runs/cmsc-* does not exist"),
        (("scores", "{store}"), "has no finished evaluation"),
    ],
)
def test_mistakes_are_messages(
    arguments: tuple[str, ...],
    message: str,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "x.png"
    assert run(monkeypatch, *(argument.format(store=store) for argument in arguments), "--out", out) == 1
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()
