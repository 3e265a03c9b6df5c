"""Python processes forked from one that has imported clocs and torch: ``run("-m", "clocs", "data", "list")``.

Importing torch takes seconds of processor time. The process that is forked only imports: it computes nothing and has
one thread, so a fork of it behaves as a new process does. A test of imports or of a start needs a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = (
    "clocs.cli.main",
    "clocs.cli.data",
    "clocs.evaluation.finetune",
    "clocs.evaluation.probe",
    "clocs.inference.pretrained",
    "clocs.similarity.index.updates",
    "clocs.training.pretrain",
    "lightning_fabric",
    "scipy.stats",
    "sklearn.linear_model",
)


def run(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    imported: tuple[str, ...] = IMPORTED,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments: ``-m`` and a module, ``-c`` and code, or the path of a script.

    The first call for the same ``imported`` modules starts the process that imports them, in its environment.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        output = [str(Path(folder, name)) for name in ("out", "err")]
        told = dict(env or os.environ)
        server = _servers.get(imported) or _servers.setdefault(imported, _start(imported, told))
        asked = {"words": words, "cwd": str(cwd or Path.cwd()), "env": told, "output": output}
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, *(Path(path).read_text() for path in output))


_servers: dict[tuple[str, ...], subprocess.Popen[str]] = {}


def _start(imported: tuple[str, ...], env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process that imports and forks."""
    command, pipe = [sys.executable, "-X", "faulthandler", "-m", "tests.forked", *imported], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True)


@atexit.register
def end() -> None:
    """End the processes that import and fork."""
    while _servers:
        _servers.popitem()[1].communicate()


def _serve() -> dict[str, Any] | None:
    """Fork for each request. Return the request in the fork, None at the end."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # a fork that looks for garbage in what is shared copies all of it
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            asked: dict[str, Any] = json.loads(line)
            return asked
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def _become(words: list[str], cwd: str, env: dict[str, str], output: list[str]) -> None:
    """Do what ``python WORDS`` does. An error or exit ends this process as it ends Python."""
    for number, path in enumerate((os.devnull, *output)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    known = [path for path in sys.path if path not in (str(ROOT), *paths)]
    kind, rest = words[0], words[1:]
    if kind in ("-m", "-c"):
        sys.path[:] = [cwd, *paths, *known]
    else:
        sys.path[:] = [str(Path(kind).resolve().parent), *paths, *known]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__" and (request := _serve()):
    _become(**request)
