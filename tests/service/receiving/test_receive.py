"""Reception: what is accepted is durable, parsed in confinement, stored once and under pseudonyms."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime
from pathlib import Path
from typing import Any

import pydicom
import pytest

import clocs
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.storage import files
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.parsing.pool import ParsingPool
from clocs.service.receiving.dicom_server import dicom_server
from clocs.service.receiving.intake import parse_incoming, take_in
from clocs.service.receiving.run import ReceiveSettings, receive
from clocs.service.receiving.spool import Spool
from clocs.service.receiving.watch import WatchedFolder
from clocs.service.settings import Limits
from tests.service.samples import sample

PLANTED = "ZEBRAWOOD"
ACQUIRED = datetime(2020, 2, 29, 8, 30, 5)
MAX_BYTES = 1 << 24


@pytest.fixture
def key(tmp_path: Path) -> PatientKey:
    return clocs.make_key(tmp_path / "ward.key")


@pytest.fixture
def planted(real_data: Path) -> bytes:
    """A DICOM ECG with a planted name and patient id."""
    dataset = pydicom.dcmread(io.BytesIO(next(iter(sample(real_data, "dicom").values()))))
    dataset.AcquisitionDateTime = ACQUIRED.strftime("%Y%m%d%H%M%S")
    dataset.PatientName, dataset.PatientID = f"{PLANTED}^ANNA", f"{PLANTED}-17"
    buffer = io.BytesIO()
    dataset.save_as(buffer)
    return buffer.getvalue()


def contents(*folders: Path) -> bytes:
    """Return all names and bytes in folders."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return b"\n".join(str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in paths)


def test_a_file_counts_once_its_size_is_unchanged(tmp_path: Path, key: PatientKey) -> None:
    folder, spool = tmp_path / "share", Spool(tmp_path / "spool")
    files.write_bytes(folder / f"{PLANTED}.xml", b"begin")
    watched = WatchedFolder(folder, key, MAX_BYTES)
    assert watched.poll(spool) == 0
    files.append_bytes(folder / f"{PLANTED}.xml", b" and end")
    assert watched.poll(spool) == 0
    assert watched.poll(spool) == 1
    assert watched.poll(spool) == 0
    (name,) = spool.names("incoming")
    assert spool.read(name) == b"begin and end"
    again = WatchedFolder(folder, key, MAX_BYTES)  # as after a start
    assert [again.poll(spool), again.poll(spool)] == [0, 0]
    files.write_bytes(folder / "a.hea", b"header")
    assert [watched.poll(spool), watched.poll(spool)] == [0, 0]  # its signals are missing
    files.write_bytes(folder / "a.dat", b"signals")
    assert [watched.poll(spool), watched.poll(spool)] == [0, 1]
    assert PLANTED.encode() not in contents(tmp_path / "spool")
    assert sorted(path.name for path in folder.iterdir()) == [f"{PLANTED}.xml", "a.dat", "a.hea"]


