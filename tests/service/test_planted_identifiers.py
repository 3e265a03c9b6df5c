"""Fifty planted identifiers in uploads of many formats never appear in a response, log, metric or picture."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pydicom
import pytest

import clocs
from tests.drawing.printed_text import printed_text
from tests.formats.binary_examples import WRITERS as BINARY_WRITERS
from tests.formats.xml_examples import WRITERS as XML_WRITERS
from tests.service.samples import sample
from tests.service.serving import Served, served

Files = dict[str, bytes]

NAMES = ["Winterbottom", "Featherstonehaugh", "Quisenberry", "Zwetschkenbaum", "Ayşegül", "Þorgeirsdóttir", "Oyelaran"]
NUMBERS = [
    "4711081599",
    "19450312",
    "1945-03-12",
    "12.03.1945",
    "8172635405",
    "MRN-0099817",
    "A-77-31415",
    "555-010-7788",
]
TEXTS = [
    "Zanzibarstrasse",
    "ada.winterbottom@ward.example",
    "Sankt-Polykarp-Spital",
    "Marcumar-Patientin",
    "Stichverletzung",
    "quokka-station",
    "SN90210XK",
    "<script>alert(31337)</script>",
    "Bettplatz-Q17",
    "Xylophonistin",
]
IDENTIFIERS = [
    *NAMES,
    *NUMBERS,
    *TEXTS,
    *(f"Probandin{number:02d}ẞ" for number in range(8)),
    *(f"Zq{number:02d}vx" for number in range(9)),
    *(f"9{number:02d}83746{number:02d}" for number in range(8)),
]


FILE_NAMES = [word for word in IDENTIFIERS if re.fullmatch(r"[\w.-]+", word)]
"""Identifiers that can be names of files."""
RANDOM = re.compile(r"\b(?:p-)?(?:[0-9a-f]{64}|[0-9a-f]{20}|[0-9a-f]{16})\b")
"""Hashes, handles and ids of requests, which spell any digits now and then; no identifier is as long as one."""


def test_fifty_identifiers_are_planted() -> None:
    assert len(set(IDENTIFIERS)) == 50


def planted_wfdb(real: Files) -> Iterator[Files]:
    """In comments, in the names of leads, signal files and the record, in numbers' places, and as file names."""
    header = next(data for name, data in real.items() if name.endswith(".hea")).decode()
    signal = next(data for name, data in real.items() if not name.endswith(".hea"))
    stem = header.split()[0]
    for number, word in enumerate(IDENTIFIERS):
        plain = word.replace(" ", "_")
        ways = (
            header + f"# Name: {word}\n# comment {word}\n",
            header.replace(" V2\n", f" {plain}\n"),
            header.replace(f"{stem}.mat", f"{plain}.mat", 1),
            header.replace("16+24", plain, 1),
            header.replace("1000/mV", f"{plain}/mV", 1),
            header.replace("1000/mV", plain, 1),
            header.replace(f"{stem} 12", f"{plain} 12", 1),
            header.replace(f"{stem} 12", f"{stem} {plain}", 1),
            header.replace(f"{stem} 12 500", f"{stem} 12 {plain}", 1),
            header.replace("#Age: ", f"#Age: {word} "),
        )
        for text in ways[number % 4 :: 4]:
            yield {f"{stem}.hea": text.encode(), f"{stem}.mat": signal}


