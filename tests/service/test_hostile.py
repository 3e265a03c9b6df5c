"""Hostile uploads: damaged files, bombs, names and scripts cause no crash, hang, growth or file access."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from clocs.core.errors import ClocsError
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.parsing.pool import ParsingPool
from clocs.service.problems import ProblemError
from clocs.service.settings import Limits
from tests.faults.mutating import KINDS, case
from tests.service.parsing.test_reading import zipped
from tests.service.samples import sample
from tests.service.serving import Served
from tests.service.uploading import upload_of

GROWTH = 128 << 20
"""Bytes that a parsing process may have grown by after all cases."""
FEW, MANY, THROUGH_HTTP = 4, 10_000, 300
FIRST = 50_000
"""Cases of other campaigns have lower numbers."""
ENDPOINTS = ("preview", "classify", "similar?any_lead=true&k=2", "figure?seconds=2")


async def parsed(data: Path, kinds: list[str], count: int) -> Counter[str]:
    """Parse damaged files in one parsing process and return the outcomes."""
    outcomes: Counter[str] = Counter()
    places: list[str] = []

    def report(outcome: str, place: str) -> None:
        outcomes[outcome] += 1
        if place:
            places.append(place)

    pool = ParsingPool(Limits(parsing_processes=1, files_per_process=10**9), check_confinement(), report)
    await pool.open()
    try:
        (pid,) = pool.pids
        before = psutil.Process(pid).memory_info().rss
        for kind in kinds:
            for number in range(FIRST, FIRST + count):
                files, _ = case(data, kind, number)
                upload = upload_of(files)
                try:
                    await (pool.recording(upload) if number % 2 else pool.beginning(upload))
                except ClocsError:
                    pass
                except ProblemError as problem:
                    raise AssertionError(f"{kind} {number}: {problem.kind}") from problem
                assert not places, f"{kind} {number}: {places}"
        assert pool.pids == [pid]
        assert psutil.Process(pid).memory_info().rss - before < GROWTH
    finally:
        await pool.close()
    return outcomes


def test_damaged_files_are_read_or_refused(real_data: Path) -> None:
    outcomes = asyncio.run(parsed(real_data, list(KINDS), FEW))
    assert set(outcomes) == {"ok", "refused"}
    assert outcomes.total() == FEW * len(KINDS)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_in_full(kind: str, real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = asyncio.run(parsed(real_data, [kind], MANY))
    assert set(outcomes) <= {"ok", "refused"}
    assert outcomes.total() == MANY
    with capsys.disabled():
        print(f"\nparsing process: {MANY} damaged files of kind {kind}: {dict(outcomes)}")


def through_http(client: Served, data: Path, kind: str, count: int) -> Counter[int]:
    statuses: Counter[int] = Counter()
    for number in range(FIRST, FIRST + count):
        files, _ = case(data, kind, number)
        reply = client.post(f"/api/v1/{ENDPOINTS[number % len(ENDPOINTS)]}", files)
        statuses[reply.status] += 1
        assert reply.status in (200, 422), f"{kind} {number}: {reply.status} {reply.body[:300]!r}"
    return statuses


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_through_http(
    kind: str, client: Served, real_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = through_http(client, real_data, kind, THROUGH_HTTP)
    assert client.get("/healthz").status == 200
    with capsys.disabled():
        print(f"\nHTTP: {THROUGH_HTTP} damaged files of kind {kind}: {dict(statuses)}")


def test_some_damaged_files_through_http(client: Served, real_data: Path) -> None:
    for kind in KINDS:
        through_http(client, real_data, kind, 2)


def nested(levels: int) -> bytes:
    data = b"0" * 1000
    for level in range(levels):
        data = zipped({f"{level}.zip": data})
    return data


def overlapping() -> bytes:
    """Many names for the same compressed bytes, as a bomb of overlapping files has."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", b"0,0,0,0,0,0,0,0,0,0,0,0\n" * 100_000)
        first = archive.filelist[0]
        for number in range(60):
            other = zipfile.ZipInfo(f"{number}.csv")
            for name in ("CRC", "compress_size", "file_size", "compress_type", "header_offset", "flag_bits"):
                setattr(other, name, getattr(first, name))
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
    return buffer.getvalue()


