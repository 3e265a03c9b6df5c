"""The backup of ``docs/reference/deployment.md``, run as it stands there, while recordings are added."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import clocs
from tests.conftest import ROOT


def documented(store: Path, copy: Path) -> list[str]:
    """Return the commands of the page, with these folders."""
    section = (ROOT / "docs" / "reference" / "deployment.md").read_text().partition("## Backup")[2]
    block = re.search(r"```console\n(.*?)```", section, re.S)
    assert block
    text = block.group(1).replace("/srv/clocs/store", str(store)).replace("/backup/store", str(copy))
    return [line.removeprefix("# ") for line in text.splitlines()]


def test_a_copy_made_while_recordings_are_added_is_whole(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "backup" / "store"
    clocs.ingest("synthetic", None, store, options={"num_records": 2})
    before = clocs.open_store(store)
    (shard,) = (path.name for path in (store / "shards").glob("*.arrow"))
    make, manifests, rest, verify = documented(store, copy)
    subprocess.run(f"{make} && {manifests}", shell=True, check=True)
    clocs.ingest("synthetic", None, store, options={"num_records": 5})
    subprocess.run(rest, shell=True, check=True)
    assert len(clocs.open_store(store)) > len(before)
    command = [sys.executable, "-m", *verify.split()]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    copied = clocs.open_store(copy)
    assert copied.manifest == before.manifest
    assert [recording.record_id for recording in copied] == [recording.record_id for recording in before]
    content = bytearray((copy / "shards" / shard).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "shards" / shard).write_bytes(content)
    damaged = subprocess.run(command, capture_output=True, check=False, text=True)
    assert damaged.returncode != 0
    assert shard in damaged.stdout + damaged.stderr
