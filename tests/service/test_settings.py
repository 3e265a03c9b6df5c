"""Secure defaults, and rejection of insecure settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from clocs.core.errors import ConfigError
from clocs.service.rights import Right
from clocs.service.settings import ServiceSettings, default_audit_log, read_tokens

TOKEN = SecretStr("sixteen-signs-ok")


def test_by_default_it_listens_on_loopback_and_returns_no_ids() -> None:
    settings = ServiceSettings(token=TOKEN)
    assert settings.on_loopback
    assert (settings.open_access, settings.show_ids, settings.allow_embeddings) == (False, False, False)
    assert not settings.print_times
    assert "sixteen" not in repr(settings)


@pytest.mark.parametrize(("host", "here"), [("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("ward", False)])
def test_what_is_loopback(host: str, here: bool) -> None:
    assert ServiceSettings(host=host, token=TOKEN).on_loopback is here


def test_open_access_is_for_loopback_only() -> None:
    assert ServiceSettings(open_access=True).token is None
    with pytest.raises(ConfigError, match="everyone on the network"):
        ServiceSettings(host="0.0.0.0", open_access=True)
    with pytest.raises(ConfigError, match="exclude each other"):
        ServiceSettings(open_access=True, token=TOKEN)


@pytest.mark.parametrize("token", [None, SecretStr("short")])
def test_a_valid_token_is_required(token: SecretStr | None) -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        ServiceSettings(token=token)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        ServiceSettings.model_validate({"token": "sixteen-signs-ok", "colour": "red"})


def test_a_token_is_read_from_a_file_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sixteen-signs-ok\n")
    path.chmod(0o600)
    assert read_tokens(path) == {"token": SecretStr("sixteen-signs-ok")}
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_tokens(path)


@pytest.mark.parametrize("text", ["", "short", "two words are no token", "not-ascii-äöü-äöü-äöü"])
def test_invalid_tokens_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as refusal:
        read_tokens(path)
    assert not text or text not in str(refusal.value).replace(str(path), "")
    with pytest.raises(ConfigError, match="No token"):
        read_tokens(tmp_path / "absent")


NAMED = """
[prometheus]
token = "token-of-prometheus"
rights = ["metrics"]

[sign-on]
token = "token-of-the-proxy"
user_header = "X-Clocs-User"
rights = ["view"]
users = { anna = ["view", "export"] }
"""


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_named_tokens_are_read_with_their_rights(tmp_path: Path) -> None:
    settings = ServiceSettings(**read_tokens(private(tmp_path / "tokens", NAMED)))
    assert settings.token is None
    prometheus, proxy = settings.tokens["prometheus"], settings.tokens["sign-on"]
    assert (prometheus.rights, prometheus.user_header) == (frozenset({Right.METRICS}), None)
    assert proxy.rights == {Right.VIEW}
    assert dict(proxy.users) == {"anna": {Right.VIEW, Right.EXPORT}}
    assert "token-of" not in repr(settings)
    with pytest.raises(ConfigError, match="exclude each other"):
        ServiceSettings(token=TOKEN, tokens=settings.tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('["metrics"]', '["measure"]'), "prometheus.*rights"),
        (('"token-of-prometheus"', '"short"'), "at least 16"),
        (('user_header = "X-Clocs-User"', ""), "user_header"),
        (('"X-Clocs-User"', '"X Clocs: User"'), "user_header"),
        (("rights = [", "right = ["), "right: Extra inputs"),
        (('"token-of-prometheus"', '"token-of-the-proxy"'), "same token"),
        (("[prometheus]", "[prometheus"), "expected a token on one line"),
    ],
)
def test_invalid_named_tokens_are_rejected(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert change[0] in NAMED
    with pytest.raises(ConfigError, match=message) as refusal:
        read_tokens(private(tmp_path / "tokens", NAMED.replace(*change)))
    assert "token-of" not in str(refusal.value)


def test_the_default_audit_log_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert default_audit_log() == Path("/somewhere/clocs/searches.jsonl")
