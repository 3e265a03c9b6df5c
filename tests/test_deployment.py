"""The files of ``deploy/``, compared with the command that they start and with the service."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr
from typer.main import get_command

from clocs import __version__
from clocs.cli.main import app
from clocs.service.metrics import Metrics
from clocs.service.parsing.pool import WALL_CLOCK_FACTOR
from clocs.service.routes import open_routes
from clocs.service.server import SPARE_SECONDS
from clocs.service.settings import Limits, read_tokens
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if path.is_file())
PORT = 8000
CONTAINER_USER = "10001:10001"
TOKEN = "/run/secrets/clocs_token"
LONGEST_END = Limits().upload_seconds + WALL_CLOCK_FACTOR * Limits().parse_seconds + SPARE_SECONDS
"""Seconds for which the service may answer requests that it has accepted."""


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile in order, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def instruction(name: str) -> str:
    """The last one of a name."""
    return [value for found, value in instructions() if found == name][-1]


def unit() -> dict[str, list[str]]:
    """The unit's settings; a setting may be given several times."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "clocs.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


SERVICE = compose()["services"]["clocs"]
EXEC_START = unit()["ExecStart"][0]


def option(arguments: list[str], name: str) -> str:
    """The value of ``--name VALUE`` or ``--name=VALUE``."""
    joined = [word for argument in arguments for word in argument.split("=", 1)]
    return joined[joined.index(name) + 1]


def commands() -> dict[str, list[str]]:
    """The arguments of ``clocs serve`` in each place."""
    program, verb, *given = shlex.split(EXEC_START)
    assert (Path(program).name, verb) == ("clocs", "serve")
    assert yaml.safe_load(instruction("ENTRYPOINT")) == ["clocs", "serve"]
    return {
        "image": yaml.safe_load(instruction("CMD")),
        "compose": SERVICE["command"],
        "unit": [word for word in given if word != "$CLOCS_OPTIONS"],
    }


@pytest.mark.parametrize("place", ["image", "compose", "unit"])
def test_every_option_is_one_of_the_command(place: str) -> None:
    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    known = {name for parameter in serve.params for name in parameter.opts}
    given = {word.split("=", 1)[0] for word in commands()[place] if word.startswith("--")}
    assert given <= known
    assert {"--host", "--port", "--token-file", "--audit-log"} <= given
    assert "--open-access" not in given


@pytest.mark.parametrize(("command", "page"), [("serve", "deployment.md"), ("receive", "receiving.md")])
def test_the_options_that_pages_and_comments_name_exist(command: str, page: str) -> None:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    known = {name for parameter in parameters for name in parameter.opts}
    files = [
        path
        for path in FILES
        if path.name != "Dockerfile" and path.suffix != ".sh" and ("receive" in path.name) == (command == "receive")
    ]
    text = "".join(path.read_text() for path in files)
    text += "\n".join(re.findall(rf"clocs {command}[^`\n]*", (ROOT / "docs" / "reference" / page).read_text()))
    found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert found
    assert found <= known


