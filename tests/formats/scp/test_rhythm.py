"""The compressions of SCP-ECG, which sample files have only in part, undone what an encoder in the tests did.

The encoder is written from the standard's text; where ecgdatakit can read what it makes, it is held against that too.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.formats import read_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit
from tests.formats.scp_encoding import (
    DEFAULT_TABLE,
    Ints,
    Scp,
    beat_section,
    data_section,
    decimated,
    lead_section,
    packed,
    record,
    scp_leads,
    subtracted,
)

Beats = list[tuple[int, int, int, int, int, int]]

BEATS: Beats = [
    (0, 40, 100, 200, 90, 121),
    (1, 300, 350, 420, 340, 371),
    (0, 560, 601, 640, 590, 622),
    (0, 930, 980, 1000, 970, 993),
]
"""Type, subtraction zone, and protected zone. The second has another type; the last is at the end."""
FIDUCIAL = 61
SAMPLES = 1000


def read_example(scp: Scp) -> Recording:
    return read_from(MemorySource({"s.scp": record(scp)}), "s.scp")


def wave(seed: int, samples: int = SAMPLES) -> Ints:
    """Return a smooth signal with steep heartbeats."""
    random = np.random.default_rng(seed)
    smooth = 60 * np.sin(np.arange(samples) / (20 + 10 * random.random()))
    for _, _, middle, *_ in BEATS:
        smooth += 900 * np.exp(-(((np.arange(samples) - middle) / 6) ** 2))
    return np.array(np.rint(smooth), np.int64)


def reference(seed: int) -> Ints:
    return np.array(np.rint(800 * np.exp(-(((np.arange(150) - FIDUCIAL + 1) / 7) ** 2)) + seed), np.int64)


@pytest.mark.parametrize("huffman", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_differences_of_every_order(order: int, huffman: bool) -> None:
    rows = np.array([wave(1), wave(2), -wave(3)])
    np.testing.assert_array_equal(read_example(scp_leads(rows, order=order, huffman=huffman)).digital, rows)


@settings(max_examples=50)
@given(
    st.lists(st.integers(-(2**15) + 1, 2**15 - 1), min_size=1, max_size=60),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
)
def test_round_trip_of_any_samples(samples: list[int], order: int, huffman: bool) -> None:
    """Differences may overflow 16 bits, as in a 16-bit encoder."""
    rows = np.array([samples])
    wrapped = [(value + 2**15) % 2**16 - 2**15 for value in np.diff(rows[0], order, prepend=[0] * order)]
    scp = scp_leads(rows, order=0, huffman=huffman)
    if order < 2 or len(samples) > 1:
        first = samples[:order]
        scp.sections[6] = data_section([first + [int(value) for value in wrapped[order:]]], huffman=huffman)
        scp.sections[6] = scp.sections[6][:4] + bytes([order]) + scp.sections[6][5:]
    np.testing.assert_array_equal(read_example(scp).digital, rows)


def table(codes: list[tuple[str, int, int, int]]) -> bytes:
    """Return a Huffman table from prefix, bits of the following number, mode and value of each code."""
    out = struct.pack("<H", len(codes))
    for prefix, follows, mode, value in codes:
        mirrored = int(prefix[::-1], 2)
        out += struct.pack("<BBBhI", len(prefix), len(prefix) + follows, mode, value, mirrored)
    return out


def test_custom_huffman_table() -> None:
    """0 is 7, 10 is -3, 110 precedes a number of 11 bits, 111 precedes 3 bits that are added to 100."""
    own = table([("0", 0, 1, 7), ("10", 0, 1, -3), ("110", 11, 1, 0), ("111", 3, 1, 100)])
    bits = "0" + "10" + "110" + format(-1000 % 2048, "011b") + "111" + "011" + "111" + "101" + "0"
    scp = Scp({2: struct.pack("<H", 1) + own, 3: lead_section([(1, 1, 6)])})
    data = packed(bits)
    scp.sections[6] = struct.pack("<HHBBH", 2500, 2000, 0, 0, len(data)) + data
    assert read_example(scp).digital.tolist() == [[7, -3, -1000, 103, 97, 7]]


def test_switches_of_tables_within_a_lead() -> None:
    first = table([("0", 0, 1, 1), ("10", 0, 0, 2), ("11", 0, 1, 5)])
    second = table([("0", 0, 1, -1), ("10", 0, 0, 1), ("11", 0, 0, 2)])
    scp = Scp({2: struct.pack("<H", 2) + first + second, 3: lead_section([(1, 1, 6), (2, 1, 6)])})
    leads = [packed("0" + "11" + "10" + "0" + "11" + "0" + "10" + "0" + "11"), packed("0" * 6)]
    sizes = struct.pack("<HH", *map(len, leads))
    scp.sections[6] = struct.pack("<HHBB", 2500, 2000, 0, 0) + sizes + b"".join(leads)
    assert read_example(scp).digital.tolist() == [[1, 5, -1, -1, 1, 5], [1] * 6]


@pytest.mark.parametrize("bits", ["1" * 64, "10" + "1" * 62])
def test_invalid_codes_and_switches_are_rejected(bits: str) -> None:
    scp = Scp({2: struct.pack("<H", 1) + table([("0", 0, 1, 1), ("10", 0, 0, 9)]), 3: lead_section([(1, 1, 6)])})
    scp.sections[6] = struct.pack("<HHBBH", 2500, 2000, 0, 0, 8) + packed(bits)
    with pytest.raises(FormatError, match="an invalid Huffman code"):
        read_example(scp)


def test_truncated_huffman_code_is_rejected() -> None:
    scp = scp_leads(np.array([wave(1)]))
    scp.sections[3] = lead_section([(1, 1, SAMPLES + 2000)])
    with pytest.raises(FormatError, match="ends before its last sample"):
        read_example(scp)


@pytest.mark.parametrize("huffman", [False, True])
def test_sizes_that_overflow_16_bits(huffman: bool) -> None:
    random = np.random.default_rng(0)
    rows = random.integers(-3000, 3000, (3, 40_000))
    rows[1, 100:] = 5  # short in Huffman code: does not overflow
    scp = scp_leads(rows, order=0, huffman=huffman)
    sizes = struct.unpack_from("<3H", scp.sections[6], 6)
    assert sum(sizes) < len(scp.sections[6]) - 2**16
    np.testing.assert_array_equal(read_example(scp).digital, rows)


def residuals(rows: Ints, beats: Beats, nanovolts: int = 2500) -> Scp:
    """Return leads I and II without their reference beats, which have another resolution, 5 uV."""
    spans = [(number, 1, SAMPLES) for number in (1, 2)]
    templates = [reference(0), -reference(7)]
    scale = 5000 // nanovolts
    taken = [subtracted(row, beat * scale, FIDUCIAL, beats) for row, beat in zip(rows, templates, strict=True)]
    sections = {2: DEFAULT_TABLE, 3: lead_section(spans, subtracted=True), 4: beat_section(300, FIDUCIAL, beats)}
    sections[5] = data_section([beat.tolist() for beat in templates], order=1, huffman=True, nanovolts=5000)
    sections[6] = data_section([row.tolist() for row in taken], order=2, huffman=True, nanovolts=nanovolts)
    return Scp(sections)


@pytest.mark.parametrize("nanovolts", [2500, 5000, 1000])
def test_reference_beat_is_added(nanovolts: int, tmp_path: Path) -> None:
    """It is added only at beats of type 0, aligned at the fiducial point."""
    rows = np.array([wave(4), wave(5)])
    scp = residuals(rows, BEATS, nanovolts)
    recording = read_example(scp)
    np.testing.assert_allclose(recording.signal, rows * nanovolts * 1e-6, rtol=0, atol=1e-6)
    theirs = read_with_ecgdatakit(record(scp), tmp_path, "theirs.scp")
    np.testing.assert_allclose(recording.signal, np.stack(list(theirs.leads.values())), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("number", "message"), [(4, "does not list the heartbeats"), (5, "has no section 5, the reference beat")]
)
def test_subtracted_rhythm_needs_the_reference_beat(number: int, message: str) -> None:
    scp = residuals(np.array([wave(4), wave(5)]), BEATS)
    del scp.sections[number]
    with pytest.raises(FormatError, match=message):
        read_example(scp)


def bimodal(rows: Ints, beats: Beats, *, minus: bool, flagged: bool = True, protocol: int = 20) -> Scp:
    """Return leads at a quarter of 500 Hz outside the protected zones, with or without the reference beat."""
    scp = residuals(rows, beats, 5000) if minus else Scp({2: DEFAULT_TABLE, 4: beat_section(300, FIDUCIAL, beats)})
    spans = [(number, 1, rows.shape[1]) for number in (1, 2)]
    templates = [reference(0), -reference(7)]
    taken = [
        subtracted(row, beat, FIDUCIAL, beats) if minus else row for row, beat in zip(rows, templates, strict=True)
    ]
    scp.sections[3] = lead_section(spans, subtracted=minus)
    scp.sections[5] = data_section([beat.tolist() for beat in templates], order=1, huffman=True, nanovolts=5000)
    stored = [decimated(row, beats, 4) for row in taken]
    scp.sections[6] = data_section(stored, order=2, huffman=True, nanovolts=5000, interval=8000, bimodal=flagged)
    scp.protocol = protocol
    return scp


@pytest.mark.parametrize("minus", [False, True])
def test_bimodal_compression(minus: bool) -> None:
    rows = np.array([wave(6), wave(7)])
    recording = read_example(bimodal(rows, BEATS, minus=minus))
    assert (recording.sampling_rate, recording.num_samples) == (500.0, SAMPLES)
    assert recording.provenance.notes == ("stored at 1/4 of the rate outside the heartbeats, and interpolated there",)
    inside = np.zeros(SAMPLES, bool)
    for *_, begin, end in BEATS:
        inside[begin - 1 : end] = True
    np.testing.assert_array_equal(recording.digital[:, inside], rows[:, inside])
    off = np.abs(recording.digital - rows)[:, ~inside]
    assert off.max() <= 30, "the error of a smooth signal is much smaller than a heartbeat"
    assert off.mean() < 5


def test_decimated_sample_is_the_middle_of_its_group() -> None:
    """A ramp between zones is restored except at its ends. Incomplete groups are stored unchanged."""
    ramp = np.tile(np.arange(0, 8 * 43, 8), (2, 1))
    beats: Beats = [(1, 1, 5, 10, 1, 10), (1, 20, 25, 30, 30, 32)]
    digital = read_example(bimodal(ramp, beats, minus=False)).digital[0]
    assert digital[:10].tolist() == ramp[0, :10].tolist()
    middles = [ramp[0, at : at + 4].mean() for at in (10, 14, 18, 22)]  # 19 samples: four groups, three left over
    assert digital[10:12].tolist() == [middles[0]] * 2
    assert digital[[12, 16, 20, 24]].tolist() == middles
    assert np.diff(digital[12:25]).tolist() == [8] * 12
    assert digital[25] == middles[3]
    assert digital[26:32].tolist() == ramp[0, 26:32].tolist()


def test_decimation_without_the_flag() -> None:
    """Some writers subtract and decimate without setting the flag."""
    rows = np.array([wave(6), wave(7)])
    flagged, plain = (read_example(bimodal(rows, BEATS, minus=True, flagged=flag)) for flag in (True, False))
    np.testing.assert_array_equal(flagged.digital, plain.digital)


def test_bimodal_flag_is_ignored_from_version_3() -> None:
    rows = np.array([wave(6), wave(7)])
    scp = scp_leads(rows)
    scp.sections[6] = scp.sections[6][:5] + b"\1" + scp.sections[6][6:]
    scp.protocol = 30
    np.testing.assert_array_equal(read_example(scp).digital, rows)
    scp.protocol = 20
    with pytest.raises(FormatError, match="has no section 5"):
        read_example(scp)


def test_inconsistent_sampling_intervals_are_rejected() -> None:
    scp = bimodal(np.array([wave(6), wave(7)]), BEATS, minus=True)
    scp.sections[6] = struct.pack("<HH", 5000, 3000) + scp.sections[6][4:]
    with pytest.raises(FormatError, match="intervals of 3000 and 2000 us do not match"):
        read_example(scp)


@pytest.mark.parametrize("minus", [False, True])
def test_truncated_lead_cannot_be_decompressed(minus: bool) -> None:
    """Plain 16-bit samples have no code that would detect it."""
    scp = bimodal(np.array([wave(6), wave(7)]), BEATS, minus=minus)
    half = [wave(seed)[:100].tolist() for seed in (6, 7)]
    beat = [reference(0).tolist(), (-reference(7)).tolist()]
    del scp.sections[2]
    scp.sections |= {5: data_section(beat, nanovolts=5000), 6: data_section(half, nanovolts=5000)}
    if not minus:
        scp.sections[6] = data_section(half, nanovolts=5000, interval=8000, bimodal=True)
    with pytest.raises(FormatError, match="ends before its last sample"):
        read_example(scp)


@pytest.mark.parametrize("beats", [[BEATS[0]] * 200, [(0, 1, 500, 1000, 1, 0)] * 5])
def test_too_many_heartbeats_are_rejected(beats: Beats) -> None:
    """Adding 65,535 heartbeats to 255 leads would take hours."""
    scp = residuals(np.array([wave(4), wave(5)]), BEATS)
    scp.sections[4] = beat_section(300, FIDUCIAL, beats)
    with pytest.raises(FormatError, match="do not fit in 1000 samples"):
        read_example(scp)


def test_leads_recorded_one_after_another_are_aligned() -> None:
    rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    spans = [(1, 1, 3), (2, 4, 6), (3, 4, 6)]
    recording = read_example(Scp({3: lead_section(spans), 6: data_section(rows)}))
    lacking = -(2**15)
    assert recording.digital.tolist() == [
        [1, 2, 3] + [lacking] * 3,
        [lacking] * 3 + [4, 5, 6],
        [lacking] * 3 + [7, 8, 9],
    ]
    assert recording.provenance.notes == ("its leads do not cover the same time; the rest is missing",)


def test_leads_far_apart_are_rejected() -> None:
    spans = [(1, 1, 3), (2, 4_000_000_001, 4_000_000_003)]
    with pytest.raises(FormatError, match="too far apart"):
        read_example(Scp({3: lead_section(spans), 6: data_section([[1, 2, 3], [4, 5, 6]])}))


def test_calculated_and_unknown_leads() -> None:
    spans = [(1, 1, 3), (111, 1, 3), (200, 1, 3)]
    recording = read_example(Scp({3: lead_section(spans), 6: data_section([[1, 2, 3], [4, 5, 6], [7, 8, 9]])}))
    assert recording.leads == ("I", "III", "ECG")
    assert recording.digital.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert recording.provenance.notes == ("1 leads are stated to be calculated from others",)
