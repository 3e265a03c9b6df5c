"""The code of the README and of the first page of the docs runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from tests import forked

ROOT = Path(__file__).resolve().parents[1]
NEEDS_USERS_FILES = ("ARCHIVE", "A0001.hea", "stores/chapman", "pip install")


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)
    return [block for block in found if not any(word in block for word in NEEDS_USERS_FILES)]


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


def test_commands_run(tmp_path: Path) -> None:
    lines = [line for block in blocks("docs/getting-started.md", "sh") for line in block.splitlines()]
    assert {line.split()[0] for line in lines} == {"clocs"}
    done = forked.run("-c", ONE_BY_ONE, *lines, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\ndone: clocs ") == len(lines)
    assert (tmp_path / "ecg.png").exists()


def test_python_runs(tmp_path: Path) -> None:
    (script,) = blocks("README.md", "python")
    assert len(script.splitlines()) <= 10
    check = "assert embedding.shape == (128,) and 0 < finding.probability < 1 and len(neighbors) == 3"
    done = forked.run("-c", script + check, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_pictures_and_links_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", text):
        path = "".join(target)
        assert path.startswith("http") or (ROOT / path).exists(), path
