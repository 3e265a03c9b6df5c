"""Lists of who opted out, as people write them, against the ids that an index holds."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import make_key
from clocs.similarity.index.changes import Deleted, build_index, delete_patients, rebuild_index
from clocs.similarity.index.search import open_index
from tests.similarity.archives import clustered, write_archive

E = 8


def index_of(folder: Path, ids: Sequence[str]) -> Path:
    rows = [{"record_id": f"r{place}", "patient_id": name} for place, name in enumerate(ids)]
    build_index(write_archive(folder / "archive", rows, clustered(len(rows), E)), folder / "index")
    return folder / "index"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "safe.key")
    return tmp_path / "safe.key"


@pytest.fixture
def hidden(key: Path, tmp_path: Path) -> Path:
    """An index of the numbers 4711a, 4712a and 4713a under pseudonyms, made by hand."""
    secret = bytes.fromhex(key.read_text())
    made = [hmac.new(secret, f"clocs/patient\0{number}A".encode(), hashlib.sha256) for number in range(4711, 4714)]
    return index_of(tmp_path, [f"p{each.hexdigest()[:20]}" for each in made])


def holds(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_key_goes_from_numbers_to_pseudonyms(hidden: Path, key: Path) -> None:
    pseudonym = str(open_index(hidden).snapshot.facts(2)["patient_id"])
    done = delete_patients(hidden, [" 4711a", "\uff14711A", pseudonym, "4799a"], key=key, allow_unknown=True)
    assert done == Deleted(patients=2, unknown=1, before=0)
    assert len(open_index(hidden)) == 1
    assert not holds(hidden, "471")
    assert not holds(hidden, "4799")


@pytest.mark.parametrize("emptied", [False, True])
def test_numbers_never_come_into_an_index_of_pseudonyms(emptied: bool, hidden: Path, key: Path) -> None:
    if emptied:
        delete_patients(hidden, ["4711a", "4712a", "4713a"], key=key)
        rebuild_index(hidden)
    before = (hidden / "index.json").read_bytes()
    pseudonym = f"p{'0' * 20}"
    with pytest.raises(ConfigError, match=r"2 of 3 ids are none: nobody was deleted.*--key") as refused:
        delete_patients(hidden, ["4711a", "4712a", pseudonym], allow_unknown=True)
    assert "471" not in str(refused.value)
    assert (hidden / "index.json").read_bytes() == before
    assert delete_patients(hidden, [pseudonym], allow_unknown=True).unknown == 1


def test_a_key_for_an_index_of_plain_ids_is_a_mistake(key: Path, tmp_path: Path) -> None:
    folder = index_of(tmp_path, ["4711a"])
    with pytest.raises(ConfigError, match="Leave out --key"):
        delete_patients(folder, ["4711a"], key=key, allow_unknown=True)
    assert len(open_index(folder)) == 1


def test_letters_are_written_as_in_tables_unless_the_index_knows_them_otherwise(tmp_path: Path) -> None:
    """A table turns full-width signs into plain ones; the name of a file keeps its accent as two signs."""
    folder = index_of(tmp_path, ["P12", "Jose\u0301/1", "P13"])
    done = delete_patients(folder, ["\uff3012 ", "Jose\u0301/1", ""])
    assert done == Deleted(patients=2, unknown=0, before=0)
    assert open_index(folder).search(clustered(1, E), 3).patient_ids.tolist() == [["P13", "", ""]]
