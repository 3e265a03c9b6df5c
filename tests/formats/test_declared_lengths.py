"""Small files that declare a billion samples take no memory for them."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import (
    TWO_LEADS,
    atc_block,
    atc_file,
    atc_leads,
    dicom_file,
    dicom_group,
    edf_file,
    ishne_file,
    mfer_file,
    mfer_tag,
)
from tests.formats.scp_encoding import Scp, beat_section, data_section, lead_section, record, scp_leads

MANY = 10**9
SMALL = np.array(list(TWO_LEADS.values()))
MAX_RECORD_BYTES = 8 << 20


def scp_of(last: int, *, huffman: bool) -> bytes:
    scp = scp_leads(SMALL, huffman=huffman)
    scp.sections[3] = lead_section([(1, 1, last), (2, 1, last)])
    return record(scp)


def bimodal_of(last: int) -> bytes:
    scp = scp_leads(SMALL)
    scp.sections |= {3: lead_section([(1, 1, last), (2, 1, last)]), 4: beat_section(60_000, 1, [])}
    scp.sections |= {
        5: data_section(SMALL.tolist(), interval=1),
        6: data_section(SMALL.tolist(), interval=8, bimodal=True),
    }
    return record(scp)


CLAIMS = {
    "dicom": dicom_file(dicom_group(NumberOfWaveformSamples=MANY)),
    "scp, plain": scp_of(MANY, huffman=False),
    "scp, Huffman": scp_of(MANY, huffman=True),
    "scp, leads apart": record(
        Scp({3: lead_section([(1, 1, 4), (2, MANY, MANY + 3)]), 6: data_section(SMALL.tolist())})
    ),
    "scp, short leads apart": record(
        Scp(
            {
                3: lead_section([(1, 1, 10_000), *((2, 150_000, 150_000),) * 200]),
                6: data_section([[0] * 10_000, *([0],) * 200]),
            }
        )
    ),
    "scp, bimodal": bimodal_of(MANY),
    "edf, records": edf_file(records=99_999_999),
    "edf, samples in a record": edf_file().replace(b"1       1       ", b"9999999999999999"),
    "ishne": ishne_file(counted=MANY),
    "mfer, sequences": mfer_file(TWO_LEADS, mfer_tag(0x06, struct.pack("<I", MANY))),
    "mfer, a block": mfer_file(TWO_LEADS, mfer_tag(0x04, struct.pack("<I", MANY))),
    "mfer, channels": mfer_file(TWO_LEADS, mfer_tag(0x05, struct.pack("<I", MANY))),
    "alivecor": atc_file(*atc_leads(), b"ecg3" + struct.pack("<I", MANY)),
    "alivecor, an empty block": atc_file(*atc_leads(), atc_block(b"ecg3", b"")),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_declared_length_takes_no_memory(claim: str) -> None:
    source = MemorySource({"neutral": CLAIMS[claim]})
    _attempt(source)  # loads what there is to load
    tracemalloc.start()
    try:
        _attempt(source)
        assert tracemalloc.get_traced_memory()[1] < MAX_RECORD_BYTES
    finally:
        tracemalloc.stop()


def _attempt(source: MemorySource) -> None:
    for action in (read_from, read_identity_from):
        with contextlib.suppress(FormatError):
            action(source, "neutral")
