"""A researcher needs no module or call that only some systems have."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.without_posix import CALLS, MODULES

SOURCE = ROOT / "src" / "clocs"


def test_from_a_file_to_a_trained_encoder(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "without_posix.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [message for message in found.pop("warnings") if "lock files" in message] == [
        "This system cannot lock files. Do not write to one folder with several processes at a time."
    ]
    # Nothing of the service is imported, and so neither seccomp nor Landlock.
    assert found == {"leads": 12, "faults": 0, "dimension": 128, "neighbors": 3, "steps": 2, "service": []}


def test_only_the_service_uses_calls_of_some_systems() -> None:
    uses = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in _names(ast.parse(path.read_text(encoding="utf-8")))
        if path.relative_to(SOURCE).parts[0] != "service" and name in {*MODULES, *(f"os.{call}" for call in CALLS)}
    }
    assert uses == {("core/storage/file_locks.py", "fcntl")}


def _names(tree: ast.AST) -> set[str]:
    """Return the imported modules and the attributes of ``os`` that code uses."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            names.add(f"os.{node.attr}")
    return names
