"""Server and certificates of a bucket are options of every command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import clocs
from clocs.cli.main import app
from clocs.core.errors import StoreError
from clocs.core.storage import bucket as buckets
from tests.fault_proxy import FaultProxy
from tests.object_server import ObjectServer


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a certificate of this machine, which no authority has signed, and its key."""
    key, signed, both = (tmp_path / name for name in ("key.pem", "certificate.pem", "both.pem"))
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test"]
    options += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    command = ["openssl", "req", "-x509", *options, "-keyout", str(key), "-out", str(signed)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_bytes(signed.read_bytes() + key.read_bytes())
    return both


def test_server_and_certificates_by_option(
    bucket: str, running_object_server: ObjectServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "RETRY_SECONDS", 0.0)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    before = dict(os.environ)
    command = ["data", "ingest", "synthetic", "-", f"{bucket}/store", "-o", "num_records=4"]
    with FaultProxy(running_object_server.port, lambda number, verb: "", certificate=certificate) as proxy:
        refused = CliRunner().invoke(app, ["--endpoint-url", proxy.url, *command])
        assert isinstance(refused.exception, StoreError)
        assert not proxy.injected
        trusted = ["--endpoint-url", proxy.url, "--ca-bundle", str(certificate.with_name("certificate.pem"))]
        done = CliRunner().invoke(app, [*trusted, *command])
        assert done.exit_code == 0, done.output
        assert proxy.injected[""] > 5
    assert os.environ == before
    assert "bucket_requests=" in done.stderr
    assert "bucket" not in CliRunner().invoke(app, ["--version"]).stderr, "a command counts its own requests"
    monkeypatch.setenv("AWS_ENDPOINT_URL", running_object_server.url)
    assert len(clocs.open_store(f"{bucket}/store")) == 4
