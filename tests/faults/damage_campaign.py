"""Script: flip bits in, or truncate, every kind of file that clocs writes, then use the file.

python -m tests.faults.damage_campaign [--count N] [--first N] [--kinds TEXT ...] [--workers N]
    [--summary FILE] [--data FOLDER]

Each kind of file gets the same number of cases. A case damages one file and restores its times; then a child uses the
file. It must find what it found without the damage, or reject the file by its name. A table of all outcomes is printed;
the script fails where anything else happened. (``tests.faults.campaign`` damages the ECG files that clocs reads.)
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.damage.cases import Outcome

COUNT = 10_000
SHOWN = 3
"""Maximum number of printed failures per kind."""
ENVIRONMENT = {
    # A process with several threads cannot be forked safely.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # Arrow's own allocator reserves more than the memory that a case may take.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
IMPORTED = ("faiss", "lightning_fabric.fabric", "pandas", "pyarrow.dataset", "scipy.signal", "torch._dynamo")
"""Modules that some uses import. They are imported once in this process, not in every child."""
_OURS: dict[str, Any] = {}
"""State of a worker."""


def run_campaign(originals: Path, first: int, count: int, wanted: list[str], workers: int) -> list[Outcome]:
    """Run cases, evenly distributed over all kinds of files with one of the wanted texts in their name."""
    with tempfile.TemporaryDirectory(prefix="clocs-damage-", dir=_fast_folder()) as place:
        folder = Path(place) / "made"
        for module in IMPORTED:
            importlib.import_module(module)
        from tests.faults.damage.cases import outputs
        from tests.faults.damage.kinds import KINDS
        from tests.faults.damage.specimens import make_specimens

        context = multiprocessing.get_context("fork")
        making = context.Process(target=make_specimens, args=(originals, folder))
        making.start()
        making.join()
        if making.exitcode:
            raise SystemExit("the specimens could not be made")
        kinds = [kind for kind in KINDS if kind.files(folder) and any(text in kind.name for text in wanted or [""])]
        undamaged = outputs(folder)
        cases = [
            (kind.name, first + number // len(kinds)) for number, kind in zip(range(count), kinds * count, strict=False)
        ]
        with context.Pool(workers, _begin, (folder, undamaged)) as pool:
            found = list(pool.imap_unordered(_carry_out, cases, chunksize=4))
            pool.close()
            pool.join()
    return found


def _fast_folder() -> str | None:
    """Return a folder in memory if there is one, because every case writes and some wait for the disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _begin(folder: Path, undamaged: dict[str, tuple[str, ...]]) -> None:
    """Give a worker its own copy of all files, with their times."""
    from tests.faults.damage.kinds import KINDS
    from tests.faults.damage.specimens import Specimens

    own = folder.with_name(f"worker-{os.getpid()}")
    shutil.copytree(folder, own)
    _OURS.update(specimens=Specimens(own), undamaged=undamaged, kinds={kind.name: kind for kind in KINDS})


def _carry_out(case: tuple[str, int]) -> Outcome:
    from tests.faults.damage.cases import carry_out

    kind, number = case
    return carry_out(_OURS["specimens"], _OURS["kinds"][kind], number, _OURS["undamaged"])


def table(found: list[Outcome]) -> str:
    """One row for each kind of file."""
    verdicts = sorted({outcome.verdict for outcome in found})
    rows = [f"| file | cases | {' | '.join(verdicts)} | seconds a case |", "|---" * (len(verdicts) + 3) + "|"]
    for kind in dict.fromkeys(outcome.kind for outcome in sorted(found, key=lambda outcome: outcome.kind)):
        of_kind = [outcome for outcome in found if outcome.kind == kind]
        counts = Counter(outcome.verdict for outcome in of_kind)
        numbers = " | ".join(f"{counts[verdict]:,}" for verdict in verdicts)
        seconds = sum(outcome.seconds for outcome in of_kind) / len(of_kind)
        rows.append(f"| {kind} | {len(of_kind):,} | {numbers} | {seconds:.3f} |")
    return "\n".join(rows)


def failures(found: list[Outcome]) -> list[Outcome]:
    """Return the cases with a forbidden outcome, in a fixed order."""
    from tests.faults.damage.cases import ALLOWED

    return sorted((one for one in found if one.verdict not in ALLOWED), key=lambda one: (one.kind, one.number))


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended children."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> int:
    from tests.conftest import data_folder

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case of each kind")
    parser.add_argument("--kinds", nargs="*", default=[], help="texts of which a kind's name contains one")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--summary", type=Path, help="a JSON file for all outcomes")
    parser.add_argument("--data", type=Path, default=data_folder())
    given = parser.parse_args()
    found = run_campaign(given.data / "originals.zip", given.first, given.count, given.kinds, given.workers)
    wrong = failures(found)
    if given.summary is not None:
        summary_data = {"processor_seconds": processor_seconds(), "outcomes": [asdict(outcome) for outcome in found]}
        given.summary.write_text(json.dumps(summary_data, indent=1))
    shown: Counter[tuple[str, str]] = Counter()
    for outcome in wrong:
        shown[outcome.kind, outcome.verdict] += 1
        if shown[outcome.kind, outcome.verdict] <= SHOWN:
            print(
                f"{outcome.kind} {outcome.number}, {outcome.use}: {outcome.damage}: {outcome.verdict}\n{outcome.detail}"
            )
    print(table(found))
    print(f"{len(found):,} cases, {len(wrong):,} failures, {processor_seconds():.0f} s of processor time")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    sys.exit(main())
