"""A demonstration index and two services, created once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clocs.inference.batch_table import report_row, table_schema, table_writer
from clocs.inference.pretrained import load_encoder
from clocs.inference.report import make_report
from clocs.service.demo import make_demo
from clocs.service.rights import Right
from clocs.store.store import open_store
from tests.service.serving import Served, served
from tests.service.uploading import TOKEN

ENCODER = "cmsc-chapman"
RECORDS = 40
NAME = "ecg.ward.example"
"""The only host name of the service in the network."""
USER_HEADER = "X-Clocs-User"
TOKENS: dict[str, dict[str, Any]] = {
    "all": {"token": TOKEN, "rights": list(Right)},
    **{right.value: {"token": f"token-with-the-right-{right}", "rights": [right.value]} for right in Right},
    **{
        f"not-{right}": {
            "token": f"token-without-the-right-{right}",
            "rights": [item for item in Right if item != right],
        }
        for right in Right
    },
    "proxy": {
        "token": "token-of-the-proxy",
        "rights": ["view", "search"],
        "user_header": USER_HEADER,
        "users": {"anna": ["view", "export"]},
    },
}
"""Tokens of a service with users."""


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
def copied(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demonstration that tests may change."""
    return shutil.copytree(demo, tmp_path_factory.mktemp("copied") / "demo")


@pytest.fixture(scope="session")
def classified(copied: Path) -> Path:
    """A table of the three newest recordings of the demonstration, of which the last is made to be withheld."""
    encoder, store = load_encoder(ENCODER), open_store(copied / "store")
    made = [
        (name, make_report(encoder, store.recording(name)))
        for name in store.table("record_id").column(0).to_pylist()[-3:]
    ]
    rows = [
        report_row(name, replace(report, withheld="too noisy" if name == made[-1][0] else "")) for name, report in made
    ]
    path = copied / "classified.arrow"
    table_writer(path)(table_schema(encoder, None), [rows])
    return path


@pytest.fixture(scope="session")
def open_handed(copied: Path, classified: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service in the network that shows ids and embeddings, prints times and takes small files only, over an index
    that changes.

    Besides the token with every right, it has one for each right, and a proxy's. Files have much time to be read, since
    the machine may be busy.
    """
    log = tmp_path_factory.mktemp("open_handed") / "searches.jsonl"
    with served(
        {"upload_bytes": 8 << 20, "parse_seconds": 60, "active": 2, "waiting": 6},
        host="0.0.0.0",
        allowed_hosts=[NAME],
        index=str(copied / "index"),
        store=str(copied / "store"),
        classified=str(classified),
        audit_log=str(log),
        show_ids=True,
        allow_embeddings=True,
        print_times=True,
        tokens=TOKENS,
    ) as running:
        yield running
