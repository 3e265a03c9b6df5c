"""What a service is started with. Frozen: nothing changes while it runs."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from clocs.core.errors import ConfigError
from clocs.training.shipped import DEFAULT_ENCODER

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN: Final = 16
"""Characters."""
MOST_SHOWN: Final = 60.0
"""Seconds of a recording in one preview or picture: twelve leads of it at 1 kHz are drawn within a parsing process's
limits, the costliest (as PNG) in 8 s of its time and 240 MiB."""


def default_audit_log() -> Path:
    """Where searches are written down if nothing else is said."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "clocs" / "searches.jsonl"


class Limits(BaseModel):
    """How much one request, and all of them together, may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload_bytes: int = Field(default=64 << 20, ge=1 << 10)
    upload_seconds: float = Field(default=30.0, gt=0)
    """From the request's head to the end of its body."""
    upload_files: int = Field(default=16, ge=1)
    head_seconds: float = Field(default=10.0, gt=0)
    """From the connection to the end of a request's head."""
    parse_seconds: float = Field(default=10.0, gt=0)
    """Of the processor's time; by the clock, three times that."""
    parse_memory_bytes: int = Field(default=512 << 20, ge=64 << 20)
    """Address space of a parsing process above what it has when it starts."""
    parsing_processes: int = Field(default_factory=lambda: max(2, min(8, os.cpu_count() or 1)), ge=1)
    files_per_process: int = Field(default=10_000, ge=1)
    """A parsing process is replaced after so many uploads."""
    active: int = Field(default_factory=lambda: max(2, min(8, os.cpu_count() or 1)), ge=1)
    """Requests that are worked on at once."""
    waiting: int = Field(default=16, ge=0)
    """Requests that may wait for that; more are refused before their body is read."""
    longest_seconds: float = Field(default=600.0, gt=0)
    """Of a recording that is embedded or classified."""
    shown_seconds: float = Field(default=MOST_SHOWN, gt=0, le=MOST_SHOWN)
    """Of a recording in a preview."""


class ServiceSettings(BaseModel):
    """Everything about a service; safe as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    """0: any that is free."""
    encoder: str | None = None
    """Name or folder. None: the index's; without one, the encoder that comes with the package."""
    device: str | None = None
    """Device of torch that runs the encoder. None: ONNX Runtime, which serves nearly half as many requests more."""
    index: Path | None = None
    token: SecretStr | None = None
    open_access: bool = False
    """No token is needed; on loopback only."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, beside this machine's own, under which browsers reach the service, such as a proxy's."""
    show_ids: bool = False
    """Give out patient and record ids of the index."""
    allow_embeddings: bool = False
    audit_log: Path = Field(default_factory=default_audit_log)
    token_file: Path | None = None
    """File that the token was read from; parsing processes must not be able to read it."""
    without_landlock: bool = False
    """Start also where the kernel has no Landlock; where it has, it is used all the same."""
    unconfined: bool = False
    """Start also on systems other than Linux, where parsing processes are not confined; on loopback only."""
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if self.open_access and not self.on_loopback:
            raise ConfigError(
                f"open access at {self.host} would let everyone on the network in. Keep the token, or listen on "
                "127.0.0.1 only."
            )
        if self.unconfined and not self.on_loopback:
            raise ConfigError(f"Without Linux, uploads are parsed unconfined: listen on 127.0.0.1, not on {self.host}.")
        if self.open_access and self.token is not None:
            raise ConfigError("open access and a token exclude each other; choose one")
        if not self.open_access and (self.token is None or len(self.token.get_secret_value()) < SHORTEST_TOKEN):
            raise ConfigError(f"a service needs a token of at least {SHORTEST_TOKEN} characters")
        return self

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def encoder_or_default(self) -> str:
        """The encoder of a service without an index."""
        return self.encoder or DEFAULT_ENCODER


def read_token(path: Path) -> SecretStr:
    """The token in a file that only its owner may read. systemd lets a service read its credentials by group bits."""
    handed_over = os.environ.get("CREDENTIALS_DIRECTORY") == str(path.parent)
    try:
        if path.stat().st_mode & (0o007 if handed_over else 0o077):
            raise ConfigError(f"the token in {path} can be read by others; make it yours alone: chmod 600 {path}")
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise ConfigError(
            f"no token can be read from {path}: {reason}. To make one: "
            f"head -c 24 /dev/urandom | base64 > {path} && chmod 600 {path}"
        ) from error
    if len(text) < SHORTEST_TOKEN or not text.isprintable() or " " in text:
        raise ConfigError(f"{path} holds no token: it must be one line of at least {SHORTEST_TOKEN} signs, no blanks")
    return SecretStr(text)
