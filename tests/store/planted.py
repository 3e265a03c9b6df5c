"""Files with made-up identities in every field of their formats: sample files and encoded files."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.datasets.redaction import searchable_values
from clocs.datasets.synthetic import SYNTHETIC
from clocs.formats.reading import read_from, read_identity_from
from clocs.formats.writing import WRITERS
from tests.formats.binary_examples import APPLE_LINES, Rows, apple_file, atc_file, atc_leads, edf_file, ishne_file
from tests.formats.scp_encoding import Scp, data_section, lead_section, record

Files = dict[str, bytes]
Fake = Callable[[], str]

SIGNS = "GHJKLMNPQRSTVWXZ"
"""Letters that are not hex digits, so that no fake occurs in a hash."""
LENGTH = 11
PLANTED_IN = (".xml", ".dcm", ".edf", ".mwf")
"""Sample files without checksums over their identities."""
COPIES = 2
MIN_PLANTED_LENGTH = 5
"""Minimum length of a replaced value. Shorter ones may occur by chance."""


@dataclass(frozen=True)
class Planted:
    """Files of one recording by extension, with the planted identities."""

    files: Files
    fakes: list[str]
    words: tuple[str, ...] = ()
    """Planted labels and lead names, which stay if they are kept."""


def made(leads: tuple[str, ...], number: int) -> Recording:
    """Return a synthetic recording."""
    options, nowhere = SYNTHETIC.parse_options({"num_records": number + 1}), None
    *_, entry = SYNTHETIC.entries(nowhere, options)  # type: ignore[arg-type]  # it reads no source
    recording: Recording = SYNTHETIC.load(nowhere, entry, options)  # type: ignore[arg-type]
    return replace(recording.select(leads), patient_id="", labels=())


def _rows(leads: tuple[str, ...], number: int) -> Rows:
    recording = made(leads, number)
    return dict(zip(leads, recording.digital.tolist(), strict=True))


def _tag(tag: int, value: bytes) -> bytes:
    return struct.pack("<BH", tag, len(value)) + value


def _scp(fake: Fake) -> Files:
    texts = (0, 1, 2, 3, 13, 16, 17, 18, 19, 20, 21, 22, 23, 30, 31, 35)
    patient = b"".join(_tag(tag, fake().encode() + b"\0") for tag in texts)
    patient += _tag(10, bytes(3) + fake().encode() + b"\0")
    patient += _tag(14, bytes(35) + b"\3v1\0" + fake().encode() + b"\0") + b"\xff\0\0"
    statements = b"".join(_tag(line, fake().encode() + b"\0") for line in (1, 2))
    rows = list(_rows(("I", "II"), 0).values())
    sections = {1: patient, 3: lead_section([(1, 1, len(rows[0])), (2, 1, len(rows[0]))])}
    sections |= {6: data_section(rows, nanovolts=1000), 8: bytes(9) + statements}
    return {".scp": record(Scp(sections))}


def _ishne(fake: Fake) -> Files:
    raw = ishne_file(_rows(("I", "II"), 1), step=1000, last_name=fake(), block=fake().encode())
    for place in (b"Anna", b"H-77", b"made up", b"nobody"):
        raw = raw.replace(place.ljust(LENGTH, b"\0"), fake().encode(), 1)
    return {".ecg": raw[:8] + bytes(2) + raw[10:]}  # 0: the header has no checksum


def _alivecor(fake: Fake) -> Files:
    return {".atc": atc_file(*atc_leads(_rows(("I",), 2)), uuid=fake())}


def _apple(fake: Fake) -> Files:
    lines = [f"Name,{fake()}", APPLE_LINES[1], APPLE_LINES[2], f"Classification,{fake()}", f"Symptoms,{fake()}"]
    steps = [str(step) for step in _rows(("I",), 6)["I"]] * 4
    return {".csv": apple_file(steps, [*lines, *APPLE_LINES[5:]])}


def _edf(fake: Fake) -> Files:
    patient, recording = f"{fake()} F 02-MAY-1951 {fake()}", f"Startdate 03-MAY-2001 {fake()} {fake()} {fake()}"
    rows = _rows(("I", "II"), 7)
    limits = ("-32.768", "32.767", "-32768", "32767")
    return {".edf": edf_file(rows, units=("mV", "mV"), limits=limits, patient=patient, recording=recording)}


def _wfdb(fake: Fake, lead: str) -> Files:
    files = WRITERS.get("wfdb").encode(made(("I", "II", "V1"), 8), "planted").files
    header = files[".hea"].replace(b" V1\n", f" {lead}\n".encode()) if lead else files[".hea"]
    comments = f"# {fake()}\n# Physician: {fake()}\n# Age: {fake()}\n".encode()
    return {".dat": files[".dat"], ".hea": header + comments}


def _clocs_csv(fake: Fake, lead: str, label: str) -> Files:
    text = WRITERS.get("csv").encode(made(("I", "II", "V1"), 9), "planted").files[".csv"].decode()
    head = f'# patient: "{fake()}"\n# {fake()}\n'
    head += f'# labels: ["{label}"]\n# episodes: [[1, 9, "{label}"]]\n' if label else ""
    text = text.replace("# sampling_rate", f"{head}# sampling_rate", 1)
    return {".csv": (text.replace(",V1\n", f",{lead}\n", 1) if lead else text).encode()}


def encoded(fake: Fake, words: bool) -> Iterator[Planted]:
    """Iterate over encoded files of formats with few samples or with checksums; ``words`` adds labels and leads."""
    lead, label = (fake(), fake()) if words else ("", "")
    makers: list[tuple[Callable[[Fake], Files], tuple[str, ...]]] = [
        *((maker, ()) for maker in (_scp, _ishne, _alivecor, _apple, _edf)),
        (lambda told: _wfdb(told, lead), (lead,)),
        (lambda told: _clocs_csv(told, lead, label), (lead, label)),
    ]
    for maker, said in makers:
        fakes: list[str] = []

        def told(fakes: list[str] = fakes) -> str:
            fakes.append(fake())
            return fakes[-1]

        files = maker(told)
        yield Planted(files, fakes, tuple(filter(None, said)))


def plant(raw: bytes, values: list[str], random: np.random.Generator) -> tuple[bytes, list[str]]:
    """Replace the identities in a file by fakes of the same length."""
    planted = []
    for value in sorted(set(values), key=len, reverse=True):
        fake = "".join(random.choice(list(SIGNS), len(value)))
        for code in ("utf-8", "latin-1"):
            bare = re.escape(value.encode(code, "replace"))
            alone = rb"(?<![A-Za-z0-9</])" + bare + rb"(?![A-Za-z0-9])"
            raw, times = re.subn(alone, fake.encode(), raw)
            if times:
                planted.append(fake)
                break
    return raw, planted


def planted_samples(
    hospital_files: Path, trial: Path, random: np.random.Generator, copies: int = COPIES
) -> Iterator[Planted]:
    """Iterate over sample files with replaced identities that can still be read."""
    source = open_source(hospital_files)
    for name in [name for name in source.names() if name.lower().endswith(PLANTED_IN)]:
        values = [
            value for value in searchable_values(read_identity_from(source, name)) if len(value) >= MIN_PLANTED_LENGTH
        ]
        for _ in range(copies):
            raw, fakes = plant(source.read(name), values, random)
            if _reads(raw, trial):
                yield Planted({f".{name.rsplit('.', 1)[-1]}": raw}, fakes)


def _reads(raw: bytes, trial: Path) -> bool:
    trial.write_bytes(raw)
    try:
        read_from(open_source(trial.parent), trial.name)
    except FormatError:
        return False
    return True


def faker(random: np.random.Generator) -> Fake:
    return lambda: "".join(random.choice(list(SIGNS), LENGTH))


def write_planted(every: Iterable[Planted], folder: Path, *, named: bool) -> dict[str, Planted]:
    """Write planted files, ``named`` after their fakes or by number. Return them by file."""
    found = {}
    for number, one in enumerate(every):
        name = one.fakes[0][:30] if named and one.fakes else f"neutral-{number}"
        for ending, raw in one.files.items():
            (folder / f"{name}{ending}").write_bytes(raw.replace(b"planted.dat", f"{name}.dat".encode()))
        found[f"{name}{list(one.files)[-1]}"] = one
    return found


def occurring(values: list[str], folder: Path) -> list[str]:
    """Return the values that occur in the files of a folder, ignoring case.

    Every value lies in a run of the bytes that values consist of, so only such runs are searched for each.
    """
    sought = [value.lower().encode() for value in values]
    letters = b"".join(re.escape(bytes([byte])) for byte in sorted(set(b"".join(sought))))
    run = re.compile(rb"[%s]{%d,}" % (letters, min(map(len, sought))))
    runs = [b"\0".join(run.findall(path.read_bytes().lower())) for path in folder.rglob("*") if path.is_file()]
    return [value for value, raw in zip(values, sought, strict=True) if any(raw in found for found in runs)]
