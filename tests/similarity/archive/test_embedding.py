"""Embedding a store: complete, resumable, incremental, and readable by other Arrow readers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import drop_derived_leads
from clocs.signals.quality import GATE_OFF
from clocs.similarity.archive import embedding
from clocs.similarity.archive.archive import Archive, open_archive
from clocs.similarity.archive.embedding import embed_store
from clocs.store.ingest import ingest
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.faults.stores import fingerprint, small_dataset
from tests.inference.conftest import make_encoder
from tests.store.conftest import Maker, store_of

__all__ = ["store_of"]
POLICY = FramePolicy(num_samples=1250, sampling_rate=500, normalization="minmax", leads=("II", "V2", "aVL"))
LABELS = (("SR",), ("AFIB", "RBBB"), ())


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    return load_encoder(make_encoder(tmp_path_factory.mktemp("encoder") / "best", POLICY))


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "RECORDS_PER_TASK", 5)


def recordings() -> list[Recording]:
    """Twelve, of which four cannot be embedded: too short, flat, without a known lead, without millivolt."""
    made = [
        replace(
            make_recording(("I", "II", "V2"), 3000, seed=number, record_id=f"r{number}", patient_id=f"p{number // 2}"),
            labels=LABELS[number % 3],
            age=40.0 + number if number % 4 else None,
            sex="female" if number % 2 else None,
            extra={"device": f"CS-{number}"},
        )
        for number in range(12)
    ]
    made[2] = replace(made[2], digital=made[2].digital[:, :1000])
    flat = made[4].digital.copy()
    flat[1] = 7
    made[4] = replace(made[4], digital=flat)
    made[6] = replace(make_recording(("V6",), 3000, record_id="r6", patient_id="p3"))
    made[9] = replace(made[9], unit="adu")
    made[10] = make_recording(("V2",), 3000, seed=10, record_id="r10", patient_id="p5")
    return made


def test_every_recording_is_embedded_or_refused(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    seen: list[tuple[int, int]] = []
    archive = embed_store(encoder, store, tmp_path / "archive", progress=lambda *counts: seen.append(counts))
    about = archive.manifest
    assert (about.records_in, about.embedded, about.refused) == (12, 8, {"lead": 1, "signal": 2, "unit": 1})
    assert seen[-1] == (12, 4)
    listed = [json.loads(line) for line in (archive.folder / about.refused_list.file).read_text().splitlines()]
    assert [row["record_id"] for row in listed] == ["r2", "r4", "r6", "r9"]
    assert "flat" in listed[1]["detail"]
    rows = archive.table().to_pylist()
    assert [row["record_id"] for row in rows] == ["r0", "r1", "r3", "r5", "r7", "r8", "r10", "r11"]
    assert rows[1] == {
        "record_id": "r1",
        "patient_id": "p0",
        "site": "",
        "age": 41.0,
        "sex": "female",
        "labels": ["AFIB", "RBBB"],
        "extra": [("device", "CS-1")],
    }
    assert len(about.shards) == 3
    assert about.encoder.weights_sha256 == encoder.about["weights_sha256"]
    assert about.store.sha256 == store.sha256


def test_vectors_are_those_of_each_recording_alone(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    """Against the encoder's own embedding of one recording at a time, pooled by a plain mean of unit vectors."""
    store = store_of(recordings(), gate=GATE_OFF)
    archive = embed_store(encoder, store, tmp_path / "archive")
    ids = archive.table(["record_id"]).column(0).to_pylist()
    vectors = archive.vectors()
    by_lead, present = archive.lead_vectors(np.arange(len(archive)))
    frames, leads = (archive.table([name]).column(0).to_pylist() for name in ("frames", "leads"))
    for row, record_id in enumerate(ids):
        alone = encoder.embed(store.recording(record_id))
        units = alone.values / np.linalg.norm(alone.values, axis=1, keepdims=True)
        mean = units.mean(axis=0)
        np.testing.assert_allclose(vectors[row], mean / np.linalg.norm(mean), atol=2e-6)
        assert frames[row] == len(set(alone.start.tolist()))
        assert leads[row] == len(set(alone.lead))
        for place, lead in enumerate(("II", "V2", "aVL")):
            of_lead = units[[name == lead for name in alone.lead]]
            assert present[row, place] == (len(of_lead) > 0)
            if len(of_lead):
                mean = of_lead.mean(axis=0)
                np.testing.assert_allclose(by_lead[row, place], mean / np.linalg.norm(mean), atol=2e-6)
    assert not present[ids.index("r10"), 0]
    np.testing.assert_array_equal(archive.vectors(np.array([7, 0, 3])), vectors[[7, 0, 3]])


def test_other_readers_open_a_shard(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    archive = embed_store(encoder, store_of(recordings(), gate=GATE_OFF), tmp_path / "archive")
    table = polars.concat([polars.read_ipc(archive.folder / info.file) for info in archive.manifest.shards])
    np.testing.assert_array_equal(np.array(table["vector"].to_list(), np.float32), archive.vectors())
    assert table["lead_II"].null_count() == 1
    assert table["labels"].to_list()[1] == ["AFIB", "RBBB"]


def test_embedding_again_does_nothing(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    embed_store(encoder, store, tmp_path / "archive")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "archive").rglob("*.*")}
    assert embed_store(encoder, store, tmp_path / "archive").manifest.version == 1
    assert {path: path.stat().st_mtime_ns for path in times if path.name != ".lock"} == {
        path: time for path, time in times.items() if path.name != ".lock"
    }


