"""A recording contains no identity: nothing that ``read_identity`` returns is in what ``read`` returns."""

from __future__ import annotations

import re
import traceback
import zipfile
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import IDENTITY_FIELDS
from clocs.core.recording import Recording
from clocs.formats import FORMATS
from clocs.formats.reading import Format, read_from, read_identity, read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.conftest import data_folder
from tests.formats.binary_examples import WRITERS as BINARY_WRITERS
from tests.formats.xml_examples import WRITERS

SHORTEST = 4
"""Minimum length of a value in characters. Shorter values, such as initials, occur in any text."""
ENDINGS = (".xml", ".dcm", ".scp", ".edf", ".ecg", ".mwf", ".atc")
NOBODYS = {"philips/fox_TRIM3.xml", "atc/atc2json_test_AFib_ef.atc", "atc/atc2json_test_NSR_ef.atc"}
"""Files without any identity."""
REFUSED = {"scp/healforce_62.scp", "scp/scptools_test_log.scp", "atc/atcpy_broken_checksum.atc"}


@cache
def samples() -> list[str]:
    archive = data_folder() / "formats.zip"
    if not archive.exists():
        return []
    with zipfile.ZipFile(archive) as opened:
        names = {name for name in opened.namelist() if name.lower().endswith(ENDINGS)}
    return sorted(names - REFUSED)


def recording_text(recording: Recording) -> str:
    """Return all text of a recording, without samples, file hash and format name."""
    about = {**vars(recording), **vars(replace(recording.provenance, sha256="", format=""))}
    about["stated_measurements"] = recording.stated_measurements.values()
    return repr([value for key, value in about.items() if key not in ("digital", "provenance") and value is not None])


@pytest.mark.parametrize("name", samples())
def test_recording_contains_no_identity(name: str, hospital_files: Path) -> None:
    """The file is renamed, because its original name may contain a patient id."""
    with zipfile.ZipFile(hospital_files) as archive:
        source = MemorySource({"neutral": archive.read(name)})
    found = read_identity_from(source, "neutral")
    assert set(found) <= set(IDENTITY_FIELDS)
    assert all(value == value.strip() != "" for values in found.values() for value in values)
    text = recording_text(read_from(source, "neutral")).lower()
    long = [value for values in found.values() for value in values if len(value) >= SHORTEST]
    assert bool(long) == (name not in NOBODYS)
    assert [value for value in long if value.lower() in text] == []


@pytest.mark.parametrize("name", WRITERS)
def test_error_message_contains_no_identity(name: str) -> None:
    """Every text and attribute of an example is replaced by a name, one at a time. No message repeats it."""
    example = WRITERS[name]()
    messages = []
    for place in re.finditer(r'(?<=>)[^<]+(?=<)|(?<=")[^"<>]*(?=")', example):
        text = f"{example[: place.start()]}Winterbottom{example[place.end() :]}"
        try:
            read_from(MemorySource({"neutral": text.encode()}), "neutral")
        except FormatError as refusal:
            messages.append(str(refusal))
    assert len(messages) > 5
    assert not any("Winterbottom" in message for message in messages)


@pytest.mark.parametrize("name", BINARY_WRITERS)
def test_error_message_of_a_binary_file_contains_no_identity(name: str) -> None:
    """Bytes are changed one at a time in a file that contains a patient name."""
    example = BINARY_WRITERS[name](1)
    assert example.count(b"Winterbottom") == 1
    identity = read_identity_from(MemorySource({"neutral": example}), "neutral")
    assert any("Winterbottom" in value for values in identity.values() for value in values)
    messages = []
    for at in range(0, len(example), 1 + len(example) // 400):
        damaged = example[:at] + bytes([example[at] ^ 0x41]) + example[at + 1 :]
        try:
            read_from(MemorySource({"neutral": damaged}), "neutral")
        except FormatError as refusal:
            messages.append("".join(traceback.format_exception(refusal)))
    assert len(messages) > 5
    assert not any("Winterbottom" in message for message in messages)


def test_only_requested_fields_are_returned(hospital_files: Path) -> None:
    path = hospital_files / "muse" / "cvrg_MUSE_20080710.xml"
    assert read_identity(path, "patient_id", "contact") == {"patient_id": ("159357456",)}
    assert read_identity(path) == {}


def test_every_format_that_may_name_a_person_can_read_the_identity() -> None:
    no_identity = next(field.default for field in fields(Format) if field.name == "read_identity")
    writers = {"wfdb", *WRITERS, *BINARY_WRITERS}
    assert writers.isdisjoint(form.name for form in FORMATS if form.read_identity is no_identity)
