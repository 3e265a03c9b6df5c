"""A demonstration index and two services, each made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clocs.service.demo import make_demo
from tests.service.serving import Served, served

ENCODER = "cmsc-chapman"
RECORDS = 40


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small demonstration: store, archive, index."""
    folder = tmp_path_factory.mktemp("demo")
    make_demo(folder, ENCODER, RECORDS)
    return folder


@pytest.fixture(scope="session")
def client(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service as it is by default."""
    log = tmp_path_factory.mktemp("audit") / "deeper" / "searches.jsonl"
    with served({"active": 2}, index=str(demo / "index"), audit_log=str(log)) as running:
        yield running


@pytest.fixture(scope="session")
def strict(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with small limits."""
    log = tmp_path_factory.mktemp("strict") / "searches.jsonl"
    limits = {"upload_bytes": 4 << 20, "upload_seconds": 1.5, "head_seconds": 1.5, "active": 1, "waiting": 1}
    with served(limits, index=str(demo / "index"), audit_log=str(log)) as running:
        yield running
