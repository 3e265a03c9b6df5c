"""Cases of the campaign: the damage, the use of the damaged file, and the verdict."""

from __future__ import annotations

import contextlib
import importlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.damage.children import Ended, run_forked
from tests.faults.damage.flips import Damage, apply_damage, draw_damage
from tests.faults.damage.kinds import KINDS, Kind
from tests.faults.damage.serving import REFUSED
from tests.faults.damage.specimens import Specimens

SAME, REJECTED = "same output", "rejected by name"
ALLOCATOR: Final = "jemalloc_bg_thd"
"""A thread of Arrow's allocator, which supports forks."""
ALLOWED: Final = (SAME, REJECTED)
CHANGED, UNNAMED, UNTYPED, CRASHED = "changed output", "rejected without a name", "untyped error", "crash or hang"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case."""

    kind: str
    number: int
    use: str
    damage: str
    verdict: str
    detail: str
    seconds: float


def outputs(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the output of each use on undamaged files. The modules it needs are imported in this process."""
    specimens, found = Specimens(folder), {}
    for use in dict.fromkeys(use for kind in KINDS for use in kind.uses):
        ended = run_forked(use, folder)
        specimens.restore()
        if ended.error:
            raise AssertionError(f"{use.__name__} fails without any damage: {ended.error}: {ended.message}")
        found[use.__name__] = ended.found
        for name in ended.imported:
            with contextlib.suppress(Exception):  # some cannot be imported by their name
                importlib.import_module(name)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert sum(name != ALLOCATOR for name in names) == 1, (
        f"a process with several threads cannot be forked safely: {names}"
    )
    return found


def carry_out(specimens: Specimens, kind: Kind, number: int, undamaged: dict[str, tuple[str, ...]]) -> Outcome:
    """Damage a file, use it in a child process, determine the verdict, and restore everything."""
    use = kind.uses[number % len(kind.uses)]
    choice = random.Random(f"{kind.name} {number}")
    damage = draw_damage(specimens.folder, kind.files(specimens.folder), choice)
    apply_damage(specimens.folder, damage)
    try:
        ended = run_forked(use, specimens.folder)
    finally:
        specimens.restore()
    verdict = verdict_of(ended, damage, undamaged[use.__name__])
    detail = f"{ended.error}: {ended.message}" if ended.error else ""
    return Outcome(kind.name, number, use.__name__, str(damage), verdict, detail[-1000:], ended.seconds)


def verdict_of(ended: Ended, damage: Damage, undamaged: tuple[str, ...]) -> str:
    """Return the verdict on a child. All of its output must match that of undamaged files."""
    given = zip(ended.found, undamaged, strict=False)
    if len(ended.found) > len(undamaged) or any(one not in (REFUSED, other) for one, other in given):
        return CHANGED
    if not ended.error:
        return SAME if ended.found == undamaged else CHANGED
    if not ended.typed:
        return CRASHED if " " in ended.error else UNTYPED
    return REJECTED if Path(damage.file).name in ended.message else UNNAMED
