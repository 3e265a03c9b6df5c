"""Script: the campaign of damaged files, by default 20,000 of each kind. The outcome is written to a JSON file.

python -m tests.faults.campaign SUMMARY [--count N] [--data FOLDER] [KIND ...]

Run again, it goes on where it was. A kind ends with its first failure. At the end a table is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests import forked
from tests.conftest import ROOT, data_folder
from tests.faults.mutating import KINDS

FULL, FIRST, CHUNK = 20_000, 10_000, 1_000
"""Cases per kind, number of the first case (lower ones are in every test run), and cases per process."""
HANG_SECONDS = 30
"""Maximum processor time of one case. The reader itself reports cases of over 2 s."""
ALLOCATORS = {
    # One heap that gives back what is freed, so that the limit counts what a case takes.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


@dataclass
class Outcome:
    """Outcome of a range of cases of one kind."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """Processor time in seconds."""

    def add(self, more: Outcome) -> None:
        for name, number in more.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number
        self.failures += more.failures
        self.slowest = max(self.slowest, more.slowest)


Job = tuple[str, int, int]
"""A kind, the number of its first case, and the number of cases."""


def run_cases(
    data: Path, kind: str, first: int, count: int, tmp_path: Path, hang_seconds: int = HANG_SECONDS
) -> Outcome:
    """Read cases of one kind in a separate process, see ``run_jobs``."""
    return run_jobs(data, [(kind, first, count)], tmp_path, hang_seconds)[kind]


def run_jobs(data: Path, jobs: list[Job], tmp_path: Path, hang_seconds: int = HANG_SECONDS) -> dict[str, Outcome]:
    """Read cases of several kinds in a separate process, and return the outcome of each kind.

    The kernel ends the process when a case takes too much processor time. The kinds that are left have another one.
    """
    progress = tmp_path / "progress"
    found: dict[str, Outcome] = {}
    while left := jobs[len(found) :]:
        progress.write_bytes(bytes(8))
        words = [str(word) for job in left for word in job]
        arguments = ["-m", "tests.faults.reading", str(data), str(progress), str(hang_seconds), *words]
        done = forked.run(*arguments, cwd=ROOT, env=os.environ | ALLOCATORS, imported=("tests.faults.reading",))
        for (kind, _, _), line in zip(left, done.stdout.splitlines(), strict=False):
            report = json.loads(line)
            failures = [f"{kind} {item['number']}: {item['what']}" for item in report["failures"]]
            found[kind] = Outcome(report["outcomes"], failures, report["slowest"])
        if done.returncode:
            kind, number = jobs[len(found)][0], int.from_bytes(progress.read_bytes(), "little")
            how = "hangs" if done.returncode == -signal.SIGXCPU else f"ends the interpreter ({done.returncode})"
            found[kind] = Outcome(failures=[f"{kind} {number}: {how}\n{done.stderr[-2000:]}"])
    return found


def table(found: dict[str, Outcome]) -> str:
    """Return a table with one row per kind."""
    rows = ["| files | cases | read | refused | other | slowest |", "|---|---|---|---|---|---|"]
    for kind, outcome in found.items():
        read, refused = outcome.counts.get("read", 0), outcome.counts.get("FormatError", 0)
        cases = sum(outcome.counts.values()) + len(outcome.failures)
        other = cases - read - refused
        rows.append(f"| {kind} | {cases:,} | {read:,} | {refused:,} | {other:,} | {outcome.slowest:.2f} s |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("summary", type=Path)
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=FULL)
    parser.add_argument("--data", type=Path, default=data_folder())
    given = parser.parse_intermixed_args()
    known = json.loads(given.summary.read_text()) if given.summary.exists() else {}
    found = {kind: Outcome(**about) for kind, about in known.items()}
    for kind in given.kinds or KINDS:
        outcome = found.setdefault(kind, Outcome())
        with tempfile.TemporaryDirectory() as folder:
            while (done := sum(outcome.counts.values())) < given.count and not outcome.failures:
                count = min(CHUNK, given.count - done)
                outcome.add(run_cases(given.data, kind, FIRST + done, count, Path(folder)))
                given.summary.write_text(json.dumps({kind: asdict(one) for kind, one in found.items()}, indent=1))
    print(table(found))


if __name__ == "__main__":
    main()
