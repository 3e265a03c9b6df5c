"""Pseudonyms depend on the key and the id only, and only the owner can read the key."""

from __future__ import annotations

import stat
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import PSEUDONYM, PatientKey, make_key, read_key

KEY = PatientKey(bytes(range(32)))
OTHER = PatientKey(bytes(range(1, 33)))
texts = st.text(max_size=40)


def test_a_pseudonym_equals_the_hmac_of_openssl() -> None:
    """The golden value comes from ``openssl dgst -mac HMAC``."""
    key = bytes(range(32)).hex()
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}"]
    done = subprocess.run(command, input=b"clocs/patient\0SBJ-123", capture_output=True, check=True)
    assert KEY.patient("SBJ-123") == "p" + done.stdout.decode().split()[-1][:20]


@given(texts, texts)
def test_pseudonyms_are_equal_only_for_equal_ids(one: str, other: str) -> None:
    assert KEY.record(one) == KEY.record(one)
    assert (KEY.record(one) == KEY.record(other)) == (one == other)
    assert KEY.record(one)[1:] != KEY.patient(one)[1:], "a file and a patient with the same name must not be linkable"
    assert KEY.record(one) != OTHER.record(one)
    assert PSEUDONYM.fullmatch(KEY.record(one))
    assert PSEUDONYM.fullmatch(KEY.patient(one))


@given(st.text("0123456789abcXYZ-", min_size=4, max_size=12))
def test_a_pseudonym_ignores_case_and_blanks_and_does_not_contain_the_id(number: str) -> None:
    assert KEY.patient(f"  {number.lower()} ") == KEY.patient(number.upper())
    assert len(number) < 6 or number not in KEY.patient(number)


@given(st.datetimes(datetime(1950, 1, 1)), st.timedeltas(timedelta(0), timedelta(days=9000)), texts)
def test_times_of_a_patient_are_shifted_back_by_the_same_whole_weeks(
    first: datetime, interval: timedelta, patient: str
) -> None:
    assume(first < datetime.max - interval)
    shifted = KEY.shift_time(first, patient)
    assert KEY.shift_time(first + interval, f" {patient} ") - shifted == interval
    weeks, rest = divmod(first - shifted, timedelta(weeks=1))
    assert 1 <= weeks <= 520
    assert not rest


def test_the_weeks_depend_on_patient_and_key() -> None:
    """The golden value comes from ``openssl dgst -mac HMAC``."""
    key = bytes(range(32)).hex()
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}"]
    done = subprocess.run(command, input=b"clocs/weeks\0SBJ-123", capture_output=True, check=True)
    weeks = 1 + int(done.stdout.decode().split()[-1], 16) % 520
    day = datetime(2020, 2, 29, 8, 30)
    assert KEY.shift_time(day, "sbj-123") == day - timedelta(weeks=weeks)
    assert len({KEY.shift_time(day, str(number)) for number in range(50)}) > 25
    assert KEY.shift_time(day, "SBJ-123") != OTHER.shift_time(day, "SBJ-123")


def test_file_names_with_surrogates_are_hashed() -> None:
    assert KEY.record("\udcfc.xml") != KEY.record("\udcfd.xml")


def test_a_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "safe" / "key"
    made = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == read_key(str(path)) == made != make_key(str(tmp_path / "other"))
    assert made.secret.hex() not in repr(made)
    with pytest.raises(ConfigError, match="never overwritten"):
        make_key(path)
    assert read_key(path) == made


def test_a_key_that_other_users_can_read_is_rejected(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"abc", b"zz" * 32, b"00" * 31, b"00" * 33, b"\xff" * 64])
def test_a_file_without_a_key_is_rejected_and_its_content_is_not_in_the_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="contains no key") as raised:
        read_key(path)
    assert "zz" not in str(raised.value)


def test_the_error_for_a_missing_key_names_the_command_that_creates_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Create one: clocs data make-key"):
        read_key(tmp_path / "key")
