"""Multipart bodies: cleaned names, and rejection of malformed bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.service.uploads import clean_name
from tests.service.samples import sample
from tests.service.serving import Served
from tests.service.uploading import BOUNDARY, multipart


@given(st.text(max_size=300))
def test_a_name_is_a_base_name_whatever_it_was(given_name: str) -> None:
    clean = clean_name(given_name)
    assert clean.isprintable()
    assert not {"/", "\\"} & set(clean)
    assert not clean.startswith(".")
    assert 1 <= len(clean) <= 100


@pytest.mark.parametrize(
    ("given_name", "clean"),
    [
        ("A0001.hea", "A0001.hea"),
        ("../../etc/passwd", "passwd"),
        ("C:\\ECG\\Mrs Smith.xml", "Mrs Smith.xml"),
        ("A1+b (2).hea", "A1+b (2).hea"),
        ("Müller.dat", "Müller.dat"),
        (".htaccess", "htaccess"),
        ("..", "file"),
        ("", "file"),
        ("a\0b\n\u202e.dcm", "ab.dcm"),
        ("x" * 300 + ".zip", "x" * 80 + ".zip"),
    ],
)
def test_names(given_name: str, clean: str) -> None:
    assert clean_name(given_name) == clean


@pytest.mark.parametrize("name", ["A1+b", "Müller"])
def test_a_header_finds_its_signal_whatever_both_are_called(client: Served, real_data: Path, name: str) -> None:
    header, signal = sample(real_data, "cpsc").values()
    files = {f"{name}.hea": header.replace(b"A0002.mat", f"{name}.mat".encode("latin-1")), f"{name}.mat": signal}
    assert client.post("/api/v1/preview", files).status == 200


def part(headers: str, data: bytes = b"x") -> bytes:
    return f"--{BOUNDARY}\r\n{headers}\r\n\r\n".encode() + data + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()
FILE = 'Content-Disposition: form-data; name="files"; filename="a.csv"'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (END, "no file"),
        (b"", "ends before its last boundary"),
        (b"nothing of the kind", "malformed"),
        (part(FILE), "ends before its last boundary"),
        (part(FILE)[:-9], "ends before its last boundary"),
        (part('Content-Disposition: form-data; name="other"; filename="a.csv"') + END, "named 'files'"),
        (part('Content-Disposition: form-data; name="files"') + END, "must be a file"),
        (part("X-Nothing: 1") + END, "must be a file"),
        (part(FILE) + part(FILE) + END, "same name"),
        (b"".join(part(FILE.replace("a.csv", f"{number}.csv")) for number in range(17)) + END, "at most 16"),
        (part("X: " + "y" * 100_000) + END, "malformed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_bodies_are_refused(client: Served, body: bytes, words: str) -> None:
    _, headers = multipart({})
    reply = client.ask("POST", "/api/v1/preview", body, headers)
    assert reply.status == 400
    assert words in reply.json()["detail"]


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data", "text/plain; boundary=x", ""])
def test_other_bodies_are_refused(client: Served, kind: str) -> None:
    reply = client.ask("POST", "/api/v1/classify", b"{}", {"content-type": kind})
    assert reply.status == 415
    assert reply.json()["type"] == "/problems/not-multipart"
