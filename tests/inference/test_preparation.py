"""Whatever is wrong with a recording is corrected and said, or refused: never embedded in silence."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError, LeadError, SignalError, UnitError
from clocs.core.recording import Provenance, Recording, missing_value
from clocs.core.sources.source import open_source
from clocs.formats import read
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.results import Embeddings
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import REASONS
from tests.conftest import make_recording
from tests.inference.conftest import LEADS, POLICY, make_encoder

Rows = dict[tuple[str, float], npt.NDArray[np.float32]]
LIMBS = STANDARD_LEADS[:6]


def rows(made: Embeddings) -> Rows:
    return dict(zip(zip(made.lead, made.start.tolist(), strict=True), made.values, strict=True))


def assert_same(one: Embeddings, other: Embeddings, atol: float = 0.0) -> None:
    first, second = rows(one), rows(other)
    assert first.keys() == second.keys()
    for key, row in first.items():
        np.testing.assert_allclose(row, second[key], rtol=0, atol=atol, err_msg=str(key))


def renamed(recording: Recording, one: str, other: str) -> Recording:
    """The same signals, two of them under each other's names."""
    swap = {one: other, other: one}
    return replace(recording, leads=tuple(swap.get(lead, lead) for lead in recording.leads))


def changed(recording: Recording, lead: str, value: int, start: int, end: int) -> Recording:
    digital = recording.digital.copy()
    digital[recording.leads.index(lead), start:end] = value
    return replace(recording, digital=digital)


def cut(recording: Recording, num_samples: int) -> Recording:
    """As if its file had been shorter."""
    return replace(recording, digital=recording.digital[:, :num_samples], provenance=Provenance())


# Leads


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(LIMBS, 2), ("II", "V2"), ("aVR", "V6")])
def test_exchanged_leads_of_a_real_recording_are_rejected(
    one: str, other: str, twelve: Recording, encoder: PretrainedEncoder
) -> None:
    with pytest.raises(SignalError, match=r"lead_equations: .*Check the names of its leads"):
        encoder.embed(renamed(twelve, one, other))


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(LEADS, 2)))
def test_exchanged_leads_among_four_are_rejected(
    one: str, other: str, twelve: Recording, encoder: PretrainedEncoder
) -> None:
    """II, aVL and aVR obey aVL + 2 aVR + 1.5 II = 0, with neither I nor III in the file."""
    four = twelve.select(LEADS)
    assert len(encoder.embed(four).lead) == 8
    with pytest.raises(SignalError, match="lead_equations"):
        encoder.embed(renamed(four, one, other))


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(order=st.permutations(STANDARD_LEADS))
def test_the_order_of_leads_does_not_matter(order: list[str], twelve: Recording, encoder: PretrainedEncoder) -> None:
    signal = twelve.select(tuple(order)).signal
    made = encoder.embed(signal, sampling_rate=500, leads=order, unit="mV")
    assert_same(made, encoder.embed(twelve), atol=1e-6)
    assert made.lead == LEADS * 2


def test_missing_limb_leads_are_derived(twelve: Recording, encoder: PretrainedEncoder) -> None:
    two = encoder.embed(twelve.select(("II", "I")))
    assert two.notes == (
        "aVL, aVR derived from I and II",
        "lead I not used: the encoder was trained on II, V2, aVL, aVR",
        "lead V2 of the encoder not in the recording",
    )
    whole = rows(encoder.embed(twelve))
    for key, row in rows(two).items():  # PTB-XL's own leads are rounded to 1 uV
        np.testing.assert_allclose(row, whole[key], atol=5e-3 if key[0] != "II" else 0)
    assert {lead for lead, _ in rows(two)} == {"II", "aVL", "aVR"}


def test_a_cinc_2017_strip_needs_any_lead(originals: Path, encoder: PretrainedEncoder) -> None:
    """One lead that its file calls ECG: the encoder was not trained on it."""
    file = originals / "cinc2017" / "training2017" / "A00001.hea"
    with pytest.raises(LeadError, match=r"'A00001' has ECG; .* trained on II, V2, aVL, aVR.*any_lead=True"):
        encoder.embed(file)
    made = encoder.embed(file, any_lead=True)
    assert made.lead == ("ECG",) * 6
    assert made.start.tolist() == [0, 5, 10, 15, 20, 25]
    assert made.notes == (
        "resampled from 300 Hz to 500 Hz",
        "leads II, V2, aVL, aVR of the encoder not in the recording",
        "lead ECG embedded although the encoder was trained on II, V2, aVL, aVR",
    )


