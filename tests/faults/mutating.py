"""Damaged copies of real files. The kind and a number determine each case."""

from __future__ import annotations

import random
import re
import zipfile
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from clocs.core.recording import Episode
from clocs.formats import read_from
from clocs.formats.writing import WRITERS
from clocs.service.parsing.reading import MemorySource
from tests.faults.binary_files import BINARY, RESEAL, binary_enlarged, binary_pool, number_bytes
from tests.faults.damaging import MUTATIONS, XML_MUTATIONS, Damage

Files = dict[str, bytes]
CSV_ROWS = 400
"""Number of rows of most CSV cases. Every tenth case is complete."""
CSV_WHOLE = 10


@dataclass(frozen=True)
class Kind:
    """Kind of damaged file: its extension, and the pools of records."""

    pools: tuple[str, ...]
    ending: str
    share: float
    """Fraction of the cases of a campaign over all kinds."""


KINDS = {
    "header": Kind(("mat", "16", "212", "flac"), ".hea", 0.3),
    "flac": Kind(("flac",), ".dat", 0.2),
    "16": Kind(("16",), ".dat", 0.08),
    "212": Kind(("212",), ".dat", 0.08),
    "mat": Kind(("mat",), ".mat", 0.08),
    "csv": Kind(("csv",), ".csv", 0.1),
    "episodes": Kind(("irhythm",), ".json", 0.1),
    "strip": Kind(("irhythm",), ".ecg", 0.06),
    "muse": Kind(("muse",), ".xml", 0.016),
    "aecg": Kind(("aecg",), ".xml", 0.016),
    "philips": Kind(("philips",), ".xml", 0.016),
    "cardiosoft": Kind(("cardiosoft",), ".xml", 0.016),
    "schiller": Kind(("schiller",), ".xml", 0.016),
    "dicom": Kind(("dicom",), BINARY["dicom"], 0.013),
    "scp": Kind(("scp",), BINARY["scp"], 0.03),
    "edf": Kind(("edf",), BINARY["edf"], 0.01),
    "ishne": Kind(("ishne",), BINARY["ishne"], 0.01),
    "mfer": Kind(("mfer",), BINARY["mfer"], 0.01),
    "atc": Kind(("atc",), BINARY["atc"], 0.02),
    "apple": Kind(("apple",), BINARY["apple"], 0.01),
    "clocs-csv": Kind(("clocs-csv",), ".csv", 0.03),
}
XML = ("muse", "aecg", "philips", "cardiosoft", "schiller")
"""Folders of XML hospital files. Each is a pool."""
CSV = ("csv", "clocs-csv")
ASKED = (".hea", ".csv", ".ecg", ".xml", *BINARY.values())
"""Extensions of the file by which a record is read."""


def case(data: Path, kind: str, number: int) -> tuple[Files, str]:
    """Return the files of a case, and the name to read."""
    choice = random.Random(f"{kind} {number}")
    about = KINDS[kind]
    there = pool(data, choice.choice(about.pools))
    files = dict(there[number % len(there)] if kind in BINARY else choice.choice(there))
    target = next(name for name in files if name.endswith(about.ending))
    if kind in CSV and number % CSV_WHOLE:
        files[target] = b"\n".join(files[target].split(b"\n")[:CSV_ROWS])
    changed = files[target]
    for _ in range(choice.choice((1, 1, 1, 2, 3, 5))):
        changed = choice.choice(_mutations(kind))(changed, choice)
    files[target] = RESEAL[kind](changed) if kind in RESEAL and choice.random() < 0.5 else changed
    return files, asked(files)


def _mutations(kind: str) -> tuple[Damage, ...]:
    return XML_MUTATIONS if kind in XML else (*MUTATIONS, *[number_bytes] * 6) if kind in BINARY else MUTATIONS


def asked(files: Files) -> str:
    """Return the file by which a record is read."""
    return next(name for name in files if name.endswith(ASKED))