@pytest.mark.parametrize("damage", ["receipt", "shard"])
def test_damaged_files_are_created_again(
    damage: str, store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    embed_store(encoder, store, tmp_path / "archive")
    whole = fingerprint(tmp_path / "archive")
    victim = sorted((tmp_path / "archive" / ("receipts" if damage == "receipt" else "shards")).iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    embed_store(encoder, store, tmp_path / "archive")
    assert fingerprint(tmp_path / "archive") == whole


def test_a_store_that_has_grown_adds_a_version(encoder: PretrainedEncoder, tmp_path: Path) -> None:
    small, large = ({"num_records": count, "leads": 4, "seconds": 5} for count in (12, 20))
    for options in (small, large):
        store = ingest(small_dataset("synthetic", 5), None, tmp_path / "store", options=options)
        embed_store(encoder, store, tmp_path / "archive")
    first, second = (open_archive(tmp_path / "archive", number) for number in (1, 2))
    assert (len(first), len(second)) == (12, 20)
    shared = {info.file for info in first.manifest.shards} & {info.file for info in second.manifest.shards}
    assert len(shared) == 2
    np.testing.assert_array_equal(first.vectors(), second.vectors()[:12])


def test_two_processes_give_the_same(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    clean = [make_recording(("I", "II", "V2"), 3000, seed=number, record_id=f"r{number}") for number in range(12)]
    store = store_of([drop_derived_leads(item) for item in clean])
    one = embed_store(encoder, store, tmp_path / "one")
    two = embed_store(encoder, store, tmp_path / "two", workers=2)
    assert [info.file for info in one.manifest.shards] == [info.file for info in two.manifest.shards]
    np.testing.assert_allclose(one.vectors(), two.vectors(), atol=1e-6)


def test_other_leads_on_request(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    archive = embed_store(encoder, store_of(recordings(), gate=GATE_OFF), tmp_path / "archive", any_lead=True)
    assert archive.manifest.leads == ("II", "V2", "aVL", "I", "V6")
    assert archive.manifest.refused == {"signal": 2, "unit": 1}
    _, present = archive.lead_vectors(np.arange(len(archive)))
    ids = archive.table(["record_id"]).column(0).to_pylist()
    assert present[ids.index("r6")].tolist() == [False, False, False, False, True]


def test_one_folder_holds_one_encoder(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    embed_store(encoder, store, tmp_path / "archive")
    other = load_encoder(make_encoder(tmp_path / "other", POLICY, dropout=0.2))
    with pytest.raises(ConfigError, match="another encoder"):
        embed_store(other, store, tmp_path / "archive")
    with pytest.raises(ConfigError, match="without --any-lead"):
        embed_store(encoder, store, tmp_path / "archive", any_lead=True)


def test_one_folder_holds_one_store(encoder: PretrainedEncoder, tmp_path: Path) -> None:
    """Stores of arrays, as those of folders, all have one dataset's name; one that lost a few is still itself."""

    def store_with(*records: str) -> Store:
        signals = [make_recording(("II", "V2"), 3000, seed=seed).signal for seed in range(len(records))]
        place = tmp_path / "-".join(records)
        return Store.from_arrays(place, signals, sampling_rate=500, leads=("II", "V2"), table={"record_id": records})

    embed_store(encoder, store_with("a", "b", "c"), tmp_path / "archive")
    with pytest.raises(ConfigError, match=r"3 recordings, of which .* has only 0\. It is another store"):
        embed_store(encoder, store_with("d", "e", "f"), tmp_path / "archive")
    assert len(embed_store(encoder, store_with("a", "b"), tmp_path / "archive")) == 2


def test_other_folders_are_not_archives(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    with pytest.raises(StoreError, match="no manifest"):
        open_archive(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is not a readable archive"):
        open_archive(store.folder)
    embed_store(encoder, store, tmp_path / "archive")
    with pytest.raises(StoreError, match="no version 3"):
        open_archive(tmp_path / "archive", 3)


def test_a_damaged_shard_is_refused_and_named(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    archive = embed_store(encoder, store_of(recordings(), gate=GATE_OFF), tmp_path / "archive")
    name = archive.manifest.shards[1].file
    raw = bytearray((archive.folder / name).read_bytes())
    raw[len(raw) // 2] ^= 4
    (archive.folder / name).write_bytes(raw)
    again = Archive(archive.folder)
    assert again.vectors(np.array([0])).shape == (1, 32)
    with pytest.raises(IntegrityError, match=name):
        again.vectors(np.array([3]))


def test_an_archive_behind_a_link_finds_its_store_and_encoder(
    store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    store = store_of(recordings(), gate=GATE_OFF)
    (tmp_path / "big" / "disk" / "archive").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "big" / "disk" / "archive")
    embed_store(encoder, store, tmp_path / "link")
    for folder in ("link", "big/disk/archive"):
        archive = open_archive(tmp_path / folder)
        assert Store(archive.store_folder).sha256 == store.sha256
        again = load_encoder(archive.folder / archive.manifest.places.encoder)
        assert again.about["weights_sha256"] == encoder.about["weights_sha256"]


def test_every_recording_refused(store_of: Maker, encoder: PretrainedEncoder, tmp_path: Path) -> None:
    store: Store = store_of([make_recording(("V6",), 3000, record_id=f"r{number}") for number in range(3)])
    archive = embed_store(encoder, store, tmp_path / "archive")
    assert (len(archive), archive.manifest.refused) == (0, {"lead": 3})
    assert archive.vectors().shape == (0, 32)
    assert archive.table().num_rows == 0