def test_an_encoder_of_named_and_unnamed_leads_reports_no_missing_lead(originals: Path) -> None:
    """An encoder of both kinds of recordings misses nothing in either."""
    encoder = load_encoder("clocs-small")
    assert encoder.input.leads == (*LEADS, "ECG")
    strip = encoder.embed(originals / "cinc2017" / "training2017" / "A00001.hea")
    assert strip.notes == ("resampled from 300 Hz to 500 Hz",)
    twelve = encoder.embed(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea")
    assert twelve.lead == LEADS * 2
    assert not any("not in the recording" in note for note in twelve.notes)


def test_any_lead_embeds_all_leads_of_a_file(twelve: Recording, encoder: PretrainedEncoder) -> None:
    made = encoder.embed(twelve, any_lead=True)
    assert made.lead[:12] == (*LEADS, "I", "III", "aVF", "V1", "V3", "V4", "V5", "V6")
    known = rows(encoder.embed(twelve))
    for key, row in known.items():
        np.testing.assert_allclose(rows(made)[key], row, atol=1e-6)


# Rate and length


def test_a_100_hz_copy_has_the_embedding_of_the_500_hz_original(originals: Path, encoder: PretrainedEncoder) -> None:
    folder = originals / "ptbxl"
    fast = encoder.embed(folder / "records500" / "00000" / "00001_hr.hea")
    slow = encoder.embed(folder / "records100" / "00000" / "00001_lr.hea")
    other = encoder.embed(folder / "records500" / "00000" / "00002_hr.hea")
    assert "resampled from 100 Hz to 500 Hz" in slow.notes
    distance = np.linalg.norm(fast.values - slow.values)
    assert distance < 0.5 * np.linalg.norm(fast.values - other.values), "nearer than another patient"
    signal = read(folder / "records100" / "00000" / "00001_lr.hea").signal
    with pytest.raises(SignalError, match=r"lasts 2 s, .* frames of 5 s"):
        encoder.embed(signal, sampling_rate=500, leads=STANDARD_LEADS, unit="mV")


def test_a_short_recording_is_rejected_with_both_lengths(twelve: Recording, encoder: PretrainedEncoder) -> None:
    short = cut(twelve, 2000)
    with pytest.raises(SignalError, match=r"'00001_hr' lasts 4 s, .* frames of 5 s \(2500 samples at 500 Hz\)"):
        encoder.embed(short)
    with pytest.raises(SignalError, match=r"lasts 4\.998 s"):
        encoder.embed(cut(twelve, 2499))
    assert len(encoder.embed(cut(twelve, 2500)).lead) == 4


def test_a_remainder_shorter_than_a_frame_is_noted(twelve: Recording, encoder: PretrainedEncoder) -> None:
    longer = cut(twelve, 4000)
    made = encoder.embed(longer)
    assert made.notes[-1] == "the last 3 s not used: they do not fill a frame"
    assert_same(made, encoder.embed(cut(twelve, 2500)))


@pytest.mark.parametrize("sampling_rate", [0.5, 10.0])
def test_a_too_low_sampling_rate_is_rejected(sampling_rate: float, encoder: PretrainedEncoder) -> None:
    with pytest.raises(SignalError, match=f"{sampling_rate:g} samples a second.*Hz"):
        encoder.embed(replace(make_recording(), sampling_rate=sampling_rate))


@pytest.mark.parametrize("sampling_rate", [100.0, 128.0, 257.0, 360.0, 499.98, 500.0, 1000.0, 1024.0])
def test_every_sampling_rate_gives_all_complete_frames(sampling_rate: float, encoder: PretrainedEncoder) -> None:
    num_samples = round(sampling_rate * 11)
    made = encoder.embed(make_recording(leads=("II",), sampling_rate=sampling_rate, num_samples=num_samples))
    assert made.start.tolist() == [0.0, 5.0]
    assert (f"resampled from {sampling_rate:g} Hz to 500 Hz" in made.notes) is (sampling_rate != 500)


# Unit


@pytest.mark.parametrize(("unit", "factor"), [("mV", 1.0), ("uV", 1e3), ("V", 1e-3)])
def test_a_unit_is_converted(unit: str, factor: float, twelve: Recording, encoder: PretrainedEncoder) -> None:
    made = encoder.embed(twelve.signal.astype(np.float64) * factor, sampling_rate=500, leads=STANDARD_LEADS, unit=unit)
    assert_same(made, encoder.embed(twelve), atol=1e-6)
    assert (f"unit converted from {unit} to mV" in made.notes) is (unit != "mV")


@pytest.mark.parametrize(
    ("true", "declared", "reason"),
    [
        ("uV", "mV", "amplitude"),
        ("uV", "V", "amplitude|do not fit"),
        ("mV", "V", "amplitude"),
        ("mV", "uV", "flat"),
        ("V", "mV", "flat"),
        ("V", "uV", "flat"),
    ],
)
@pytest.mark.parametrize("name", ["ptbxl/records500/00000/00001_hr.hea", "cpsc2018/Training_WFDB/A6000.hea"])
def test_a_wrong_unit_is_rejected(
    true: str, declared: str, reason: str, name: str, originals: Path, encoder: PretrainedEncoder
) -> None:
    """A6000 has spikes of 32 mV, which must not hide that the rest of it is too small."""
    recording = read(originals / name)
    signal = recording.signal.astype(np.float64) * {"V": 1e-3, "mV": 1, "uV": 1e3}[true]
    with pytest.raises(SignalError, match=rf"({reason}).*Check the unit"):
        encoder.embed(signal, sampling_rate=500, leads=STANDARD_LEADS, unit=declared)


def test_a_file_with_a_wrong_gain_is_rejected(originals: Path, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    """Its header says 1 step a millivolt (microvolt passed off as millivolt), or 1,000,000."""
    source = open_source(originals / "ptbxl" / "records500" / "00000")
    (tmp_path / "00001_hr.dat").write_bytes(source.read("00001_hr.dat"))
    header = source.read("00001_hr.hea").decode()
    path = tmp_path / "00001_hr.hea"
    path.write_text(header)
    assert len(encoder.embed(path).lead) == 8
    for gain, reason in (("1.0(0)/mV", "amplitude"), ("1000000.0(0)/mV", "flat")):
        path.write_text(header.replace("1000.0(0)/mV", gain))
        with pytest.raises(SignalError, match=reason):
            encoder.embed(path)


def test_raw_steps_and_millivolt_are_incompatible(real_data: Path, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    source = open_source(real_data / "cardiology.zip")
    strip = read(real_data / "cardiology.zip" / next(name for name in source.names() if name.endswith(".ecg")))
    assert strip.unit == "adu"
    with pytest.raises(UnitError, match=r"in raw steps \(adu\).*trained on millivolt"):
        encoder.embed(strip, any_lead=True)
    raw = POLICY.model_copy(update={"leads": ("ECG", "II")})
    of_steps = load_encoder(make_encoder(tmp_path, raw, unit="adu"))
    assert of_steps.embed(strip).lead == ("ECG",) * 6
    with pytest.raises(UnitError, match=r"in millivolt; .*Use one that was trained on mV"):
        of_steps.embed(make_recording())


# Faults


def test_every_reason_has_advice() -> None:
    from clocs.inference.input_checks import ADVICE

    assert tuple(ADVICE) == REASONS


@pytest.mark.parametrize(
    ("lead", "value", "start", "end", "reason"),
    [
        ("V2", 0, 0, 5000, "V2 flat: 0 mV peak to peak"),
        ("V2", 0, 2500, 5000, "V2 flat: 0 mV peak to peak from 5 to 10 s"),
        ("V2", missing_value(np.int16), 100, 101, "V2 missing: 1 of 5000 samples"),
        ("V2", 2500, 1000, 1200, "V2 saturated: 0.4 s at 2.5 mV"),
        ("V2", 30000, 1000, 1200, "V2 amplitude"),
    ],
)
def test_a_fault_in_a_used_lead_is_rejected(
    lead: str, value: int, start: int, end: int, reason: str, twelve: Recording, encoder: PretrainedEncoder
) -> None:
    faulty = changed(twelve, lead, value, start, end)
    with pytest.raises(SignalError, match=f"'00001_hr' is not embedded: .*{reason}"):
        encoder.embed(faulty)
    without = encoder.embed(faulty.select(tuple(name for name in STANDARD_LEADS if name != lead)))
    assert set(without.lead) == {"II", "aVL", "aVR"}, "as the message says, the lead can be left out"


def test_a_fault_in_an_unused_lead_is_ignored(twelve: Recording, encoder: PretrainedEncoder) -> None:
    assert_same(encoder.embed(changed(twelve, "V6", 0, 0, 5000)), encoder.embed(twelve))


def test_a_derived_lead_has_the_faults_of_its_sources(twelve: Recording, encoder: PretrainedEncoder) -> None:
    pair = changed(twelve.select(("I", "II", "V2")), "I", 2500, 1000, 1200)
    with pytest.raises(SignalError, match="I saturated"):
        encoder.embed(pair)
    assert set(encoder.embed(pair.select(("II", "V2"))).lead) == {"II", "V2"}


def test_a_truncated_file_is_rejected(originals: Path, encoder: PretrainedEncoder) -> None:
    with pytest.raises(SignalError, match=r"lasts 3\.852 s"):
        encoder.embed(originals / "chapman" / "ECGDataDenoised" / "MUSE_20180113_124215_52000.csv")
    promised = replace(make_recording(leads=LEADS[:2]), provenance=Provenance(num_declared_samples=6000))
    with pytest.raises(SignalError, match="length: 5000 samples, header says 6000"):
        encoder.embed(promised)


# Arrays


ARRAY = make_recording(leads=("II", "V2")).signal


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Pass sampling_rate and leads and unit,"),
        ({"sampling_rate": 500, "leads": ("II", "V2")}, "Pass unit,"),
        ({"leads": ("II", "V2"), "unit": "mV"}, "Pass sampling_rate,"),
        (
            {"sampling_rate": 500, "leads": ("II", "V2"), "unit": "kV"},
            "Unknown unit .kV.. Units of an array: mV, uV, V",
        ),
        ({"sampling_rate": 0, "leads": ("II", "V2"), "unit": "mV"}, "over 0"),
        ({"sampling_rate": float("nan"), "leads": ("II", "V2"), "unit": "mV"}, "over 0"),
        ({"sampling_rate": 500, "leads": ("II",), "unit": "mV"}, r"with 1 leads \(II\), got \(2, 5000\)"),
        ({"sampling_rate": 500, "leads": ("II", "Lead II"), "unit": "mV"}, "must differ, got II, II"),
    ],
)
def test_an_array_must_be_described(given: dict[str, object], message: str, encoder: PretrainedEncoder) -> None:
    with pytest.raises(ConfigError, match=message):
        encoder.embed(ARRAY, **given)  # type: ignore[arg-type]


def test_other_types_are_rejected(encoder: PretrainedEncoder) -> None:
    about = {"sampling_rate": 500.0, "leads": ("II",), "unit": "mV"}
    for wrong in (ARRAY[0], [["a", "b"]], {"II": 3}, ARRAY[:1].astype(complex), ARRAY[:1].astype(str)):
        with pytest.raises(ConfigError, match="array"):
            encoder.embed(wrong, **about)  # type: ignore[arg-type]


def test_masked_samples_count_as_missing(encoder: PretrainedEncoder) -> None:
    about = {"sampling_rate": 500.0, "leads": ("II", "V2"), "unit": "mV"}
    plain = np.ma.masked_array(ARRAY, np.zeros(ARRAY.shape, bool))
    assert_same(encoder.embed(plain, **about), encoder.embed(ARRAY, **about))  # type: ignore[arg-type]
    missing = np.ma.masked_array(ARRAY, np.indices(ARRAY.shape)[1] < 2600)
    with pytest.raises(SignalError, match="missing"):
        encoder.embed(missing, **about)  # type: ignore[arg-type]


def test_lead_names_may_have_any_spelling(encoder: PretrainedEncoder) -> None:
    made = encoder.embed(ARRAY, sampling_rate=500, leads=("lead ii", "v2"), unit="mV")
    assert_same(made, encoder.embed(make_recording(leads=("II", "V2"))))


def test_a_file_takes_no_description(originals: Path, encoder: PretrainedEncoder) -> None:
    with pytest.raises(ConfigError, match="sampling_rate and unit: only for arrays"):
        encoder.embed(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea", sampling_rate=250, unit="uV")
