"""Damaged files are read or rejected, without another error, a crash, a hang or excessive memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.campaign import FIRST, FULL, HANG_SECONDS, Outcome, run_cases, run_jobs
from tests.faults.mutating import KINDS, pool
from tests.faults.reading import read_case


@pytest.mark.parametrize(
    ("kind", "noticed"),
    [("crash", "ends the interpreter"), ("hang", "hangs"), ("greedy", "MemoryError"), ("slow", "took")],
)
def test_reader_detects_provoked_faults(kind: str, noticed: str, tmp_path: Path) -> None:
    outcome = run_cases(tmp_path, kind, 0, 1, tmp_path, hang_seconds=1 if kind == "hang" else HANG_SECONDS)
    assert len(outcome.failures) == 1
    assert noticed in outcome.failures[0]


def test_the_next_kind_is_read_after_a_crash(tmp_path: Path) -> None:
    found = run_jobs(tmp_path, [("crash", 0, 1), ("greedy", 0, 1)], tmp_path)
    assert "ends the interpreter" in found["crash"].failures[0]
    assert "MemoryError" in found["greedy"].failures[0]


LARGE_QUICK = ("16", "csv", "aecg", "dicom", "edf")
LARGE = ("mat", "212", "clocs-csv", "irhythm", "muse", "schiller", "ishne", "apple")


@pytest.mark.parametrize("name", [*LARGE_QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_memory_is_bounded_by_file_size(name: str, real_data: Path, tmp_path: Path) -> None:
    """At 24 MB, four times the size is larger than the fixed 64 MB."""
    outcome = run_cases(real_data, f"large {name}", 0, 1, tmp_path)
    assert not outcome.failures
    assert outcome.counts == {"read True": 1}


FOUND = {
    "a format of 5,000 digits": ("header", rb" 16\+24 ", b" " + b"9" * 5000 + b" "),
    "a length no store can hold": ("header", rb" 300 \d+", b" 300 99999999999999999999"),
    "a gain so small that it is 0 in millivolt": ("header", rb"1000/mV", b"5e-324/V"),
    "a gain whose millivolts are no numbers": ("header", rb"1000/mV", b"1e-308/mV"),
    "a gain that is infinite in millivolt": ("header", rb"1000/mV", b"1e308/nV"),
    "an end no store can hold": ("episodes", rb"\"offset\": \d+", b'"offset": 99999999999999999999'),
    "half a character": ("episodes", rb"\"rhythm_name\": \"", b'"rhythm_name": "\\\\ud800'),
}
"""Former failures: kind, a text in the file, and its replacement."""


@pytest.mark.parametrize("found", FOUND)
def test_former_failures_stay_fixed(found: str, real_data: Path, tmp_path: Path) -> None:
    kind, place, text = FOUND[found]
    files = dict(pool(real_data, {"header": "mat", "episodes": "irhythm"}[kind])[0])
    name = next(name for name in files if name.endswith(KINDS[kind].ending))
    files[name], count = re.subn(place, text, files[name])
    assert count
    asked = next(name for name in files if name.endswith((".hea", ".ecg")))
    assert read_case(files, asked, tmp_path) == "FormatError"


@pytest.mark.parametrize(("kind", "number"), [("philips", 19924)])
def test_former_failures_of_the_full_campaign(kind: str, number: int, real_data: Path, tmp_path: Path) -> None:
    assert run_cases(real_data, kind, number, 1, tmp_path).failures == []


def check(outcome: Outcome, kind: str, first: int, count: int) -> str:
    """Assert that all cases of a kind were read or refused. Return a summary."""
    assert not outcome.failures, "\n".join(outcome.failures)
    assert sum(outcome.counts.values()) == count
    seen = ", ".join(f"{number} {name}" for name, number in sorted(outcome.counts.items()))
    cases = f"{kind} {first} to {first + count - 1}"
    return f"\nmutations: {count} of {count} read or refused, {cases} ({seen}; slowest {outcome.slowest:.2f} s)"


COUNTS = {kind: round(150 * about.share) for kind, about in KINDS.items()}


@pytest.fixture(scope="module")
def outcomes(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return the outcomes of all kinds, which are read in one process."""
    jobs = [(kind, 0, count) for kind, count in COUNTS.items()]
    return run_jobs(real_data, jobs, tmp_path_factory.mktemp("mutations"))


@pytest.mark.parametrize("kind", KINDS)
def test_mutations(kind: str, outcomes: dict[str, Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    summary = check(outcomes[kind], kind, 0, COUNTS[kind])
    with capsys.disabled():
        print(summary)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_mutations_in_full(kind: str, real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = check(run_cases(real_data, kind, FIRST, FULL, tmp_path), kind, FIRST, FULL)
    with capsys.disabled():
        print(summary)
