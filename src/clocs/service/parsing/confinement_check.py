"""Check of the confinement that this machine supports, before parsing processes are started.

The short-lived process ``python -m clocs.service.parsing.confinement_check`` confines itself and reports the layers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.service.parsing.confinement import Confinement, confine, library_folders, on_linux
from clocs.service.parsing.landlock import landlock_version

_INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "MPLCONFIGDIR", "XDG_CACHE_HOME")
_SINGLE_THREADED: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    "MPLBACKEND": "agg",
}
"""Settings that keep libraries single-threaded, because Landlock applies only to the thread that requests it."""


def python_command(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of this package without the working directory on its path."""
    return (sys.executable, "-P", "-m", f"clocs.service.parsing.{module}")


def parser_environment() -> dict[str, str]:
    """Return the environment of parsing processes.

    Empty elements of PYTHONPATH are dropped: they mean the working directory, which is the root folder there.
    """
    kept = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    folders = [os.path.abspath(item) for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    return kept | _SINGLE_THREADED | ({"PYTHONPATH": os.pathsep.join(folders)} if folders else {})


def check_confinement(*, without_landlock: bool = False, unconfined: bool = False) -> Confinement:
    """Return the confinement that this machine supports.

    Args:
        without_landlock: Accept a kernel without Landlock.
        unconfined: Accept a system other than Linux.

    Returns:
        The confinement of parsing processes.

    Raises:
        ConfigError: A required layer cannot be installed.
    """
    done = subprocess.run(
        python_command("confinement_check"),
        env=parser_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError(f"Parsing processes cannot be confined: {reason}. The service does not start.")
    found = json.loads(done.stdout)
    confinement = Confinement(found["seccomp"], found["landlock"], tuple(found["folders"]))
    if not confinement.seccomp and not unconfined:
        raise ConfigError(
            "Uploads are parsed in confined processes, which needs Linux. To try the service on this system run: "
            "clocs serve --demo."
        )
    if confinement.seccomp and not confinement.landlock and not without_landlock:
        raise ConfigError(
            "This kernel has no Landlock (Linux 5.13 or newer, enabled), so a hostile upload that takes over its "
            "parsing process could read every file that the service can read. Enable Landlock, or accept the risk with "
            "--without-landlock."
        )
    return confinement


def check_folders(folders: tuple[str, ...], private: Mapping[str, Path]) -> None:
    """Check that readable folders do not contain private files.

    Args:
        folders: Folders that parsing processes can read.
        private: Private files and folders by description, such as ``{"token file": path}``.

    Raises:
        ConfigError: A folder is the root folder, or contains a private file.
    """
    for folder in map(Path, folders):
        if folder == Path(folder.anchor):
            raise ConfigError(
                f"Parsing processes can read Python's folders, and {folder} is one of them, so they could read every "
                "file. Remove it from PYTHONPATH and from Python's .pth files."
            )
        for what, path in private.items():
            if path.resolve().is_relative_to(folder):
                raise ConfigError(
                    f"Parsing processes can read {folder}, a folder of Python's packages that contains the {what} "
                    f"{path}. Move the {what}, or remove the folder from PYTHONPATH."
                )


def main() -> None:
    """Confine this process and print the layers."""
    is_linux = on_linux()
    found = Confinement(is_linux, landlock_version() if is_linux else 0, library_folders())
    try:
        confine(found)
    except OSError as error:
        sys.exit(error.strerror or str(error))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
