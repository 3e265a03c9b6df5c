"""A part of the campaign: the use of a damaged file gives the same result, or rejects the file by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import IntegrityError
from tests.conftest import ROOT
from tests.faults.damage import cases
from tests.faults.damage.cases import CHANGED, CRASHED, REJECTED, SAME, UNNAMED, UNTYPED, Outcome
from tests.faults.damage.kinds import KINDS, Kind
from tests.faults.damage.specimens import Specimens
from tests.faults.damage.uses import digests
from tests.faults.damage_campaign import ENVIRONMENT


@pytest.mark.parametrize(
    ("count", "workers"),
    [
        (len(KINDS), 1),
        pytest.param(10_000, 2, marks=[pytest.mark.slow, pytest.mark.timeout(10_800)]),
    ],
)
def test_damaged_files_are_rejected_or_change_nothing(
    count: int, workers: int, real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'search'")
    summary = tmp_path / "summary.json"
    options = {"count": count, "workers": workers, "summary": summary, "data": real_data}
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.damage_campaign", *(f"--{key}={value}" for key, value in options.items())],
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    campaign_summary = json.loads(summary.read_text())
    assert len(campaign_summary["outcomes"]) == count
    assert {outcome["kind"] for outcome in campaign_summary["outcomes"]} == {kind.name for kind in KINDS}
    with capsys.disabled():
        print(f"\ndamaged files: {count:,} cases in {campaign_summary['processor_seconds']:.0f} s of processor time")


def reads(folder: Path) -> Iterator[Any]:
    yield (folder / "file").read_bytes()


def ignores(folder: Path) -> Iterator[Any]:
    yield 1


def rejects(folder: Path) -> Iterator[Any]:
    yield 1
    raise IntegrityError("file: its bytes differ")


def complains(folder: Path) -> Iterator[Any]:
    yield 1
    raise IntegrityError("something differs")


def fails(folder: Path) -> Iterator[Any]:
    yield 1
    raise ValueError("file")


def dies(folder: Path) -> Iterator[Any]:
    yield 1
    os.kill(os.getpid(), signal.SIGSEGV)


def rejects_too_late(folder: Path) -> Iterator[Any]:
    yield from reads(folder)
    raise IntegrityError("file: its bytes differ")


def asks_for_too_much(folder: Path) -> Iterator[Any]:
    yield len(bytes(1 << 40))


@pytest.mark.parametrize(
    ("use", "verdict"),
    [
        (reads, CHANGED),
        (ignores, SAME),
        (rejects, REJECTED),
        (complains, UNNAMED),
        (fails, UNTYPED),
        (dies, CRASHED),
        (rejects_too_late, CHANGED),
        (asks_for_too_much, UNTYPED),
    ],
)
def test_campaign_reports_the_verdict_of_a_use(use: Any, verdict: str, tmp_path: Path) -> None:
    """Files, their times and folders are restored."""
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    os.utime(path, ns=(1, 2))
    (found,) = digests(iter([bytes(1000)]))
    (other,) = digests(iter([1]))
    outcome = carried_out(tmp_path, use, found if use in (reads, rejects_too_late) else other)
    assert outcome.verdict == verdict, outcome
    assert path.read_bytes() == bytes(1000)
    assert path.stat().st_mtime_ns == 2


def carried_out(folder: Path, use: Any, found: str) -> Outcome:
    kind = Kind("made: file", "file", (use,))
    return cases.carry_out(Specimens(folder), kind, 1, {use.__name__: (found,)})


def test_damage_keeps_file_times(tmp_path: Path) -> None:
    seen = []

    def looks(folder: Path) -> Iterator[Any]:
        about = (folder / "file").stat()
        yield about.st_mtime_ns, about.st_ino

    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    os.utime(path, ns=(1, 2))
    seen = list(digests(looks(tmp_path)))
    assert carried_out(tmp_path, looks, seen[0]).verdict == SAME


def test_files_written_by_a_use_are_removed(tmp_path: Path) -> None:
    def writes(folder: Path) -> Iterator[Any]:
        (folder / "new").mkdir()
        (folder / "new" / "file").write_bytes(b"1")
        (folder / "file").unlink()
        yield 1

    (tmp_path / "file").write_bytes(bytes(1000))
    carried_out(tmp_path, writes, "")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]
    assert (tmp_path / "file").read_bytes() == bytes(1000)
