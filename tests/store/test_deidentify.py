"""De-identified stores contain no identities of real archives, planted archives and existing stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.core.recording import Episode, Provenance
from clocs.core.sources.source import open_source
from clocs.datasets import Entry
from clocs.datasets.folder_tables import table_sha256
from clocs.formats.writing import write
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.deidentify import count_identity_fields, deidentify, parse_keep
from clocs.store.identity_scan import scan_identities
from clocs.store.ingest import ingest
from clocs.store.manifest import FORMAT
from clocs.store.store import Store
from clocs.store.task_records import read_task_records
from clocs.store.verify import verify
from tests.conftest import make_recording
from tests.formats.binary_examples import WRITERS as BINARY_WRITERS
from tests.store.conftest import Maker
from tests.store.mixed_archive import mixed_archive
from tests.store.planted import Planted, encoded, faker, occurring, planted_samples, write_planted


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "safe" / "key")
    return tmp_path / "safe" / "key"


@pytest.fixture(scope="module")
def planted(hospital_files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Planted]]:
    """Write an archive with planted identities, also in file names."""
    random = np.random.default_rng(0)
    folder, trial = tmp_path_factory.mktemp("planted"), tmp_path_factory.mktemp("trial") / "trial"
    every = [*planted_samples(hospital_files, trial, random), *encoded(faker(random), words=True)]
    return folder, write_planted(every, folder, named=True)


ENDINGS = {"xml", "dcm", "edf", "mwf", "scp", "ecg", "atc", "csv", "hea"}


def test_planted_identities_are_in_no_byte_of_a_store(
    planted: tuple[Path, dict[str, Planted]], key: Path, tmp_path: Path
) -> None:
    archive, found = planted
    every = [fake for one in found.values() for fake in (*one.fakes, *one.words)]
    assert len(every) >= 250
    assert {name.rsplit(".", 1)[-1].lower() for name in found} == ENDINGS
    store = ingest("folder", archive, tmp_path / "store", options={"key": key})
    assert store.manifest.records_in == len(found)
    assert occurring(every, tmp_path / "store") == []
    scan = scan_identities(tmp_path / "store", archive)
    assert scan.hits == ()
    assert scan.values >= 200


@pytest.mark.parametrize("form", BINARY_WRITERS)
def test_formats_with_checksums_are_deidentified(form: str, key: Path, tmp_path: Path) -> None:
    """Each example has a patient name in its content and in its file name."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Winterbottom.ecg").write_bytes(BINARY_WRITERS[form](1))
    (tmp_path / "in" / "Winterbottom-2.ecg").write_bytes(BINARY_WRITERS[form](1)[:-7])
    store = ingest("folder", tmp_path / "in", tmp_path / "store", options={"key": key}, gate=GATE_OFF)
    assert store.manifest.records_in == 2
    assert occurring(["Winterbottom"], tmp_path / "store") == []
    assert occurring(["Winterbottom"], tmp_path / "in") == ["Winterbottom"]


def test_scan_finds_every_identity_in_every_column(planted: tuple[Path, dict[str, Planted]], store_of: Maker) -> None:
    archive, found = planted
    every = [fake.lower() for one in found.values() for fake in one.fakes]
    places: dict[str, Callable[[str], dict[str, Any]]] = {
        "labels": lambda fake: {"labels": ("SR", fake)},
        "episodes": lambda fake: {"episodes": (Episode(0, 9, fake),)},
        "leads": lambda fake: {"leads": (fake,)},
        "site": lambda fake: {"site": fake},
        "record_id": lambda fake: {"record_id": fake},
        "patient_id": lambda fake: {"patient_id": fake},
        "source": lambda fake: {"provenance": Provenance(f"in/{fake}.xml")},
        "notes": lambda fake: {"provenance": Provenance("in/a.xml", notes=(f"seen by {fake}",))},
    }
    fields = list(places)
    recordings = [
        replace(
            make_recording(("II",), num_samples=500, seed=number, record_id=f"r{number}"),
            **places[fields[number % len(fields)]](fake),
        )
        for number, fake in enumerate(every)
    ]
    store = store_of(recordings, per_shard=512)
    hits = [hit for hit in scan_identities(store.folder, archive).hits if hit.file.startswith("shards")]
    for number, field in enumerate(fields):
        assert sum(hit.count for hit in hits if hit.field == field) >= len(every[number :: len(fields)]) >= 30, field


def test_no_identity_of_a_real_archive_is_in_its_store(
    hospital_files: Path, originals: Path, key: Path, tmp_path: Path
) -> None:
    archive = mixed_archive(hospital_files, originals, tmp_path / "archive")
    made = deidentify(archive, tmp_path / "store", key)
    assert made.removed == dict(count_identity_fields(open_source(archive))) | {
        "ages given as 90, which stands for it and more": 2
    }
    assert min(made.removed[field] for field in ("patient_id", "patient_name", "acquired")) > 20
    scan = scan_identities(tmp_path / "store", archive)
    assert scan.hits == ()
    assert scan.values > 400
    plain = ingest("folder", archive, tmp_path / "plain")
    assert scan_identities(plain.folder, archive).hits, "file names hold numbers and dates"
    assert len(plain) == len(made.store)
    by_hash = {read_key(key).record(one.provenance.source): one for one in plain}
    for recording in made.store:
        np.testing.assert_array_equal(recording.digital, by_hash[recording.record_id].digital)