def test_ecgs_are_stored_once_under_pseudonyms(
    tmp_path: Path, key: PatientKey, planted: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, store = Spool(tmp_path / "spool"), tmp_path / "store"
    for name in ("first", "second"):
        spool.add(key.record(name), planted)
    spool.add(key.record("third"), f"no ECG of {PLANTED}".encode())
    assert not spool.add(key.record("first"), planted)

    async def parse() -> int:
        pool = ParsingPool(Limits(parsing_processes=1), check_confinement())
        await pool.open()
        try:
            return await parse_incoming(spool, pool, key)
        finally:
            await pool.close()

    assert asyncio.run(parse()) == 2
    assert (len(spool.names("parsed")), spool.names("incoming")) == (2, [])
    assert spool.names("refused") == [key.record("third")]
    assert PLANTED not in (tmp_path / "spool" / "refused.jsonl").read_text()
    remove_parsed = Spool.remove_parsed
    monkeypatch.setattr(Spool, "remove_parsed", lambda self, name: None)  # killed before the spool is emptied
    assert take_in(spool, store, tmp_path / "ward.key").stored == 2
    monkeypatch.setattr(Spool, "remove_parsed", remove_parsed)
    again = Spool(tmp_path / "spool")
    assert take_in(again, store, tmp_path / "ward.key").stored == 0
    assert not again.names("parsed")
    assert not again.add(key.record("first"), planted)
    opened = clocs.open_store(store)
    assert opened.manifest.version == 1  # one version for the batch
    assert {recording.patient_id for recording in opened} == {key.patient(f"{PLANTED}-17")}
    assert {recording.record_id for recording in opened} == {key.record("first"), key.record("second")}
    assert {recording.acquired for recording in opened} == {key.shift_time(ACQUIRED, f"{PLANTED}-17")}
    assert PLANTED.encode() not in contents(store, tmp_path / "spool" / "parsed", tmp_path / "spool" / "incoming")


def test_dicom_is_answered_after_the_file_is_on_disk(tmp_path: Path, key: PatientKey, planted: bytes) -> None:
    network = pytest.importorskip("pynetdicom")
    spool = Spool(tmp_path / "spool")
    dataset = pydicom.dcmread(io.BytesIO(planted))
    encapsulated_pdf = "1.2.840.10008.5.1.4.1.1.104.1"

    def send(port: int, title: str) -> Any:
        entity = network.AE(ae_title=title)
        for context in ("1.2.840.10008.1.1", dataset.SOPClassUID, encapsulated_pdf):
            entity.add_requested_context(context)
        return entity.associate("127.0.0.1", port, ae_title="CLOCS")

    options: dict[str, Any] = {"address": ("127.0.0.1", 0), "title": "CLOCS", "max_bytes": MAX_BYTES}
    with dicom_server(spool, key, callers=["CART1"], **options) as port:
        assert send(port, "STRANGER").is_rejected
        association = send(port, "CART1")
        assert association.is_established
        assert encapsulated_pdf in {item.abstract_syntax for item in association.rejected_contexts}
        assert association.send_c_echo().Status == 0
        assert association.send_c_store(dataset).Status == 0
        assert spool.names("incoming") == [key.record(f"dicom\0{dataset.SOPInstanceUID}")]
        assert association.send_c_store(dataset).Status == 0  # sent again: not taken again
        assert len(spool.names("incoming")) == 1
        (tmp_path / "spool" / "incoming").rename(tmp_path / "away")
        (tmp_path / "spool" / "incoming").write_text("not a folder")
        dataset.SOPInstanceUID = f"{dataset.SOPInstanceUID}.1"
        assert association.send_c_store(dataset).Status == 0xA700
        association.release()
    received = pydicom.dcmread(next((tmp_path / "away").glob("r*")))
    assert received.PatientName == dataset.PatientName


def test_a_watched_folder_ends_in_the_store(tmp_path: Path, key: PatientKey, planted: bytes) -> None:
    files.write_bytes(tmp_path / "share" / f"{PLANTED}.dcm", planted)
    settings = ReceiveSettings(
        store=tmp_path / "store",
        spool=tmp_path / "spool",
        key=tmp_path / "ward.key",
        watch=tmp_path / "share",
        poll_seconds=0.1,
        batch_seconds=0,
    )
    lines: list[str] = []

    async def until_stored() -> None:
        stop = asyncio.Event()

        def report(line: str) -> None:
            lines.append(line)
            if line.startswith("stored"):
                stop.set()

        await receive(settings, stop, report)

    asyncio.run(until_stored())
    assert lines == ["receiving", "stored 1, quarantined 0, refused 0"]
    assert len(clocs.open_store(tmp_path / "store")) == 1
    assert PLANTED.encode() not in contents(tmp_path / "store", tmp_path / "spool") + "".join(lines).encode()
