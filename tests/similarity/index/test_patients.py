"""Patient lists as people write them, compared with the ids of an index."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.updates import build_index
from clocs.similarity.index.withdraw import withdraw_from_index
from tests.similarity.archives import clustered, write_archive

E = 8


def index_of(folder: Path, ids: Sequence[str], key: str | None = None) -> Path:
    rows = [{"record_id": f"r{place}", "patient_id": name} for place, name in enumerate(ids)]
    build_index(write_archive(folder / "archive", rows, clustered(len(rows), E), key=key), folder / "index")
    return folder / "index"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "safe.key")
    return tmp_path / "safe.key"


@pytest.fixture
def hidden(key: Path, tmp_path: Path) -> Path:
    """An index of the numbers 4711x to 4713x under pseudonyms, made by hand; hex digits never spell an x."""
    secret = bytes.fromhex(key.read_text())
    made = [hmac.new(secret, f"clocs/patient\0{number}X".encode(), hashlib.sha256) for number in range(4711, 4714)]
    return index_of(tmp_path, [f"p{each.hexdigest()[:20]}" for each in made], read_key(key).fingerprint)


def holds(folder: Path, text: str) -> bool:
    """Return True if a file of the folder contains the text, in lower or upper case."""
    return any(text.encode() in path.read_bytes().lower() for path in folder.rglob("*") if path.is_file())


def test_a_key_goes_from_numbers_to_pseudonyms(hidden: Path, key: Path) -> None:
    pseudonym = str(open_index(hidden).snapshot.patient_info(2)["patient_id"])
    done = withdraw_from_index(hidden, [" 4711x", "\uff14711X", pseudonym, "4799x"], key=key, allow_unknown=True)
    assert (done.patients, done.unknown, done.already_withdrawn) == (2, 1, 0)
    assert len(open_index(hidden)) == 1
    assert not any(holds(hidden, number) for number in ("4711x", "4712x", "4713x", "4799x"))


@pytest.mark.parametrize("emptied", [False, True])
def test_original_ids_never_enter_an_index_of_pseudonyms(emptied: bool, hidden: Path, key: Path) -> None:
    if emptied:
        withdraw_from_index(hidden, ["4711x", "4712x", "4713x"], key=key)
    before = (hidden / "index.json").read_bytes()
    pseudonym = f"p{'0' * 20}"
    with pytest.raises(ConfigError, match=r"2 of 3 ids are not\. Nothing was changed.*--key") as refused:
        withdraw_from_index(hidden, ["4711x", "4712x", pseudonym], allow_unknown=True)
    assert not re.search(r"471\dx", str(refused.value), re.IGNORECASE)
    assert (hidden / "index.json").read_bytes() == before
    assert withdraw_from_index(hidden, [pseudonym], allow_unknown=True).unknown == 1


def test_a_key_for_an_index_of_plain_ids_is_a_mistake(key: Path, tmp_path: Path) -> None:
    folder = index_of(tmp_path, ["4711x"])
    with pytest.raises(ConfigError, match="has no pseudonyms"):
        withdraw_from_index(folder, ["4711x"], key=key, allow_unknown=True)
    assert len(open_index(folder)) == 1


def test_letters_are_written_as_in_tables_unless_the_index_knows_them_otherwise(tmp_path: Path) -> None:
    """A table turns full-width signs into plain ones; the name of a file keeps its accent as two signs."""
    folder = index_of(tmp_path, ["P12", "Jose\u0301/1", "P13"])
    done = withdraw_from_index(folder, ["\uff3012 ", "Jose\u0301/1", ""])
    assert (done.patients, done.unknown, done.already_withdrawn) == (2, 0, 0)
    assert open_index(folder).search(clustered(1, E), 3).patient_ids.tolist() == [["P13", "", ""]]