def test_one_patient_in_three_formats_has_one_pseudonym(hospital_files: Path, key: Path, tmp_path: Path) -> None:
    """aECG, SCP and DICOM have the id SBJ-123, the aECG after the issuer's identifier."""
    store = ingest("folder", hospital_files, tmp_path / "store", options={"key": key})
    secret = read_key(key)
    names = ("aecg/hl7_example_aecg.xml", "scp/ecgtoolkit_Example.scp", "dicom/ecgtoolkit_Example.dcm")
    assert {store.recording(secret.record(name)).patient_id for name in names} == {secret.patient("SBJ-123")}
    nobody = store.recording(secret.record("dicom/ecgprocess_example-DICOM1.dcm"))
    assert nobody.patient_id == nobody.record_id


def test_excluded_leads_stay_excluded_under_pseudonyms(store_of: Maker, key: Path, tmp_path: Path) -> None:
    policies = {"evaluation": FramePolicy(num_samples=2500, sampling_rate=500, excluded_leads=(("Smith 1", "V2"),))}
    made = [make_recording(seed=number, record_id=f"Smith {number}") for number in range(3)]
    plain = store_of(made, frame_policies=policies)
    hidden = deidentify(plain.folder, tmp_path / "out", key).store
    assert len(plain.frames("evaluation")) == len(hidden.frames("evaluation")) == 7 * 3 * 2 - 2, (
        "seven leads, two frames"
    )
    assert "Smith" not in (hidden.folder / "manifest-000001.json").read_text()


@pytest.fixture
def named(store_of: Maker) -> Store:
    """Return a store of three recordings of two patients and one quarantined recording."""
    about = {"site": "St Mary", "age": 95.0, "labels": ("SR",)}
    made = [
        replace(
            make_recording(seed=number, record_id=f"Smith {number}", patient_id=f"Smith {number // 2}"),
            acquired=datetime(2020, 2, 29, 8, 30) + number * timedelta(days=400, seconds=1),
            **about,  # type: ignore[arg-type]
        )
        for number in range(3)
    ]
    return store_of([*made, make_recording(num_samples=10, record_id="Smith 9")])


def test_a_store_is_deidentified_into_another(named: Store, key: Path, tmp_path: Path) -> None:
    made = deidentify(named.folder, tmp_path / "out", key, keep=("labels",))
    secret = read_key(key)
    ids = made.store.table(["record_id", "patient_id"]).to_pylist()
    assert [row["record_id"] for row in ids] == [secret.record(f"Smith {number}") for number in range(3)]
    assert ids[0]["patient_id"] == ids[1]["patient_id"] == secret.patient("Smith 0") != ids[2]["patient_id"]
    assert made.removed == {
        "ids of patient and record, file name and hash, replaced": 3,
        "ages over 90, pooled": 3,
        "times of recordings, shifted": 3,
        "site, left out": 3,
    }
    acquired, before = (opened.table("acquired").column(0).to_pylist() for opened in (made.store, named))
    assert acquired == [secret.shift_time(time, f"Smith {number // 2}") for number, time in enumerate(before)]
    assert acquired[1] - acquired[0] == timedelta(days=400, seconds=1)
    assert not set(acquired) & set(before)
    first = made.store.recording(0)
    assert (first.age, first.site, first.labels) == (90.0, "", ("SR",))
    np.testing.assert_array_equal(first.digital, named.recording(0).digital)
    assert occurring(["Smith", "St Mary"], tmp_path / "out") == []
    assert made.store.manifest.dataset["frame_policies"] == named.manifest.dataset["frame_policies"]
    assert verify(tmp_path / "out") == []


def test_extra_columns_of_a_store_are_left_out_unless_kept(store_of: Maker, key: Path, tmp_path: Path) -> None:
    """Even if they are kept, columns that look like identities are left out whole, with a count."""
    extra = [
        {"fold": "1", "seen": "8.5.1953", "ward": "Mary", "person": "Smith Zero 17"},
        {"fold": "2", "ward": "Ann", "person": "nobody", "mrn": "17"},
    ]
    made = [
        replace(make_recording(seed=number, record_id=f"R{number}", patient_id=f"Zero {number + 17}"), extra=values)
        for number, values in enumerate(extra)
    ]
    store = store_of(made)
    default = deidentify(store.folder, tmp_path / "none", key)
    assert [recording.extra for recording in default.store] == [{}, {}]
    assert default.removed["column fold, left out"] == 2
    assert occurring(["Mary", "8.5.1953", "fold"], tmp_path / "none" / "shards") == []
    kept = deidentify(store.folder, tmp_path / "kept", key, keep=("extra",))
    assert [recording.extra for recording in kept.store] == [
        {"fold": "1", "ward": "Mary"},
        {"fold": "2", "ward": "Ann"},
    ]
    columns = {name: count for name, count in kept.removed.items() if name.startswith("column")}
    assert columns == {"column seen, left out": 1, "column person, left out": 2, "column mrn, left out": 1}
    assert occurring(["8.5.1953", "Smith Zero", "mrn"], tmp_path / "kept") == []


