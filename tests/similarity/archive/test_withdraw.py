"""A withdrawn patient leaves the newest version of an archive, stays out, and leaves every byte after a prune."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.signals.quality import GATE_OFF
from clocs.similarity.archive import embedding_task
from clocs.similarity.archive.archive import Archive, open_archive
from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.archive.prune import prune_embeddings
from clocs.similarity.archive.withdraw import count_patients, withdraw_embeddings
from clocs.similarity.integrity import verify_embeddings
from clocs.store.store import Store, open_store
from clocs.store.withdraw import withdraw
from clocs.store.withdrawn import WITHDRAWN
from tests.faults.stores import fingerprint
from tests.inference.conftest import make_encoder
from tests.similarity.archive.test_embedding import POLICY, recordings
from tests.similarity.archives import clustered, people, write_archive
from tests.store.conftest import Maker, store_of

__all__ = ["store_of"]
NOW = timedelta(0)
GONE = "p4"
"""Patient with recording r8, which is embedded, and r9, which is refused."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    return load_encoder(make_encoder(tmp_path_factory.mktemp("encoder") / "best", POLICY))


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Twelve recordings in three shards; the patient's are in the last one."""
    return store_of(recordings(), gate=GATE_OFF)


@pytest.fixture
def archive(store: Store, encoder: PretrainedEncoder, tmp_path: Path) -> Archive:
    return embed_store(encoder, store, tmp_path / "archive")


def ids(archive: Archive) -> list[str]:
    return list(archive.table(["record_id"]).column(0).to_pylist())


def files_with(folder: Path, *values: bytes) -> set[str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix() for path in paths if any(one in path.read_bytes() for one in values)}


def test_a_new_version_lacks_the_patient_and_keeps_the_rest(archive: Archive) -> None:
    before = dict(zip(ids(archive), archive.vectors(), strict=True))
    leads = dict(zip(ids(archive), archive.lead_vectors(np.arange(len(archive)))[0], strict=True))
    done = withdraw_embeddings(archive.folder, [GONE])
    assert (done.version, done.patients, done.recordings, done.refused, done.older_versions) == (2, 1, 1, 1, (1,))
    after = open_archive(archive.folder)
    assert ids(after) == [name for name in before if name != "r8"]
    np.testing.assert_array_equal(after.vectors(), [before[name] for name in ids(after)])
    kept, present = after.lead_vectors(np.arange(len(after)))
    np.testing.assert_array_equal(kept, [leads[name] for name in ids(after)])
    assert not present.all(), "a recording without lead II stays without it"
    about = after.manifest
    assert (about.records_in, about.embedded, about.refused, about.withdrawn) == (12, 7, {"lead": 1, "signal": 2}, 2)
    assert about.shards[:2] == archive.manifest.shards[:2]
    assert about.shards[2] != archive.manifest.shards[2]
    assert len(open_archive(archive.folder, 1)) == 8
    assert verify_embeddings(archive.folder) == []


