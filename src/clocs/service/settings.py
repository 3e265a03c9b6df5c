"""Settings of a service, which are immutable."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from clocs.core.errors import ConfigError
from clocs.service.rights import EVERY_RIGHT, MIN_TOKEN_LENGTH, NamedToken
from clocs.training.shipped import DEFAULT_ENCODER

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
MAX_SHOWN_SECONDS: Final = 60.0
"""Maximum duration in seconds of a preview or picture. Twelve leads at 1 kHz fit the limits of a parsing process: as
PNG, they take 8 s of processor time and 240 MiB."""


def default_audit_log() -> Path:
    """Return the default path of the audit log."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "clocs" / "searches.jsonl"


class Limits(BaseModel):
    """Limits on single requests and on all requests together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload_bytes: int = Field(default=64 << 20, ge=1 << 10)
    """Maximum size of an upload in bytes, over all its files."""
    upload_seconds: float = Field(default=30.0, gt=0)
    """Time limit in seconds from the request head to the end of the body."""
    upload_files: int = Field(default=16, ge=1)
    """Maximum number of files of an upload."""
    head_seconds: float = Field(default=10.0, gt=0)
    """Time limit in seconds from the connection to the end of the request head."""
    parse_seconds: float = Field(default=10.0, gt=0)
    """Limit of processor time in seconds. The wall-clock limit is three times as long."""
    parse_memory_bytes: int = Field(default=512 << 20, ge=64 << 20)
    """Address space of a parsing process, beyond its size at the start."""
    parsing_processes: int = Field(default_factory=lambda: max(2, min(8, os.cpu_count() or 1)), ge=1)
    """Number of parsing processes. Default: the number of processors, at least 2 and at most 8."""
    files_per_process: int = Field(default=10_000, ge=1)
    """Number of uploads after which a parsing process is replaced."""
    active: int = Field(default_factory=lambda: max(2, min(8, os.cpu_count() or 1)), ge=1)
    """Maximum number of requests processed at once. Default: the number of processors, at least 2 and at most 8."""
    waiting: int = Field(default=16, ge=0)
    """Maximum number of waiting requests; more are refused before their bodies are read."""
    longest_seconds: float = Field(default=600.0, gt=0)
    """Maximum duration in seconds of a recording to embed or classify."""
    shown_seconds: float = Field(default=MAX_SHOWN_SECONDS, gt=0, le=MAX_SHOWN_SECONDS)
    """Maximum duration in seconds of a preview."""


class ServiceSettings(BaseModel):
    """Settings of a service with secure defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    """Port; 0 selects a free one."""
    encoder: str | None = None
    """Name or folder of an encoder. Default: the index's encoder, or the shipped default encoder."""
    device: str | None = None
    """Torch device of the encoder. Default: ONNX Runtime, which serves nearly half as many requests more."""
    index: Path | None = None
    store: Path | None = None
    """Store whose recordings are listed."""
    classified: Path | None = None
    """Arrow table of the measurements and classes of the store's recordings."""
    token: SecretStr | None = None
    """The only token, which has every right."""
    tokens: Mapping[str, NamedToken] = Field(default_factory=dict)
    """Tokens by name, instead of the only one."""
    open_access: bool = False
    """Require no token; only allowed on loopback."""
    allowed_hosts: tuple[str, ...] = ()
    """Additional host names under which browsers reach the service, such as that of a proxy."""
    show_ids: bool = False
    """Return patient and record ids of the index."""
    allow_embeddings: bool = False
    print_times: bool = False
    """Print on sheets when the ECG was recorded, as its file states."""
    audit_log: Path = Field(default_factory=default_audit_log)
    token_file: Path | None = None
    """File of the token, which parsing processes must not be able to read."""
    without_landlock: bool = False
    """Start even if the kernel has no Landlock. If it has, Landlock is used."""
    unconfined: bool = False
    """Start on systems other than Linux, without confined parsing processes; only allowed on loopback."""
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _check_safety(self) -> Self:
        if self.open_access and not self.on_loopback:
            raise ConfigError(
                f"Open access at {self.host} would admit everyone on the network. Use a token, or listen on 127.0.0.1."
            )
        if self.classified is not None and self.store is None:
            raise ConfigError("A table of classified recordings needs their store. Pass the store, too.")
        if self.unconfined and not self.on_loopback:
            raise ConfigError(f"Uploads are only confined on Linux. Listen on 127.0.0.1, not on {self.host}.")
        if sum((self.open_access, self.token is not None, bool(self.tokens))) > 1:
            raise ConfigError("Open access, a token and named tokens exclude each other. Pass one of them.")
        if not self.open_access and not self.named_tokens:
            raise ConfigError(f"Expected a token of at least {MIN_TOKEN_LENGTH} characters.")
        return self

    @property
    def named_tokens(self) -> Sequence[tuple[str | None, NamedToken]]:
        """Tokens with their names; the only token has the name None."""
        if self.token is not None:
            return [(None, NamedToken(token=self.token, rights=EVERY_RIGHT))]
        return list(self.tokens.items())

    @property
    def on_loopback(self) -> bool:
        """True if only this machine can reach the service."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def encoder_or_default(self) -> str:
        """Encoder of a service without an index."""
        return self.encoder or DEFAULT_ENCODER


def read_tokens(path: Path) -> dict[str, Any]:
    """Read one token, or named tokens, from a file that only its owner can read.

    Credentials of systemd may also be readable by the group. A file of one line without spaces is a token with every
    right; any other file is TOML with a table for each token.

    Returns:
        The settings ``token`` or ``tokens``.
    """
    is_systemd_credential = os.environ.get("CREDENTIALS_DIRECTORY") == str(path.parent)
    try:
        if path.stat().st_mode & (0o007 if is_systemd_credential else 0o077):
            raise ConfigError(f"{path} is readable by other users. Protect it with: chmod 600 {path}")
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"No token can be read from {path}: {reason}. Create one with: "
            f"head -c 24 /dev/urandom | base64 > {path} && chmod 600 {path}"
        ) from error
    if re.fullmatch(rf"[\x21-\x7e]{{{MIN_TOKEN_LENGTH},}}", text):
        return {"token": SecretStr(text)}
    return {"tokens": _named_tokens(text, path)}


def _named_tokens(text: str, path: Path) -> dict[str, NamedToken]:
    """Return the tokens of a TOML file. Errors do not quote the file."""
    expected = (
        f"{path}: expected a token on one line, at least {MIN_TOKEN_LENGTH} ASCII characters without spaces, or TOML "
        "with a table for each token."
    )
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise ConfigError(expected) from None
    if not tables or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(expected)
    tokens = {}
    for name, table in tables.items():
        try:
            tokens[name] = NamedToken.model_validate(table)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise ConfigError(f"{path}: token '{name}': {wrong}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: token '{name}': {error.message}") from None
    if len({token.token.get_secret_value() for token in tokens.values()}) < len(tokens):
        raise ConfigError(f"{path}: two names have the same token. Use another token for each.")
    return tokens