def planted_texts(real: bytes, ending: str, words: list[str]) -> Iterator[Files]:
    """In place of each text of an XML or CSV file in turn, cut to some, and as its name."""
    text = real.decode("latin-1")
    places = [place for place in re.finditer(r"(?<=>)[^<>\s][^<>]{0,60}(?=<)", text)] or [
        place for place in re.finditer(r"[^,\n]+", text[:400])
    ]
    for number, word in enumerate(words):
        place = places[number * len(places) // len(words)]
        changed = text[: place.start()].encode("latin-1") + word.encode() + text[place.end() :].encode("latin-1")
        yield {f"{word}{ending}": changed}


def planted_dicom(real: bytes) -> Iterator[Files]:
    keywords = ("PatientName", "PatientID", "InstitutionName", "StudyDescription", "OperatorsName")
    for number, word in enumerate(IDENTIFIERS[::2]):
        dataset = pydicom.dcmread(io.BytesIO(real))
        dataset.SpecificCharacterSet = "ISO_IR 192"
        setattr(dataset, keywords[number % len(keywords)], word)
        dataset.WaveformSequence[0].MultiplexGroupLabel = word[:16]
        if number % 2:
            channel = dataset.WaveformSequence[0].ChannelDefinitionSequence[number % 12]
            channel.ChannelLabel = word[:16]
            channel.ChannelSourceSequence[0].CodeMeaning = word
            channel.ChannelSourceSequence[0].CodeValue = word[:16]
        buffer = io.BytesIO()
        dataset.save_as(buffer)
        yield {f"{word}.dcm": buffer.getvalue()}


def planted_examples() -> Iterator[Files]:
    """Small files of every other format, which hold one of the names, damaged byte by byte."""
    examples = {name: writer().encode() for name, writer in XML_WRITERS.items()}
    examples |= {name: writer(1) for name, writer in BINARY_WRITERS.items()}
    for name, example in examples.items():
        example = example.replace(b"</", b"<!-- Winterbottom --></", 1) if name in XML_WRITERS else example
        for at in range(0, len(example), 1 + len(example) // 12):
            yield {f"Quisenberry.{name}": example[:at] + bytes([example[at] ^ 0x41]) + example[at + 1 :]}


def everything(real_data: Path) -> Iterator[Files]:
    yield from planted_wfdb(sample(real_data, "cpsc"))
    for number, name in enumerate(("muse-xml", "aecg", "chapman-csv")):
        ((_, data),) = sample(real_data, name).items()
        yield from planted_texts(data, ".csv" if name == "chapman-csv" else ".xml", IDENTIFIERS[number::3])
    yield from planted_dicom(next(iter(sample(real_data, "dicom").values())))
    yield from planted_examples()


def found_in(body: bytes) -> list[str]:
    """Identifiers, or the beginning of long ones, in a text as it is or as JSON spells it."""
    text = RANDOM.sub("", body.decode("utf-8", "replace"))
    begun = {word: word[:12] for word in IDENTIFIERS}
    return [word for word, part in begun.items() if part in text or part.encode("unicode_escape").decode() in text]


def contents(answer: bytes) -> bytes:
    """An answer, and the text on the pages if it is a PDF."""
    return answer + (printed_text(answer).encode() if answer.startswith(b"%PDF") else b"")


ENDPOINTS = ("preview", "classify", "similar?k=1")


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.timeout(1200)
def test_no_planted_identifier_is_sent(step: int, client: Served, real_data: Path) -> None:
    statuses: dict[int, int] = {}
    for number, files in enumerate(islice(everything(real_data), 0, None, step)):
        endpoint = ENDPOINTS[number % 3]
        reply = client.post(f"/api/v1/{endpoint}", files)
        statuses[reply.status] = statuses.get(reply.status, 0) + 1
        assert found_in(reply.body) == [], (endpoint, reply.body[:500])
        assert found_in(repr(reply.headers).encode()) == []
    assert set(statuses) == {200, 422}
    assert min(statuses.values()) > 60 / step
    assert found_in(client.whole_log().encode()) == []
    assert found_in(client.audit_log.read_bytes()) == []
    assert found_in(client.get("/metrics").body) == []


EXPORTS = ("figure?format=pdf&seconds=1", "figure?format=png&seconds=1", "print", "fhir")


def test_no_planted_identifier_is_in_an_export(client: Served, real_data: Path) -> None:
    """A PDF holds its texts; a PNG its metadata."""
    uploads = [*planted_dicom(next(iter(sample(real_data, "dicom").values())))][:2]
    uploads += [*planted_wfdb(sample(real_data, "cpsc"))][0:4:3]  # in comments, and in the name of a lead
    for files in uploads:
        for export in EXPORTS:
            reply = client.post(f"/api/v1/{export}", files)
            assert reply.status == 200
            assert found_in(contents(reply.body)) == []
            assert b"CreationDate" not in reply.body


STORED = ("patient", "preview", "measure", "report", "similar", "figure?format=pdf&seconds=1")


@pytest.mark.slow
def test_no_planted_identifier_of_a_store_is_sent(demo: Path, real_data: Path, tmp_path: Path) -> None:
    """Files with planted names, in which identifiers are planted, become a store with a key, which is listed."""
    folder, key = tmp_path / "folder", tmp_path / "key"
    folder.mkdir()
    clocs.make_key(key)
    uploads = [*planted_dicom(next(iter(sample(real_data, "dicom").values())))]
    for number, ((_, content),) in enumerate(upload.items() for upload in uploads):
        (folder / f"{FILE_NAMES[number % len(FILE_NAMES)]}{number}.dcm").write_bytes(content)
    store = clocs.ingest("folder", folder, tmp_path / "store", options={"key": str(key)})
    assert len(store) == len(uploads)
    log = tmp_path / "audit.jsonl"
    with served(index=str(demo / "index"), store=str(store.folder), audit_log=str(log), print_times=True) as service:
        rows = service.get("/api/v1/recordings").json()["recordings"]
        assert len(rows) == len(uploads)
        for row in rows[:10]:
            address = f"/api/v1/recordings/{row['handle']}"
            replies = [service.get(f"{address}/{part}") for part in STORED]
            replies += [service.post(f"{address}/{part}", {}) for part in ("print", "fhir")]
            assert [reply.status for reply in replies] == [200] * len(replies)
            assert [word for reply in replies for word in found_in(contents(reply.body))] == []
        typed = service.post(f"{address}/print", {}, fields={"identifier": "Winterbottom 4711081599"})
        assert found_in(contents(typed.body)) == ["Winterbottom", "4711081599"], "where the user typed it"
        assert found_in(service.whole_log().encode() + log.read_bytes()) == []
    assert [path for path in store.folder.rglob("*") if path.is_file() and found_in(path.read_bytes())] == []
