"""Rights: which rights every route requires, and which rights a token or a user of a proxy has."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from starlette.types import Scope

from clocs.core.errors import ConfigError

MIN_TOKEN_LENGTH: Final = 16
"""Minimum length of a token in characters."""
MAX_USER_LENGTH: Final = 128
"""Maximum length in characters of a user's name in a proxy's header."""
IDENTITY: Final = "clocs.identity"
"""Key of the identity in the ASGI scope."""


class Right(StrEnum):
    """A right of a token or a user. No right includes another."""

    VIEW = "view"
    """Read about the model, and preview, classify and report on uploads."""
    SEARCH = "search"
    """Search for similar patients, open them, and see the map."""
    LIST = "list"
    """List and open the recordings of a store."""
    EXPORT = "export"
    """Get pictures, sheets to print, FHIR bundles and embeddings."""
    METRICS = "metrics"
    """Read the metrics."""


EVERY_RIGHT: Final = frozenset(Right)
ROUTE_RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "/api/openapi.json": (Right.VIEW,),
    "/api/v1/me": (Right.VIEW,),
    "/api/v1/model": (Right.VIEW,),
    "/api/v1/preview": (Right.VIEW,),
    "/api/v1/measure": (Right.VIEW,),
    "/api/v1/classify": (Right.VIEW,),
    "/api/v1/verdicts": (Right.VIEW,),
    "/api/v1/similar": (Right.SEARCH,),
    "/api/v1/neighbours/{handle}/preview": (Right.SEARCH,),
    "/api/v1/map": (Right.SEARCH,),
    "/api/v1/recordings": (Right.LIST,),
    "/api/v1/recordings/{handle}/patient": (Right.LIST,),
    "/api/v1/recordings/{handle}/preview": (Right.LIST,),
    "/api/v1/recordings/{handle}/measure": (Right.LIST,),
    "/api/v1/recordings/{handle}/report": (Right.LIST,),
    "/api/v1/recordings/{handle}/similar": (Right.LIST, Right.SEARCH),
    "/api/v1/recordings/{handle}/figure": (Right.LIST, Right.EXPORT),
    "/api/v1/recordings/{handle}/print": (Right.LIST, Right.EXPORT),
    "/api/v1/recordings/{handle}/fhir": (Right.LIST, Right.EXPORT),
    "/api/v1/embed": (Right.EXPORT,),
    "/api/v1/figure": (Right.EXPORT,),
    "/api/v1/print": (Right.EXPORT,),
    "/api/v1/fhir": (Right.EXPORT,),
    "/metrics": (Right.METRICS,),
}
"""The rights that each route requires, all of them. A route that is neither here nor open does not exist."""
OPEN_ROUTES: Final = frozenset({"/", "/healthz", "/readyz"})
"""Routes without data, which require neither a token nor a right."""
OPEN_FILES: Final = "/viewer/"
"""Folder of the page's own files, which are open as well."""


def is_open(path: str) -> bool:
    """Return True if a path requires no token."""
    return path in OPEN_ROUTES or path.startswith(OPEN_FILES)


def rights_of(path: str) -> tuple[Right, ...]:
    """Return the rights that a path requires; empty if it belongs to no route."""
    return next((rights for pattern, rights in _PATTERNS if pattern.fullmatch(path)), ())


_PATTERNS: Final = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", route)), rights) for route, rights in ROUTE_RIGHTS.items()]


class NamedToken(BaseModel):
    """A token with a name and rights, or the token by which a proxy proves who it is.

    With ``user_header``, the token is a proxy's. The proxy sends the name of the user in this header, and replaces the
    header of its clients. Without the token, the header has no effect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    rights: frozenset[Right]
    """Rights of the token, or of every user of the proxy who is not in ``users``."""
    user_header: str | None = Field(default=None, pattern=r"^[A-Za-z][A-Za-z0-9-]*$")
    users: Mapping[str, frozenset[Right]] = Field(default_factory=dict)
    """Rights of single users of the proxy."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.token.get_secret_value()) < MIN_TOKEN_LENGTH:
            raise ConfigError(f"Expected a token of at least {MIN_TOKEN_LENGTH} characters.")
        if self.users and self.user_header is None:
            raise ConfigError("Users are named by a proxy. Set the header of their names: user_header.")
        return self


@dataclass(frozen=True)
class Identity:
    """The token and the user of a request."""

    rights: frozenset[Right]
    token: str | None = None
    """Name of the token; None for the only token and for open access."""
    user: str | None = None
    """Name of the user, if a proxy gave one."""


ANYONE: Final = Identity(EVERY_RIGHT)


def identity_of(scope: Scope) -> Identity:
    """Return the identity of an admitted request."""
    found: Identity = scope[IDENTITY]
    return found


class Tokens:
    """Tokens of a service, compared in constant time."""

    def __init__(self, named: Sequence[tuple[str | None, NamedToken]]) -> None:
        self._named = named

    def identify(self, authorization: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Identity | None:
        """Return the identity of a request, or None if its token is unknown.

        Raises:
            UserNameError: The token is a proxy's, and the request does not name exactly one user.
        """
        scheme, _, given = authorization.partition(b" ")
        matching = [
            (name, known)
            for name, known in self._named
            if hmac.compare_digest(given.strip(), known.token.get_secret_value().encode())
        ]
        if scheme.lower() != b"bearer" or not matching:
            return None
        name, known = matching[0]
        if known.user_header is None:
            return Identity(known.rights, name)
        user = _user_name(known.user_header.lower().encode(), headers)
        return Identity(known.users.get(user, known.rights), name, user)


class UserNameError(Exception):
    """A proxy did not name exactly one user."""


def _user_name(header: bytes, headers: Iterable[tuple[bytes, bytes]]) -> str:
    values = [value for name, value in headers if name == header]
    try:
        (user,) = (value.decode().strip() for value in values)
    except ValueError:
        raise UserNameError from None
    if not user.isprintable() or not 0 < len(user) <= MAX_USER_LENGTH:
        raise UserNameError
    return user
