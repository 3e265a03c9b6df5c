"""Withdrawal, compaction and pruning of a store in a bucket: the same files as in a folder, and nothing left behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import numpy as np
import pytest

import clocs
from clocs.core.storage.locations import to_location
from clocs.signals.quality import GATE_OFF
from tests.conftest import make_recording
from tests.object_server import BUCKET
from tests.store.test_buckets import tree

NOW = timedelta(0)


def change(folder: str | Path) -> list[Any]:
    """Make a store in two ingests, withdraw a patient, compact and prune it. Return what each call returned."""
    signals = np.stack([make_recording(("II",), 1500, seed=number).signal for number in range(12)])
    table = {"record_id": [f"r{number}" for number in range(12)], "patient_id": [f"p{n // 2}" for n in range(12)]}
    options: dict[str, Any] = {"sampling_rate": 500, "leads": ["II"], "gate": GATE_OFF}
    for part in (slice(0, 6), slice(6, 12)):
        some = {name: values[part] for name, values in table.items()}
        clocs.Store.from_arrays(folder, signals[part], table=some, append=part.start > 0, **options)
    clocs.split(folder)
    withdrawn = clocs.withdraw(folder, ["p1"])
    compacted = clocs.compact(folder)
    planned = clocs.prune(folder, grace=NOW)
    pruned = clocs.prune(folder, grace=NOW, dry_run=False)
    assert planned.files == pruned.files
    return [withdrawn.recordings, withdrawn.older_versions, withdrawn.splits, compacted, pruned.versions, pruned.files]


def client() -> Any:
    return boto3.client("s3")


def test_changes_of_a_store_leave_the_files_that_they_leave_in_a_folder(bucket: str, tmp_path: Path) -> None:
    upload = client().create_multipart_upload(Bucket=BUCKET, Key=f"{tmp_path.name}/store/shards/unfinished.arrow")
    part = {"Bucket": BUCKET, "Key": upload["Key"], "UploadId": upload["UploadId"], "PartNumber": 1}
    client().upload_part(**part, Body=bytes(1000))
    local, remote = change(tmp_path / "store"), change(f"{bucket}/store")
    assert remote[-1][-1] == "shards/unfinished.arrow (unfinished upload)"
    assert (*local[-1],) == remote[-1][:-1]
    assert local[:-1] == remote[:-1]
    assert not client().list_multipart_uploads(Bucket=BUCKET).get("Uploads")
    folders = tmp_path / "store", to_location(f"{bucket}/store")
    assert tree(folders[0]) == tree(folders[1])
    assert clocs.verify(f"{bucket}/store") == []


def test_a_bucket_that_keeps_deleted_objects_is_reported(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client().create_bucket(Bucket="versioned", ObjectLockEnabledForBucket=True)
    store = clocs.ingest("synthetic", None, "s3://versioned/store", options={"num_records": 4})
    message = r"s3://versioned keeps older versions of its objects \(versioning and object lock\), so deleted"
    with pytest.warns(UserWarning, match=message):
        clocs.withdraw(store, [store.recording(0).patient_id])
    with pytest.warns(UserWarning, match=message):
        clocs.prune(store, grace=NOW)