def test_columns_that_may_identify_are_in_no_byte_of_a_store_with_a_key(key: Path, tmp_path: Path) -> None:
    write(make_recording(leads=("I", "II")), tmp_path / "archive" / "a.edf")
    table = tmp_path / "table.csv"
    table.write_text("file,patient_id,fold,acquired at,contact,phone\na,Kowalski,3,2019-05-08 10:11,a@b.org,Zorro\n")
    with pytest.warns(UserWarning, match="is left out"):
        store = ingest("folder", tmp_path / "archive", tmp_path / "store", options={"table": table, "key": key})
    assert store.recording(0).extra == {"fold": "3"}
    assert occurring(["2019-05-08", "a@b.org", "Zorro", "Kowalski", "acquired at", "phone"], store.folder) == []
    assert scan_identities(store.folder).hits == ()


def test_a_key_beside_the_recordings_raises_an_error(named: Store, key: Path, tmp_path: Path) -> None:
    make_key(named.folder / "key")
    with pytest.raises(ConfigError, match="Move the key elsewhere"):
        deidentify(named.folder, tmp_path / "out", named.folder / "key")
    make_key(tmp_path / "store2" / "key")
    with pytest.raises(ConfigError, match="Move the key or table elsewhere"):
        ingest("folder", tmp_path, tmp_path / "store2", options={"key": tmp_path / "store2" / "key"})
    with pytest.raises(ConfigError, match="inside one another"):
        deidentify(named.folder, named.folder / "out", key)


def test_only_typed_fields_can_be_kept() -> None:
    assert parse_keep(["notes,labels"]) == ("labels", "notes")
    with pytest.raises(ConfigError, match=r"patient_name cannot be kept.*labels, notes, leads, site, extra"):
        parse_keep(["patient_name"])


def test_names_cannot_be_guessed_from_a_store(key: Path, tmp_path: Path) -> None:
    """Of a plain store the digest of an entry, and the hash of a table, are such that anybody can compute them from a
    guess; of a keyed one the same computation, with all that the store tells, leads nowhere."""
    archive = tmp_path / "archive"
    archive.mkdir()
    write(make_recording(leads=("I", "II")), archive / "481516.edf")
    table = tmp_path / "table.csv"
    table.write_text("file,patient_id\n481516,2342\n")

    def guessed(store: Store) -> bool:
        """Whether who guesses right can tell by the store's receipts."""
        told = store.manifest
        common = content_hash([FORMAT, "folder", dict(told.options) | {"table": None}, told.gate])
        entry = Entry(file="481516.edf", record_id="481516", patient_id="2342")
        guess = content_hash(json.dumps([common, vars(entry), (archive / "481516.edf").stat().st_size], sort_keys=True))
        (record,) = read_task_records(store.folder)
        return guess.startswith(record.entries[:16])

    plain = ingest("folder", archive, tmp_path / "plain", options={"table": table})
    keyed = ingest("folder", archive, tmp_path / "keyed", options={"table": table, "key": key})
    assert guessed(plain)
    assert not guessed(keyed)
    marks = str(keyed.manifest.options)
    assert read_key(key).content(table_sha256(table)) in marks
    assert table_sha256(table) not in marks


def test_pseudonyms_are_not_stored_beside_original_ids(key: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    write(make_recording(leads=("I", "II")), archive / "Mueller_Hans.edf")
    ingest("folder", archive, tmp_path / "store")
    with pytest.raises(ConfigError, match=r"under original ids.*another folder") as caught:
        ingest("folder", archive, tmp_path / "store", options={"key": key})
    assert "Mueller" not in str(caught.value)
    (tmp_path / "store" / "manifest-000001.json").unlink()  # as a run leaves it that was killed
    with pytest.raises(ConfigError, match="under original ids"):
        ingest("folder", archive, tmp_path / "store", options={"key": key})
    kept = ingest("folder", archive, tmp_path / "keyed", options={"key": key})
    assert ingest("folder", archive, tmp_path / "keyed", options={"key": key}).sha256 == kept.sha256


def test_a_short_name_of_a_damaged_file_is_redacted(key: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "Ng.dcm").write_bytes(bytes(128) + b"DICM" + b"damaged")
    write(make_recording(leads=("I", "II")), archive / "other.edf")
    store = ingest("folder", archive, tmp_path / "store", options={"key": key})
    told = (store.folder / store.manifest.quarantine.file).read_text()
    assert "damaged" in told or "DICOM" in told
    assert "Ng" not in told
