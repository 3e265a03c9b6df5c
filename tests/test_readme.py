"""What the README and the first page of the docs tell a stranger to type works as it stands."""

from __future__ import annotations

import itertools
import re
import zipfile
from pathlib import Path

from tests import forked

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/getting-started.md")
NEEDS_USERS_FILES = ("ARCHIVE", "A0001.hea", "stores/chapman", "pip install")


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)
    return [block for block in found if not any(word in block for word in NEEDS_USERS_FILES)]


RECORDS = ("00001_hr", "A00001", "MUSE_20180111_155115_19000")
"""Original files that the README names."""


ONE_BY_ONE = """
import shlex, sys
from clocs.cli.main import main

for line in sys.argv[1:]:
    sys.argv = shlex.split(line)
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"{line}: exit code {ended.code}")
    print("\\ndone:", line, flush=True)
"""
"""Commands in one process: each would import torch again."""


def test_commands_run(tmp_path: Path, originals: Path) -> None:
    """Those of both pages, one after the other; what both tell is done once."""
    with zipfile.ZipFile(originals) as archive:
        for name in archive.namelist():
            if Path(name).stem in RECORDS and "cpsc" not in name:
                (tmp_path / Path(name).name).write_bytes(archive.read(name))
    told = [[line for block in blocks(page, "sh") for line in block.splitlines()] for page in PAGES]
    assert [bool(lines) for lines in told] == [True, True]
    lines = list(dict.fromkeys(itertools.chain(*told)))
    assert {line.split()[0] for line in lines} == {"clocs"}
    done = forked.run("-c", ONE_BY_ONE, *lines, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\ndone: clocs ") == len(lines)
    assert (tmp_path / "ecg.png").exists()


def test_python_runs(tmp_path: Path) -> None:
    (script,) = blocks("README.md", "python")
    check = "assert batch.shape == (3, 1, 2500) and recording.signal.shape == (12, 5000)"
    done = forked.run("-c", script + check, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_pictures_and_links_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target