def test_ports_are_one() -> None:
    assert {option(arguments, "--port") for arguments in commands().values()} == {str(PORT)}
    assert instruction("EXPOSE") == str(PORT)
    assert f"'127.0.0.1', {PORT}" in instruction("HEALTHCHECK")
    assert SERVICE["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert unit()["SocketBindAllow"] == [f"tcp:{PORT}"]
    assert f"server 127.0.0.1:{PORT};" in (DEPLOY / "nginx.conf").read_text()


def test_only_a_container_listens_beyond_loopback() -> None:
    hosts = {place: option(arguments, "--host") for place, arguments in commands().items()}
    assert hosts == {"image": "0.0.0.0", "compose": "0.0.0.0", "unit": "127.0.0.1"}


def test_the_health_check_uses_an_existing_address() -> None:
    (path,) = re.findall(r"'GET', '([^']+)'", instruction("HEALTHCHECK"))
    assert path in {route.path for route in open_routes.routes}  # type: ignore[attr-defined]
    assert "curl" not in instruction("HEALTHCHECK")


def test_no_process_runs_as_root() -> None:
    assert instruction("USER") == SERVICE["user"] == CONTAINER_USER
    assert unit()["User"] == ["clocs"]
    assert "--uid 10001" in " ".join(value for name, value in instructions() if name == "RUN")


def test_the_token_comes_as_a_secret() -> None:
    for place in ("image", "compose"):
        assert option(commands()[place], "--token-file") == TOKEN
    assert SERVICE["secrets"] == [Path(TOKEN).name]
    assert list(compose()["secrets"]) == [Path(TOKEN).name]
    name = unit()["LoadCredential"][0].split(":")[0]
    assert option(commands()["unit"], "--token-file") == f"${{CREDENTIALS_DIRECTORY}}/{name}"
    assert "environment" not in SERVICE


def test_the_audit_log_is_rotated_and_the_service_signalled() -> None:
    rules = (DEPLOY / "clocs.logrotate").read_text()
    path = option(commands()["unit"], "--audit-log")
    folder = f"/var/log/{unit()['LogsDirectory'][0]}"
    assert path.replace("${LOGS_DIRECTORY}", folder) + " {\n" in rules
    assert f"su {unit()['User'][0]} {unit()['Group'][0]}\n" in rules
    assert "systemctl reload clocs.service\n" in rules
    assert unit()["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert {"nocreate", "missingok"} <= set(rules.split())
    assert "copytruncate" not in rules  # lines between the copy and the cut would be lost


def test_a_container_gets_its_host_name() -> None:
    assert option(commands()["compose"], "--allowed-host") == "${CLOCS_NAME:-localhost}"


def test_the_container_is_closed() -> None:
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert SERVICE["mem_limit"] == SERVICE["memswap_limit"]
    assert SERVICE["pids_limit"] <= 512
    assert {"privileged", "network_mode", "cap_add", "devices"}.isdisjoint(SERVICE)
    (archive,) = [volume for volume in SERVICE["volumes"] if volume["target"] == "/srv/clocs"]
    assert archive["read_only"] is True
    written = Path(option(SERVICE["command"], "--audit-log")).parent
    assert [volume["target"] for volume in SERVICE["volumes"] if not volume.get("read_only")] == [str(written)]
    assert SERVICE["image"] == f"clocs:{__version__}"


def test_temporary_files_have_room_for_all_uploads_at_once_and_memory_for_them() -> None:
    """A request's place counts the upload it sends; parsing processes count their limit."""
    megabytes, processes = (int(option(SERVICE["command"], name)) for name in ("--max-upload-mb", "--processes"))
    (room,) = re.findall(r"^/tmp:.*size=(\d+)m", SERVICE["tmpfs"][0])
    uploads = megabytes * (processes + Limits().waiting)
    assert int(room) > uploads
    parsing = processes * ((Limits().parse_memory_bytes >> 20) + 150)
    assert int(SERVICE["mem_limit"].removesuffix("g")) * 1024 > parsing + uploads + 600
    assert unit()["MemoryMax"] == [SERVICE["mem_limit"].upper()]
    assert option(commands()["unit"], "--max-upload-mb") == str(megabytes)
    (body,) = re.findall(r"client_max_body_size (\d+)m;", (DEPLOY / "nginx.conf").read_text())
    assert int(body) > megabytes


def test_accepted_requests_have_time_to_end() -> None:
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > LONGEST_END
    assert int(unit()["TimeoutStopSec"][0]) > LONGEST_END
    (wait,) = re.findall(r"proxy_read_timeout (\d+)s;", (DEPLOY / "nginx.conf").read_text())
    assert int(wait) > LONGEST_END


def test_the_unit_is_closed() -> None:
    found = unit()
    for name, value in {
        "ProtectSystem": "strict",
        "IPAddressDeny": "any",
        "IPAddressAllow": "localhost",
        "CapabilityBoundingSet": "",
        "MemorySwapMax": "0",
        "LimitCORE": "0",
        "UMask": "0077",
        "KillMode": "mixed",
    }.items():
        assert found[name] == [value], name
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert found[name] == ["yes"], name
    allowed = found["SystemCallFilter"][0].split()
    assert {"seccomp", "landlock_restrict_self"} <= set(allowed)


@pytest.mark.parametrize("unit", ["clocs.service", "clocs-receive.service"])
def test_systemd_understands_the_unit(tmp_path: Path, unit: str) -> None:
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("no systemd-analyze; on Debian: apt-get install systemd")
    text = (DEPLOY / unit).read_text().replace("/opt/clocs/bin/clocs", "/bin/true")
    (tmp_path / unit).write_text(text)
    done = subprocess.run([analyse, "verify", tmp_path / unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_is_pinned_and_comes_without_torch() -> None:
    values = dict(value.split("=", 1) for name, value in instructions() if name == "ARG" and "=" in value)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", values["PYTHON_IMAGE"])
    assert not [value for name, value in instructions() if name == "RUN" and re.search(r"torch|train", value)]
    assert {value.split()[0] for name, value in instructions() if name == "FROM"} == {"${PYTHON_IMAGE}"}


def test_what_is_copied_into_the_image_is_there_and_not_left_out() -> None:
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.rstrip('/')}" in kept, source


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_local_path_is_named(path: Path) -> None:
    text = path.read_text()
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    hospital = {"login.hospital.example", "ecg.hospital.example"}
    assert hosts <= {"clocs", "127.0.0.1", "github.com", *hospital}
    assert not re.search(r"/(work|home|root|Users)\b|mirror|find-links|extra-index|proxy=", text)


def test_alerts_ask_for_what_is_measured() -> None:
    metrics = Metrics()
    metrics.requests.labels("x", "200").inc()
    metrics.parsing.labels("ok").inc()
    known = {line.split("{")[0].split(" ")[0] for line in metrics.text().decode().splitlines() if line[0] != "#"}
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    asked = {name for rule in rules for name in re.findall(r"(?:clocs|process)_\w+", rule["expr"])}
    assert len(rules) == len({rule["alert"] for rule in rules})
    assert {"ClocsDamagedFile", "ClocsFaults"} <= {rule["alert"] for rule in rules}
    assert asked <= known


def test_a_systemd_credential_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since version 254, systemd credentials are owned by root, with an access list that shows as a group bit."""
    path = tmp_path / "token"
    path.write_text("sixteen-signs-ok\n")
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_tokens(path) == {"token": SecretStr("sixteen-signs-ok")}
    path.chmod(0o444)
    with pytest.raises(Exception, match="is readable by other users"):
        read_tokens(path)


def test_the_commands_start_and_the_health_check_finds_them(tmp_path: Path) -> None:
    """The unit's own command with its folders elsewhere, then the image's own check against it, then the end."""
    (tmp_path / "token").write_text("sixteen-signs-ok\n")
    (tmp_path / "token").chmod(0o600)
    command = EXEC_START.replace("/opt/clocs/bin/clocs", f"{sys.executable} -m clocs").replace("$CLOCS_OPTIONS", "")
    command = command.replace("${CREDENTIALS_DIRECTORY}", str(tmp_path)).replace("${LOGS_DIRECTORY}", str(tmp_path))
    command = command.replace("--index /srv/clocs/index", "").replace("--processes 4", "--processes 1")
    command = command.replace(f"--port {PORT}", "--port 0")
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        shlex.split(command), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
        check = yaml.safe_load(instruction("HEALTHCHECK").split("CMD", 1)[1])
        assert check[:2] == ["python", "-c"]
        code = check[2].replace(str(PORT), str(port))
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/api/v1/model", headers={"authorization": "Bearer sixteen-signs-ok"})
        assert connection.getresponse().status == 200
        connection.close()
        process.terminate()
        _, log = process.communicate()
        assert process.returncode == 0
        assert "graceful shutdown exceeded" not in log, "it ends because it is done, not because its time is over"
        assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 1
    finally:
        process.kill()
    assert [path.name for path in tmp_path.iterdir() if not fnmatch(path.name, "token")] == ["searches.jsonl"]


def test_the_offline_installer_refuses_a_changed_file(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "install.sh", tmp_path)
    (tmp_path / "requirements.txt").write_text("clocs==0.1.0\n")
    listed = subprocess.run(["sha256sum", "requirements.txt"], cwd=tmp_path, capture_output=True, check=True).stdout
    (tmp_path / "SHA256SUMS").write_bytes(listed)
    (tmp_path / "requirements.txt").write_text("clocs==0.1.1\n")
    done = subprocess.run([tmp_path / "install.sh", tmp_path / "new"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "requirements.txt: FAILED" in done.stdout + done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_what_is_collected_is_installed_and_used_without_a_network(tmp_path: Path) -> None:
    """Collecting needs the package index; installing runs in a network namespace that has no interface."""
    cut_off = ["unshare", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*cut_off, "true"], check=False).returncode:
        pytest.skip("no right to make a network namespace")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the lock file is for Python 3.11")
    environment = {**os.environ, "PYTHON": sys.executable}
    bundle, installed = tmp_path / "bundle", tmp_path / "installed"
    subprocess.run([DEPLOY / "collect.sh", bundle], env=environment, check=True)
    subprocess.run([*cut_off, bundle / "install.sh", installed], env=environment, check=True)
    python = installed / "bin" / "python"
    script = ROOT / "tests" / "without_torch.py"
    subprocess.run([*cut_off, python, script, tmp_path / "work", "clocs-small"], cwd=tmp_path, check=True)
