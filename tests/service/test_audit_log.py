"""The audit log: complete lines, appended, readable only by the owner."""

from __future__ import annotations

import json
import os
import resource
import threading
from pathlib import Path

import pytest

from clocs.core.errors import StoreError
from clocs.service.audit_log import AuditLog


def test_lines_are_added_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "searches.jsonl"
    for number in range(2):
        log = AuditLog(path)
        log.write(request_id=f"q{number}", k=10)
        log.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["request_id"] for line in lines] == ["q0", "q1"]
    assert all(line["time"].endswith("+00:00") for line in lines)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_is_open_for_appending_only(tmp_path: Path) -> None:
    """Whatever the position, the kernel puts a line at the end: what was there cannot be written over."""
    path = tmp_path / "searches.jsonl"
    log = AuditLog(path)
    log.write(request_id="first")
    before = path.read_bytes()
    os.lseek(log._handle, 0, os.SEEK_SET)
    log.write(request_id="second")
    log.close()
    assert path.read_bytes().startswith(before)


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "searches.jsonl"
    logs = [AuditLog(path) for _ in range(4)]
    handles = [f"p-{number:020x}" for number in range(100)]
    threads = [threading.Thread(target=lambda log=log: [log.write(handles=handles) for _ in range(10)]) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        log.close()
    lines = path.read_text().splitlines()
    assert len(lines) == 40
    assert all(json.loads(line)["handles"] == handles for line in lines)


def test_a_line_cut_off_by_a_full_disk_leaves_others_intact(tmp_path: Path) -> None:
    """Here the limit on a file's size stands for the disk."""
    path = tmp_path / "searches.jsonl"
    log = AuditLog(path)
    log.write(request_id="first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, hard))
    try:
        with pytest.raises(StoreError, match="only be logged in part"):
            log.write(request_id="second")
        with pytest.raises(StoreError, match="could not be logged"):
            log.write(request_id="third")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(request_id="fourth")
    log.write(request_id="fifth")
    log.close()
    first, cut, *after = path.read_text().splitlines()
    assert [json.loads(line)["request_id"] for line in (first, *after)] == ["first", "fourth", "fifth"]
    assert len(cut) == 40


def test_a_line_cut_off_by_a_crash_leaves_others_intact(tmp_path: Path) -> None:
    path = tmp_path / "searches.jsonl"
    path.write_text('{"request_id": "first"}\n{"request_id": "se')
    for number in ("third", "fourth"):
        log = AuditLog(path)
        log.write(request_id=number)
        log.close()
    first, _, *after = path.read_text().splitlines()
    assert [json.loads(line)["request_id"] for line in (first, *after)] == ["first", "third", "fourth"]


def test_a_search_that_cannot_be_logged_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        AuditLog(tmp_path / "file" / "searches.jsonl")
    log = AuditLog(tmp_path / "searches.jsonl")
    log.close()
    with pytest.raises(StoreError, match="could not be logged"):
        log.write(request_id="x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error() -> None:
    log = AuditLog(Path("/dev/full"))
    with pytest.raises(StoreError, match="could not be logged"):
        log.write(request_id="x")
    log.close()
