"""Keyed hashes: what follows from the key and the number alone, and a key that only its owner can read."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import PSEUDONYM, PatientKey, make_key, read_key

KEY = PatientKey(bytes(range(32)))
OTHER = PatientKey(bytes(range(1, 33)))
texts = st.text(max_size=40)


def test_a_pseudonym_is_the_hmac_that_openssl_gives() -> None:
    """The golden value comes from ``openssl dgst -mac HMAC``."""
    key = bytes(range(32)).hex()
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}"]
    done = subprocess.run(command, input=b"clocs/patient\0SBJ-123", capture_output=True, check=True)
    assert KEY.patient("SBJ-123") == "p" + done.stdout.decode().split()[-1][:20]


@given(texts, texts)
def test_equal_numbers_have_equal_pseudonyms_and_others_have_others(one: str, other: str) -> None:
    assert KEY.record(one) == KEY.record(one)
    assert (KEY.record(one) == KEY.record(other)) == (one == other)
    assert KEY.record(one)[1:] != KEY.patient(one)[1:], "a file and a patient of one name are not to be linked"
    assert KEY.record(one) != OTHER.record(one)
    assert PSEUDONYM.fullmatch(KEY.record(one))
    assert PSEUDONYM.fullmatch(KEY.patient(one))


@given(st.text("0123456789abcXYZ-", min_size=4, max_size=12))
def test_a_pseudonym_depends_neither_on_case_nor_on_blanks_and_does_not_hold_the_number(number: str) -> None:
    assert KEY.patient(f"  {number.lower()} ") == KEY.patient(number.upper())
    assert len(number) < 6 or number not in KEY.patient(number)


def test_surrogates_of_odd_file_names_are_hashed_too() -> None:
    assert KEY.record("\udcfc.xml") != KEY.record("\udcfd.xml")


def test_a_key_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "safe" / "key"
    made = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == read_key(str(path)) == made != make_key(str(tmp_path / "other"))
    assert made.secret.hex() not in repr(made)
    with pytest.raises(ConfigError, match="never overwritten"):
        make_key(path)
    assert read_key(path) == made


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"abc", b"zz" * 32, b"00" * 31, b"00" * 33, b"\xff" * 64])
def test_a_file_without_a_key_is_refused_without_repeating_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no key") as refusal:
        read_key(path)
    assert "zz" not in str(refusal.value)


def test_an_absent_key_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make one: clocs data make-key"):
        read_key(tmp_path / "key")
