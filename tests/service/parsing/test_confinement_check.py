"""The service checks the confinement of uploads and does not start without it."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from clocs.core.errors import ConfigError
from clocs.service.parsing.confinement import PACKAGE
from clocs.service.parsing.confinement_check import check_confinement, check_folders, parser_environment
from clocs.service.parsing.landlock import landlock_version
from clocs.service.settings import ServiceSettings
from clocs.service.state import load_service
from tests.service.parsing.launching import hiding, lower_priority
from tests.service.samples import sample
from tests.service.uploading import TOKEN, multipart

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are confined on Linux only")
TRY = """
import sys
from clocs.core.errors import ConfigError
from clocs.service.parsing.confinement_check import check_confinement
try:
    print(check_confinement(without_landlock="--without-landlock" in sys.argv).level)
except ConfigError as error:
    print(error)
"""
FEIGN = "from clocs.service.parsing import confinement\nconfinement.on_linux = lambda: False\n"
"""Module ``sitecustomize`` that lets every process of the service, but not its libraries, detect another system."""


def tried(prepare: Callable[[], None] | None, *options: str) -> str:
    """The level that a process finds which was prepared so, or its error."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, *options], preexec_fn=prepare, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@linux_only
def test_both_layers_are_installed() -> None:
    assert tried(None) == f"seccomp+landlock {landlock_version()}"
    assert tried(None, "--without-landlock") == tried(None)  # it is used where it is


@linux_only
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM])
def test_without_landlock_an_error_names_the_option(error: int) -> None:
    """The kernel is too old, has it switched off, or a container hides it."""
    hidden = hiding("landlock_create_ruleset", error)
    assert "This kernel has no Landlock" in tried(hidden)
    assert tried(hidden).endswith("with --without-landlock.")
    assert tried(hidden, "--without-landlock") == "seccomp"


@linux_only
@pytest.mark.parametrize(
    ("call", "error"), [("seccomp", errno.EPERM), ("seccomp", errno.ENOSYS), ("landlock_restrict_self", errno.E2BIG)]
)
def test_a_layer_that_cannot_be_installed_prevents_the_start(call: str, error: int) -> None:
    """No option helps."""
    found = tried(hiding(call, error), "--without-landlock")
    assert found == (f"Parsing processes cannot be confined: {call}: {os.strerror(error)}. The service does not start.")


def test_an_empty_element_of_the_path_is_not_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    given = os.pathsep.join(("", "packages", str(PACKAGE.parent), ""))
    monkeypatch.setenv("PYTHONPATH", given)
    (tmp_path / "packages").mkdir()
    assert parser_environment()["PYTHONPATH"] == f"{tmp_path / 'packages'}{os.pathsep}{PACKAGE.parent}"
    folders = check_confinement().folders
    assert str(tmp_path / "packages") in folders
    assert not {"/", str(tmp_path)} & set(folders)
    monkeypatch.setenv("PYTHONPATH", "")
    assert "PYTHONPATH" not in parser_environment()


def test_readable_folders_are_of_python_and_clocs() -> None:
    folders = check_confinement().folders
    for module in (os, pytest, sys.modules["clocs"]):
        assert any(Path(str(module.__file__)).resolve().is_relative_to(folder) for folder in folders), module
    assert not any(Path(folder) in Path.home().parents or Path(folder) == Path.home() for folder in folders)


@pytest.mark.parametrize("what", ["index", "store 1", "token file", "audit log"])
def test_a_readable_folder_that_contains_private_files_is_refused(what: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "packages")
    inside, outside = tmp_path / "packages" / "deep" / "x", tmp_path / "packages2"
    folders = ("/usr/lib/python3", str(tmp_path / "packages"))
    check_folders(folders, {what: outside})
    for path in (inside, tmp_path / "link" / "x", tmp_path / "packages"):
        with pytest.raises(ConfigError, match=f"contains the {what} {path}. Move the {what}"):
            check_folders(folders, {"other": outside, what: path})


def test_the_root_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"and / is one of them, .* Remove it from PYTHONPATH"):
        check_folders(("/",), {})


