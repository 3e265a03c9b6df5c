"""The counters of a process, in log lines and for Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.storage.counters import COUNTERS, count, counts, describe_counts
from clocs.service.metrics import Metrics


def test_counts_add_up_and_are_reported() -> None:
    before = counts()
    count("bucket_requests")
    count("bucket_bytes_read", 7)
    assert describe_counts(before) == "bucket_requests=1, bucket_bytes_read=7"
    lines = Metrics().text().decode().splitlines()
    values = dict(line.split() for line in lines if line.startswith("clocs_bucket_bytes_read_total"))
    assert float(values["clocs_bucket_bytes_read_total"]) == before["bucket_bytes_read"] + 7
    assert {line.split()[0] for line in lines} >= {f"clocs_{name}_total" for name in COUNTERS}


def test_the_page_on_buckets_has_every_counter() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "object-stores.md").read_text()
    assert [name for name in COUNTERS if f"`{name}`" not in page] == []


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(KeyError):
        count("requests of tomorrow")
