"""A mixed archive of real sample files in nested folders and zips."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

WARDS = {"muse": "cardiology/muse", "philips": "cardiology/2003", "aecg": "trials/aecg", "cardiosoft": "practice"}
"""Folders of the formats that are stored as files. The others are in zips."""
ZIPS = {"dicom": "pacs/export.zip", "scp": "pacs/export.zip", "edf": "holter/a.ZIP", "ishne": "holter/a.ZIP"}
OTHERS = "inbox/rest.zip"
PUBLISHED = ("cinc2017/training2017/A0000", "cpsc2018/", "ludb/", "cardiology/", "ptbxl/", "chapman/ECGDataDenoised/")
MOST_PUBLISHED = 3
"""Recordings of publishers."""
SCAN = b"%PDF-1.7 a scanned ECG"


def mixed_archive(hospital_files: Path, originals: Path, folder: Path) -> Path:
    """Write hospital samples, published records, files that are not ECGs, a broken zip and a nested zip."""
    zipped: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(hospital_files) as archive:
        for name in sorted(member for member in archive.namelist() if "/" in member and not member.endswith("/")):
            kind, file = name.split("/", 1)
            if kind in WARDS:
                _write(folder / WARDS[kind] / file, archive.read(name))
            else:
                zipped.setdefault(ZIPS.get(kind, OTHERS), {})[f"{kind}/{file}"] = archive.read(name)
    with zipfile.ZipFile(originals) as archive:
        for prefix in PUBLISHED:
            _publish(archive, prefix, folder / "research", zipped)
    for place, members in zipped.items():
        _write(folder / place, zip_of(members))
    _write(folder / "cardiology" / "scan.pdf", SCAN)
    _write(folder / "cardiology" / "Thumbs.db", bytes(range(64)))
    _write(folder / "inbox" / "broken.zip", zip_of({"a.xml": b"x" * 400})[:-60])
    _write(folder / "inbox" / "outer.zip", zip_of({"inner.zip": zip_of({"a.xml": b"<a/>"}), "notes.txt": b"hello"}))
    return folder


def zip_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def _publish(archive: zipfile.ZipFile, prefix: str, folder: Path, zipped: dict[str, dict[str, bytes]]) -> None:
    """Add records of a publisher with their companion files; those of CinC 2017 in a zip."""
    names = sorted(name for name in archive.namelist() if name.startswith(prefix) and not name.endswith("/"))
    heads = [name for name in names if name.endswith((".hea", ".ecg")) or "Denoised" in name][:MOST_PUBLISHED]
    for head in heads:
        stem = head.rsplit(".", 1)[0]
        for name in (name for name in names if name.startswith(stem)):
            if prefix.startswith("cinc2017"):
                zipped.setdefault("research/2017.zip", {})[name] = archive.read(name)
            else:
                _write(folder / name, archive.read(name))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
