"""Identities are found by patterns, and by comparison with an archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.errors import ConfigError, StoreError
from clocs.core.privacy.identity_patterns import PATTERNS, mask
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.recording import Episode, Provenance, Recording
from clocs.store.identity_scan import _matching_pattern, identity_values, scan_identities
from tests.conftest import make_recording
from tests.store.conftest import Maker

KEY = PatientKey(b"k" * 32)
LOOKS = {
    "name": [
        "Smith, John",
        "SMITH,JOHN",
        "Müller, Ä",
        "SMITH^JOHN",
        "seen by Dr. Jones",
        "Prof Ångström",
        "O'Neil, Pat",
    ],
    "e-mail": ["a.b+c@ward-3.hospital.org", "mail x@y.de now"],
    "date": ["1953-05-08", "ecg_20170504_163507", "8.5.1953", "05/08/53", "8-MAY-1953", "8 June 2003", "19530508"],
    "telephone": ["+49 761 270-0", "(0761) 270 34", "555-123-4567", "0049761270"],
    "long number": ["123456", "MRN00159357456", "patient 900657176 left"],
}
HARMLESS = [
    "",
    "I",
    "aVR",
    "SR",
    "AFIB",
    "left out 3 more sets",
    "5264",
    "500 Hz",
    "sinus rhythm, normal",
    "V1, V2",
    "II",
]


def pseudonymous_recording(seed: int, **more: object) -> Recording:
    """Return a recording without identities."""
    name = KEY.record(str(seed))
    made = replace(
        make_recording(seed=seed, record_id=name, patient_id=KEY.patient(str(seed)), labels=("SR",)),
        provenance=Provenance(name, "muse-xml", KEY.file("0" * 64), notes=("left out 2 more sets",)),
    )
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in LOOKS.items() for text in texts])
def test_patterns_find_identities_with_their_kind(kind: str, text: str) -> None:
    assert [found for found, _ in _matching_pattern("labels", text)] == [kind]


@pytest.mark.parametrize("text", HARMLESS)
def test_common_words_are_not_identities(text: str) -> None:
    assert list(_matching_pattern("labels", text)) == []


@given(st.text(), st.text(), st.sampled_from(sorted(PATTERNS)), st.data())
def test_an_identity_between_words_is_found(before: str, after: str, kind: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(LOOKS[kind]))
    assert list(_matching_pattern("labels", f"{before} | {text} | {after}"))


@given(st.text(max_size=30))
def test_pseudonyms_match_no_pattern(text: str) -> None:
    for pseudonym in (KEY.patient(text), KEY.record(text), KEY.file("00")):
        assert list(_matching_pattern("record_id", pseudonym)) == []
        assert list(_matching_pattern("findings.detail", f"{pseudonym}: section 3 is damaged")) == []


@given(st.text(min_size=5))
def test_hits_are_masked(text: str) -> None:
    assert text not in mask(text)


def test_a_pseudonymous_store_has_no_hits(store_of: Maker) -> None:
    assert scan_identities(store_of([pseudonymous_recording(seed) for seed in range(5)]).folder).hits == ()


@pytest.mark.parametrize(
    ("column", "more"),
    [
        ("record_id", {"record_id": "ward/Smith, John"}),
        ("patient_id", {"patient_id": "900657176"}),
        ("site", {"site": "+49 761 270-0"}),
        ("labels", {"labels": ("SR", "seen 8.5.1953")}),
        ("episodes", {"episodes": (Episode(0, 9, "a@b.org"),)}),
        ("leads", {"leads": ("I", "II", "Smith, J")}),
        ("source", {"provenance": Provenance("scp/ecg_20170504.scp")}),
        ("source_sha256", {"provenance": Provenance("x", sha256="900657176")}),
        ("notes", {"provenance": Provenance("x", notes=("Smith^John",))}),
        ("extra.device", {"extra": {"device": "Smith, John", "fold": "3"}}),
        ("extra.visit", {"extra": {"visit": "2019-05", "score": "0.123456789"}}),
        ("extra", {"extra": {"patient_name": "John Smith", "fold": "3"}}),
    ],
)
def test_an_identity_in_a_column_is_found(store_of: Maker, column: str, more: dict[str, object]) -> None:
    store = store_of([pseudonymous_recording(1), pseudonymous_recording(2, **more)])
    hits = scan_identities(store.folder).hits
    assert [(hit.field, hit.count) for hit in hits] == [(column, 1)]
    assert scan_identities(store.folder, ignore=(column,)).hits == ()


def test_an_identity_in_the_quarantine_list_is_found(store_of: Maker) -> None:
    short = replace(
        make_recording(num_samples=100), record_id="Smith, John", provenance=Provenance("in/1953-05-08.xml")
    )
    hits = scan_identities(store_of([pseudonymous_recording(1), short]).folder).hits
    found = {(hit.file.split("/")[0].split("-")[0], hit.field, hit.kind) for hit in hits}
    assert found == {
        (file, *what) for file in ("quarantine", "receipts") for what in (("record_id", "name"), ("source", "date"))
    }


def test_an_identity_of_the_archive_is_found_in_any_text(store_of: Maker, hospital_files: Path) -> None:
    """A plain name matches no pattern, so that only the archive reveals it."""
    store = store_of([pseudonymous_recording(1, labels=("ZZDEMOPTONLY felt dizzy",))])
    assert scan_identities(store.folder).hits == ()
    hits = scan_identities(store.folder, hospital_files / "philips").hits
    assert {(hit.field, hit.kind) for hit in hits} == {("labels", "patient_name")}
    assert all("ZZDEMO" not in str(hit).upper() for hit in hits)


def test_short_values_are_found_in_adjacent_texts(store_of: Maker, hospital_files: Path) -> None:
    """Arrow stores the texts of a column without separators, so that a short word is not a whole word in the bytes."""
    store = store_of([pseudonymous_recording(seed, site=site) for seed, site in enumerate(("abc", "Clark", "xyz"))])
    hits = scan_identities(store.folder, hospital_files / "aecg").hits
    assert [(hit.field, hit.kind, hit.count) for hit in hits] == [("site", "patient_name", 1)]


def test_bytes_outside_of_texts_are_searched(store_of: Maker, hospital_files: Path) -> None:
    store = store_of([pseudonymous_recording(1)])
    (store.folder / "splits").mkdir()
    (store.folder / "splits" / "left.bin").write_bytes(b"\0\1ZZDEMOPTONLY\2")
    hits = scan_identities(store.folder, hospital_files / "philips").hits
    assert [(hit.file, hit.field, hit.kind) for hit in hits] == [("splits/left.bin", "bytes", "patient_name")]


def test_dates_are_searched_in_other_spellings(hospital_files: Path) -> None:
    values = identity_values(hospital_files / "aecg")
    assert {"19530508", "1953-05-08", "08.05.1953", "2002-11-22", "20021122"} <= set(values)


def test_an_archive_without_identities_raises_an_error(store_of: Maker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contains no identity"):
        scan_identities(store_of([pseudonymous_recording(0)]).folder, tmp_path)


def test_a_folder_without_a_store_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a finished store"):
        scan_identities(tmp_path)