def enlarged(data: Path, name: str, size: int) -> tuple[Files, str]:
    """Return a real record with its signal file repeated up to a size, and a header without a length."""
    if name in BINARY:
        files = binary_enlarged(data, name, size)
        return files, asked(files)
    if name in XML:
        ((file, text),) = pool(data, name)[-1].items()
        return {file: _longer_leads(text, size // len(text) + 1)}, file
    files = dict(pool(data, name)[0])
    signal = next(file for file in files if file.endswith((".dat", ".mat", ".csv", ".ecg")))
    whole = files[signal]
    names = re.match(rb"(?:(?:#.*\n)+.*\n)?", whole)
    head = names[0] if name in CSV and names else b""
    body = whole[len(head) :].rstrip() + b"\n" if name in CSV else whole[: len(whole) // 24 * 24]
    if b"\ntime," in head:  # repeated, times would not go on
        head, body = head.replace(b"\ntime,", b"\n"), re.sub(rb"(?m)^[^,]+,", b"", body)
    files[signal] = head + body * (size // len(body) + 1)
    for file in files:
        if file.endswith(".hea"):
            files[file] = re.sub(rb"^(\S+ \d+ \S+) \d+", rb"\1 0", files[file], count=1)
    return files, asked(files)


def _longer_leads(text: bytes, times: int) -> bytes:
    """Repeat the leads of an XML file, and remove their checksums."""

    def longer(found: re.Match[bytes]) -> bytes:
        inside = found[2].strip()
        if found[1] == b"<WaveFormData>":
            return found[1] + b64encode(b64decode(inside) * times)
        return found[1] + (b"," if b"," in inside else b" ").join([inside] * times)

    text = re.sub(rb"<LeadDataCRC32>\d+", b"<LeadDataCRC32>", text)
    return re.sub(rb"(<(?:digits|WaveFormData|WaveformData[^>]*|data)>)([^<]*)", longer, text)


@cache
def pool(data: Path, name: str) -> list[Files]:
    """Return small real records of a pool."""
    originals = data / "originals.zip"
    if name in BINARY:
        return binary_pool(data, name)
    if name in XML:
        return _singles(data / "formats.zip", f"{name}/")
    if name == "clocs-csv":
        return [_as_clocs_csv(files) for files in pool(data, "16") + pool(data, "mat")[:2]]
    if name == "csv":
        return _records(originals, "chapman/ECGDataDenoised/", (".csv",), 6)
    if name == "irhythm":
        return _records(data / "cardiology.zip", "CARDIOL_MAY_2017/", (".ecg", "_grp0.episodes.json"), 12)
    if name == "flac":
        archives = {"chapman.zip": "WFDBRecords/", "cpsc2018.zip": "Training_WFDB/", "cinc2017.zip": "training2017/"}
        return [files for zipped, at in archives.items() for files in _records(data / zipped, at, (".hea", ".dat"), 4)]
    if name == "mat":
        at = ("cinc2017/training2017/", "cpsc2018/Training_WFDB/")
        return [files for prefix in at for files in _records(originals, prefix, (".hea", ".mat"), 4)]
    if name == "16":
        at = ("ptbxl/records100/", "ludb/data/")
        return [files for prefix in at for files in _records(originals, prefix, (".hea", ".dat"), 3)]
    return [_as_212(files) for files in _records(originals, "cinc2017/training2017/", (".hea", ".mat"), 6)]


def _records(archive: Path, prefix: str, endings: tuple[str, ...], count: int) -> list[Files]:
    with zipfile.ZipFile(archive) as opened:
        first = endings[0]
        stems = sorted(
            name.removesuffix(first) for name in opened.namelist() if name.startswith(prefix) and name.endswith(first)
        )
        whole = [stem for stem in stems if all(stem + ending in opened.NameToInfo for ending in endings)]
        whole.sort(key=lambda stem: (sum(opened.getinfo(stem + ending).file_size for ending in endings), stem))
        return [
            {(stem + ending).rsplit("/", 1)[-1]: opened.read(stem + ending) for ending in endings}
            for stem in whole[:count]
        ]


def _singles(archive: Path, prefix: str) -> list[Files]:
    """Return single files, sorted by size, with lower-case extensions."""
    with zipfile.ZipFile(archive) as opened:
        members = [info for info in opened.infolist() if info.filename.startswith(prefix) and not info.is_dir()]
        members.sort(key=lambda info: (info.file_size, info.filename))
        return [{Path(info.filename).stem + Path(info.filename).suffix.lower(): opened.read(info)} for info in members]


def _as_clocs_csv(files: Files) -> Files:
    """Convert a real record to the CSV of clocs, with all metadata."""
    recording = replace(
        read_from(MemorySource(files), asked(files)), patient_id="someone", episodes=(Episode(1, 90, "AFIB"),)
    )
    return {f"{recording.record_id}.csv": WRITERS.get("csv").encode(recording, recording.record_id).files[".csv"]}


def _as_212(files: Files) -> Files:
    """Pack the samples of a real record into 12 bits, as in MIT-BIH."""
    header, signal = files.values()
    samples = np.clip(np.frombuffer(signal[24:], "<i2"), -2047, 2047).astype(np.int32)
    pairs = samples[: len(samples) // 2 * 2].reshape(-1, 2) & 0xFFF
    low, high = pairs[:, 0], pairs[:, 1]
    packed = np.stack([low & 0xFF, (low >> 8) | ((high >> 8) << 4), high & 0xFF], axis=1).astype(np.uint8)
    stem = next(iter(files)).removesuffix(".hea")
    text = header.replace(f"{stem}.mat 16+24".encode(), f"{stem}.dat 212".encode())
    assert b" 212 " in text
    return {f"{stem}.hea": text, f"{stem}.dat": packed.tobytes()}