@pytest.mark.parametrize("what", ["index", "archive", "store", "token file", "audit log"])
def test_a_service_that_would_show_its_files_is_not_loaded(
    what: str, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its folders is on Python's path."""
    folders = {name: demo / name for name in ("index", "archive", "store")}
    folders |= {"token file": tmp_path / "secrets", "audit log": tmp_path / "logs"}
    folders[what].mkdir(exist_ok=True)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGE.parent}{os.pathsep}{folders[what]}")
    settings = ServiceSettings(
        open_access=True,
        index=demo / "index",
        token_file=tmp_path / "secrets" / "token",
        audit_log=tmp_path / "logs" / "searches.jsonl",
    )
    with pytest.raises(ConfigError, match=f"Parsing processes can read {folders[what]}, .* contains the {what}"):
        load_service(settings)


@contextmanager
def serving(*options: object, **process: object) -> Iterator[subprocess.Popen[str]]:
    """``clocs serve`` on a free port."""
    command = [sys.executable, "-m", "clocs", "serve", "--port", "0", "--processes", "1", *map(str, options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, **pipes, **process)  # type: ignore[call-overload]
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def asked(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    assert answer.status == 200, found
    return found


def port_of(running: subprocess.Popen[str]) -> int:
    assert running.stdout is not None
    address = running.stdout.readline()
    found = re.match(r"http://127\.0\.0\.1:(\d+)/", address)
    assert found, address + running.communicate()[1]
    return int(found[1])


@pytest.mark.slow
@linux_only
def test_with_the_option_a_service_starts_without_landlock_and_says_so(real_data: Path, tmp_path: Path) -> None:
    """Started by a niced user without privileges, too."""

    def prepare() -> None:
        lower_priority()
        hiding("landlock_create_ruleset", errno.ENOSYS)()

    options = ("--open-access", "--audit-log", tmp_path / "searches.jsonl")
    with serving(*options, preexec_fn=prepare) as refused:
        _, errors = refused.communicate()
        assert refused.returncode == 1
        assert "--without-landlock" in errors
    with serving(*options, "--without-landlock", preexec_fn=prepare) as running:
        port = port_of(running)
        assert json.loads(asked(port, "GET", "/readyz"))["confinement"] == "seccomp"
        assert b'clocs_parsing_confinement{level="seccomp"} 1.0' in asked(port, "GET", "/metrics")
        body, headers = multipart(sample(real_data, "muse-xml"))
        assert json.loads(asked(port, "POST", "/api/v1/preview", body, **headers))["leads"]
        running.terminate()
        _, log = running.communicate()
    (line,) = (json.loads(line) for line in log.splitlines() if "parsing processes started" in line)
    assert (line["level"], line["confinement"]) == ("warning", "seccomp")


NOT_CONFINED = """
import sys
from pathlib import Path
from clocs.service import server, state
from clocs.service.parsing.confinement import Confinement
from clocs.service.settings import ServiceSettings
state.check_confinement = lambda **options: Confinement(True, 1, ("/absent-from-every-machine",))
server.run(ServiceSettings(open_access=True, port=0, audit_log=Path(sys.argv[1])))
"""


@linux_only
def test_a_process_that_cannot_be_confined_ends_the_start(tmp_path: Path) -> None:
    """Also where the trial held; the log has the reason."""
    command = [sys.executable, "-c", NOT_CONFINED, str(tmp_path / "searches.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    (line,) = (json.loads(line) for line in done.stderr.splitlines() if "parsing processes cannot be started" in line)
    assert line["reason"] == os.strerror(errno.ENOENT)


def test_on_other_systems_only_the_demo_starts_with_a_warning(
    demo: Path, tmp_path: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FEIGN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{PACKAGE.parent}")
    assert tried(None).endswith("which needs Linux. To try the service on this system run: clocs serve --demo.")
    with pytest.raises(ConfigError, match=r"Listen on 127\.0\.0\.1, not on 0\.0\.0\.0"):
        ServiceSettings(token=SecretStr(TOKEN), host="0.0.0.0", unconfined=True)
    with serving("--demo", "--demo-folder", demo, "--open-access") as running:
        port = port_of(running)
        assert json.loads(asked(port, "GET", "/readyz"))["confinement"] == "none"
        body, headers = multipart(sample(real_data, "muse-xml"))
        assert json.loads(asked(port, "POST", "/api/v1/preview", body, **headers))["leads"]
        running.terminate()
        _, log = running.communicate()
    assert log.startswith("warning: uploads are parsed without a sandbox, because this is not Linux")