def test_a_later_embedding_leaves_the_patient_out_and_embeds_nothing_again(
    archive: Archive, store: Store, encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw_embeddings(archive.folder, [GONE])
    after = open_archive(archive.folder).manifest
    assert embed_store(encoder, store, archive.folder).manifest == after
    for path in (archive.folder / "receipts").iterdir():  # every task is run again
        path.unlink()
    whole = fingerprint(archive.folder / "shards")
    again = embed_store(encoder, store, archive.folder)
    assert ids(again) == [name for name in ids(archive) if name != "r8"]
    assert again.manifest.withdrawn == 2
    assert fingerprint(archive.folder / "shards").items() >= whole.items(), "shards of version 1 are not overwritten"
    embedded: list[int] = []
    embed = embedding_task._embed

    def noted(task: embedding_task.Task, *rest: Any) -> Any:
        embedded.append(task.first)
        return embed(task, *rest)

    monkeypatch.setattr(embedding_task, "_embed", noted)
    withdraw(store, [GONE])
    newest = embed_store(encoder, open_store(store.folder), archive.folder)
    assert embedded == [8], "only the shard that the store has rewritten"
    assert (ids(newest), newest.manifest.records_in, newest.manifest.withdrawn) == (ids(again), 10, 0)


def test_no_byte_of_the_patient_is_left_after_a_prune(
    archive: Archive, store: Store, encoder: PretrainedEncoder
) -> None:
    row = ids(archive).index("r8")
    lead = archive.lead_vectors(np.array([row]))[0][0, 0]
    texts = [b'"p4"', b'"r9"', b"r8", archive.vectors()[row].tobytes(), lead.tobytes()]
    before = files_with(archive.folder, *texts)
    assert {Path(name).parent.name for name in before} == {"", "shards", "receipts"}
    withdraw_embeddings(archive.folder, [GONE])
    assert prune_embeddings(archive.folder).versions == (), "the grace period is a day"
    planned = prune_embeddings(archive.folder, grace=NOW)
    assert (planned.versions, planned.dry_run) == ((1,), True)
    assert files_with(archive.folder, *texts) == before - {name for name in before if name.startswith("receipts")}, (
        "a dry run deletes nothing"
    )
    done = prune_embeddings(archive.folder, grace=NOW, dry_run=False)
    assert done.files == planned.files
    assert sorted(name.partition("/")[0].partition("-")[0] for name in done.files) == ["manifest", "refused", "shards"]
    assert files_with(archive.folder, *texts) == set()
    assert verify_embeddings(archive.folder) == []
    embed_store(encoder, store, archive.folder)
    assert files_with(archive.folder, *texts) == set()
    assert prune_embeddings(archive.folder, grace=NOW, dry_run=False).files == ()


def test_a_patient_of_an_older_version_is_found_there(
    archive: Archive, store: Store, encoder: PretrainedEncoder
) -> None:
    withdraw(store, [GONE])
    embed_store(encoder, open_store(store.folder), archive.folder)
    assert count_patients(archive.folder, [GONE, "p1", "stranger"]) == 2
    done = withdraw_embeddings(archive.folder, [GONE])
    assert (done.version, done.patients, done.recordings, done.refused, done.older_versions) == (2, 1, 0, 0, (1,))
    prune_embeddings(archive.folder, grace=NOW, dry_run=False)
    assert files_with(archive.folder, b'"p4"', b'"r9"', b"r8") == set()
    assert count_patients(archive.folder, [GONE]) == 0
    again = withdraw_embeddings(archive.folder, [GONE])
    assert (again.version, again.patients, again.already_withdrawn) == (2, 0, 1)


def test_an_unknown_id_changes_nothing_unless_it_is_allowed(archive: Archive) -> None:
    before = fingerprint(archive.folder)
    with pytest.raises(ConfigError, match=r"No patient p77 in .* Nothing was changed.*--allow-unknown"):
        withdraw_embeddings(archive.folder, [GONE, "p77"])
    assert fingerprint(archive.folder) == before
    done = withdraw_embeddings(archive.folder, ["p77"], allow_unknown=True)
    assert (done.version, done.patients, done.unknown) == (1, 0, 1)


def test_original_ids_need_the_key_of_the_store(tmp_path: Path) -> None:
    make_key(tmp_path / "a.key")
    secret = read_key(tmp_path / "a.key")
    rows = [{**row, "patient_id": secret.patient(row["patient_id"])} for row in people(5)]
    write_archive(tmp_path / "archive", rows, clustered(5, 8), key=secret.fingerprint)
    with pytest.raises(ConfigError, match=r"The archive has pseudonyms, but 1 of 1 ids are not.*--key"):
        withdraw_embeddings(tmp_path / "archive", ["p2"])
    make_key(tmp_path / "b.key")
    with pytest.raises(ConfigError, match="another key"):
        withdraw_embeddings(tmp_path / "archive", ["p2"], key=tmp_path / "b.key")
    assert withdraw_embeddings(tmp_path / "archive", [" P2 "], key=tmp_path / "a.key").recordings == 1
    assert withdraw_embeddings(tmp_path / "archive", [secret.patient("p3")]).recordings == 1


def test_everyone_may_be_withdrawn(tmp_path: Path) -> None:
    write_archive(tmp_path / "archive", people(9), clustered(9, 8))
    done = withdraw_embeddings(tmp_path / "archive", [f"p{number}" for number in range(9)])
    assert (done.recordings, len(open_archive(tmp_path / "archive"))) == (9, 0)
    assert verify_embeddings(tmp_path / "archive") == []


def test_a_damaged_list_of_withdrawn_patients_stops_an_embedding(
    archive: Archive, store: Store, encoder: PretrainedEncoder
) -> None:
    withdraw_embeddings(archive.folder, [GONE])
    path = archive.folder / WITHDRAWN
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    assert [fault.file for fault in verify_embeddings(archive.folder)] == [WITHDRAWN]
    with pytest.raises(IntegrityError, match=WITHDRAWN):
        embed_store(encoder, store, archive.folder)


def test_a_folder_without_an_archive_is_refused_and_not_created(tmp_path: Path) -> None:
    for change in (lambda: withdraw_embeddings(tmp_path / "none", [GONE]), lambda: prune_embeddings(tmp_path / "none")):
        with pytest.raises(StoreError, match="no manifest"):
            change()
    assert not (tmp_path / "none").exists()


def test_a_young_task_record_protects_its_shard(archive: Archive) -> None:
    """A killed embedding is continued with it."""
    (archive.folder / "manifest-000001.json").rename(archive.folder / "kept.json")
    write_archive(archive.folder, people(2), clustered(2, 8))  # another version 1, as if by another embedding
    done = prune_embeddings(archive.folder, dry_run=False)
    assert done.files == ()
    done = prune_embeddings(archive.folder, grace=NOW, dry_run=False)
    kinds = sorted(name.partition("/")[0].partition("-")[0] for name in done.files)
    assert kinds == ["receipts"] * 3 + ["refused"] + ["shards"] * 3