BOMBS: dict[str, Callable[[], bytes]] = {
    "300 megabytes of nothing": lambda: zipped({"a.xml": b"<RestingECG>" + bytes(300 << 20)}),
    "200 megabytes of numbers": lambda: zipped({"a.csv": b"1,2,3,4,5,6,7,8,9,10,11,12\n" * (8 << 20)}),
    "zips in zips": lambda: nested(20),
    "one file under many names": overlapping,
    "ten thousand files": lambda: zipped({f"{number}.csv": b"" for number in range(10_000)}),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused(bomb: str, client: Served) -> None:
    """Unpacked, a bomb takes at least 200 MB, by which the service would grow."""
    service = psutil.Process(client.process.pid)
    before = service.memory_info().rss
    reply = client.post("/api/v1/classify", {"bomb.zip": BOMBS[bomb]()})
    assert reply.status in (422, 504)
    assert reply.json()["type"] in ("/problems/unreadable-file", "/problems/parsing-too-slow")
    assert service.memory_info().rss - before < 128 << 20
    assert all(child.memory_info().rss < 1 << 30 for child in service.children())


def test_an_entity_bomb_is_refused(client: Served) -> None:
    lines = ['<?xml version="1.0"?><!DOCTYPE RestingECG [<!ENTITY a0 "lol">']
    lines += [f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 12)]
    text = "".join(lines) + "]><RestingECG>&a11;</RestingECG>"
    assert client.post("/api/v1/preview", {"a.xml": text.encode()}).status == 422


def test_an_entity_of_a_file_is_not_read(client: Served, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Winterbottom")
    text = (
        f'<?xml version="1.0"?><!DOCTYPE RestingECG [<!ENTITY x SYSTEM "file://{secret}">]><RestingECG>&x;</RestingECG>'
    )
    reply = client.post("/api/v1/preview", {"a.xml": text.encode()})
    assert reply.status == 422
    assert b"Winterbottom" not in reply.body


def test_a_header_cannot_reach_out_of_the_upload(client: Served, tmp_path: Path) -> None:
    """A signal file elsewhere, by any way of naming it, is not found; one in the upload is."""
    secret = tmp_path / "secret.dat"
    secret.write_bytes(bytes(10_000))
    for place in (str(secret), f"../../../../../../..{secret}", f"./{secret.name}", f"file://{secret}", "rec.dat/../x"):
        header = f"rec 1 500 5000\n{place} 16 200/mV 16 0 0 0 0 II\n"
        reply = client.post("/api/v1/preview", {"rec.hea": header.encode()})
        assert reply.status == 422
        assert secret.name not in reply.body.decode()
    header = "rec 1 500 5000\nrec.dat 16 200/mV 16 0 0 0 0 II\n"
    assert client.post("/api/v1/preview", {"rec.hea": header.encode(), "rec.dat": bytes(10_000)}).status == 200


SCRIPT = "<script>alert('quux')</script>"
"""Its word has letters that no random id has."""


@pytest.mark.parametrize("place", ["lead", "comment", "name", "query"])
def test_scripts_in_uploads_are_not_returned(place: str, client: Served, real_data: Path) -> None:
    files = sample(real_data, "cpsc")
    header = files["A0002.hea"].decode()
    if place == "lead":
        files["A0002.hea"] = header.replace(" V2\n", f" {SCRIPT}\n").encode()
    elif place == "comment":
        files["A0002.hea"] = (header + f"#Name: {SCRIPT}\n").encode()
    elif place == "name":
        files = {SCRIPT + ".hea": files["A0002.hea"]}
    query = f"?label={SCRIPT}" if place == "query" else ""
    reply = client.post(f"/api/v1/{'similar' if query else 'preview'}{query}", files)
    assert reply.headers["content-type"] in ("application/json", "application/problem+json")
    assert reply.headers["x-content-type-options"] == "nosniff"
    if place != "query":
        assert "alert" not in reply.body.decode()
    assert "quux" not in client.whole_log()
    if place == "lead":
        assert "lead 8" in [lead["name"] for lead in json.loads(reply.body)["leads"]]
