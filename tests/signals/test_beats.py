"""Detection of beats, and checks of sampling rate and electrodes on real recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.recording import Recording, missing_value, quantize
from clocs.core.sources.source import open_source
from clocs.core.stated_measurements import StatedMeasurements
from clocs.datasets import DATASETS
from clocs.datasets.chapman import sheet_rows
from clocs.datasets.folder import FOLDER
from clocs.formats.reading import read_from
from clocs.signals.beats import find_beats
from clocs.signals.quality import GATE_OFF, assess
from tests.conftest import make_recording

SAMPLING_RATE = 500.0
BEATS_ONLY = GATE_OFF.model_copy(update={"check_sampling_rate": True, "check_electrodes": True})


def waves(interval: float, seconds: float = 10.0, qrs: float = 0.02, t_delay: float = 0.25) -> Recording:
    """Return P, QRS and T as bell curves of known position and size in leads I, II and, inverted, V2."""
    times = np.arange(round(seconds * SAMPLING_RATE)) / SAMPLING_RATE
    bells = [(-0.16, 0.02, 0.1), (0.0, qrs, 1.0), (t_delay, 0.04, 0.3)]
    beat = np.zeros_like(times)
    for center in np.arange(0.4, seconds - 0.1, interval):
        for delay, width, size in bells:
            beat += size * np.exp(-(((times - center - delay) / width) ** 2) / 2)
    return Recording(
        digital=quantize(np.stack([beat, 0.8 * beat, -beat])),
        gain=np.full(3, 1000.0),
        baseline=np.zeros(3, np.int32),
        sampling_rate=SAMPLING_RATE,
        leads=("I", "II", "V2"),
    )


@given(st.floats(0.6, 1.6), st.floats(0.008, 0.03), st.floats(0.22, 0.3))
def test_known_beats_are_measured(interval: float, qrs: float, t_delay: float) -> None:
    """The middle 90 % of the squared slope of a bell curve lie within 2.8 standard deviations on each side."""
    found = find_beats(waves(interval, qrs=qrs, t_delay=t_delay))
    assert found is not None
    assert found.interval == pytest.approx(interval, abs=0.009)
    assert found.t_delay == pytest.approx(t_delay, abs=0.03)
    assert 3 * qrs < found.qrs_width < 6 * qrs + 0.01
    assert found.agreement > 0.9
    assert found.irregularity < 0.05


def test_waves_have_the_right_sign() -> None:
    found = find_beats(waves(0.8))
    assert found is not None
    assert all(size > 0 for size in found.waves["I"])
    assert all(size < 0 for size in found.waves["V2"])
    np.testing.assert_allclose(found.waves["I"], (0.1, 1.0, 0.3), atol=0.06)


@given(st.sampled_from([100.0, 128.0, 250.0, 257.0, 1000.0]))
def test_seconds_follow_the_stated_sampling_rate(sampling_rate: float) -> None:
    found = find_beats(replace(waves(0.8), sampling_rate=sampling_rate))
    if sampling_rate > 125:  # otherwise there are too few beats in the analysed part
        assert found is not None
        assert found.interval == pytest.approx(0.8 * SAMPLING_RATE / sampling_rate, rel=0.02)


def test_missing_samples_and_other_lead_names_do_not_change_the_interval() -> None:
    plain = waves(0.8)
    digital = plain.digital.copy()
    digital[:, 1000:1050] = missing_value(digital.dtype)
    for changed in (replace(plain, digital=digital), replace(plain, leads=("a", "b", "c"))):
        found = find_beats(changed)
        assert found is not None
        assert found.interval == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("recording", [make_recording(num_samples=400), waves(0.8, seconds=2.0), waves(5.0)])
def test_too_few_beats_give_no_measurements(recording: Recording) -> None:
    assert find_beats(recording) is None


@pytest.mark.parametrize("sampling_rate", [1.0, 5.0, 7.0, 10.0, 12.0, 25.0, 49.9])
@pytest.mark.parametrize("beats", [0.8, 1.0, 1.5, 2.5])
def test_a_low_sampling_rate_is_rejected_and_has_no_beats(sampling_rate: float, beats: float) -> None:
    """A QRS complex of a tenth of a second is too short for these sampling rates."""
    times = np.arange(600) / sampling_rate
    spikes = 1000 * np.exp(-(((times * beats % 1 - 0.5) / 0.02) ** 2))
    for noise in (0, 1, 30):
        digital = (spikes + np.random.default_rng(noise).normal(0, noise, 600))[None].astype(np.int16)
        recording = replace(make_recording(("II",), num_samples=600, sampling_rate=sampling_rate), digital=digital)
        assert find_beats(recording) is None
        assert [finding.reason for finding in assess(recording, BEATS_ONLY)] == ["sampling_rate"]


def test_a_flat_recording_has_no_beats() -> None:
    flat = make_recording()
    assert find_beats(replace(flat, digital=np.zeros_like(flat.digital))) is None


def test_the_middle_of_a_long_recording_is_analysed() -> None:
    short, long = waves(0.8), waves(1.0, seconds=200.0)
    digital = np.concatenate([short.digital, long.digital, short.digital], axis=1)
    found = find_beats(replace(long, digital=digital))
    assert found is not None
    assert found.interval == pytest.approx(1.0, abs=0.006)


DEVICES = ("muse/", "cardiosoft/", "philips/", "scp/scptools", "dicom/g", "dicom/p", "aecg/cvrg")
WITHOUT_HEART_RATE = ("philips/fox_", "scp/scptools_test_log.scp")


def test_the_interval_agrees_with_the_heart_rate_of_real_devices(hospital_files: Path) -> None:
    """MUSE, CardioSoft, Philips, SCP, DICOM and aECG files state a heart rate, measured by other programs."""
    source = open_source(hospital_files)
    names = [name for name in source.names() if name.startswith(DEVICES) and not name.startswith(WITHOUT_HEART_RATE)]
    assert len(names) >= 20
    for name in names:
        recording = read_from(source, name)
        beats, stated = find_beats(recording), recording.stated_measurements.heart_rate
        assert beats is not None
        assert stated is not None, name
        assert 60 / beats.interval == pytest.approx(stated, rel=0.11), name


SETS = {"chapman": "chapman.zip", "physionet2020": "cpsc2018.zip", "physionet2017": "cinc2017.zip"}


def real_recordings(data: Path, name: str, step: int) -> Iterator[Recording]:
    """Iterate over recordings that pass the gate of their dataset. Those of Chapman have lead I and a heart rate."""
    dataset = DATASETS.get(name)
    source, options = open_source(data / SETS[name]), dataset.parse_options({})
    heart_rates = chapman_heart_rates(data / SETS[name]) if name == "chapman" else {}
    for entry in list(dataset.entries(source, options))[::step]:
        recording = dataset.load(source, entry, options)
        if not assess(recording, dataset.gate):
            yield with_lead_one(recording, heart_rates[recording.record_id]) if heart_rates else recording


def chapman_heart_rates(archive: Path) -> dict[str, float]:
    source = open_source(archive)
    head, *rows = sheet_rows(source.read("Diagnostics.xlsx"), "Diagnostics.xlsx")
    column = head.index("VentricularRate")
    return {str(row[0]): float(str(row[column])) for row in rows}


def with_lead_one(recording: Recording, heart_rate: float) -> Recording:
    """Add lead I = -2 aVR - II. All leads of the file have the same gain."""
    rows = dict(zip(recording.leads, recording.digital.astype(np.int32), strict=True))
    digital = np.stack([-2 * rows["aVR"] - rows["II"], rows["II"], rows["V2"]]).astype(np.int32)
    return replace(
        recording.select(("aVR", "II", "V2")),
        digital=digital,
        leads=("I", "II", "V2"),
        stated_measurements=StatedMeasurements(heart_rate=heart_rate),
    )


def first_reason(recording: Recording) -> str:
    findings = assess(recording, BEATS_ONLY)
    return findings[0].reason if findings else ""


def count_reasons(data: Path, name: str, step: int) -> dict[str, Counter[str]]:
    """Count reasons by change: none, a wrong sampling rate, swapped arms; with and without a stated heart rate."""
    found: dict[str, Counter[str]] = {}
    for recording in real_recordings(data, name, step):
        silent = replace(recording, stated_measurements=StatedMeasurements())
        for kind, one in (("", silent), (", heart rate stated", recording)):
            if not one.stated_measurements.heart_rate and kind:
                continue
            found.setdefault(f"unchanged{kind}", Counter())[first_reason(one)] += 1
            for word, factor in (("half", 0.5), ("twice", 2.0)):
                wrong = replace(one, sampling_rate=one.sampling_rate * factor)
                found.setdefault(f"{word} the sampling rate{kind}", Counter())[first_reason(wrong)] += 1
        if "I" in recording.leads:
            inverted = silent.digital.copy()
            inverted[0] = -inverted[0]
            found.setdefault("arms swapped", Counter())[first_reason(replace(silent, digital=inverted))] += 1
    return found


@pytest.mark.parametrize("name", ["physionet2020", "physionet2017"])
def test_real_recordings_are_not_rejected(name: str, real_data: Path) -> None:
    found = count_reasons(real_data, name, 101)
    assert {kind: set(counts) for kind, counts in found.items() if kind.startswith("unchanged")} == {
        kind: {""} for kind in found if kind.startswith("unchanged")
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_rejected"), [("chapman", 1), ("physionet2020", 0), ("physionet2017", 0)])
def test_all_real_recordings(name: str, num_rejected: int, real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rejected recording of Chapman is a tachycardia, for which MUSE reports 222 and clocs 110 beats per minute."""
    found = count_reasons(real_data, name, 1)
    with capsys.disabled():
        print(f"\n{name}")
        for kind, counts in found.items():
            print(f"  {kind}: {sum(counts.values())}, rejected {dict(counts - Counter({'': counts['']}))}")
    kinds = [counts for kind, counts in found.items() if kind.startswith("unchanged")]
    assert sum(counts.total() - counts[""] for counts in kinds) <= num_rejected


def test_only_the_folder_dataset_checks_beats(originals: Path) -> None:
    assert FOLDER.gate.check_sampling_rate
    assert FOLDER.gate.check_electrodes
    others: list[Any] = [dataset for dataset in DATASETS if dataset.name != "folder"]
    assert not any(dataset.gate.check_sampling_rate or dataset.gate.check_electrodes for dataset in others)
