"""Access control: tokens, rights, host name, origin and security headers."""

from __future__ import annotations

import ipaddress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from clocs.service.problems import NO_ROUTE, ProblemError, problem_from_status, send_problem
from clocs.service.rights import ANYONE, IDENTITY, Identity, Tokens, UserNameError, is_open, rights_of
from clocs.service.settings import LOOPBACK_NAMES, ServiceSettings

ANY_HOST_PATHS: Final = ("/healthz", "/readyz")
"""Paths that are answered under any host name, for health probes. They return no data."""
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "accelerometer=(), camera=(), display-capture=(), fullscreen=(self), geolocation=(), "
    "gyroscope=(), microphone=(), payment=(), usb=()",
}


class Access:
    """ASGI middleware that rejects unauthorized requests before it reads their bodies."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._tokens = None if settings.open_access else Tokens(settings.named_tokens)
        self._proxies = {name.lower().strip("[]") for name in settings.allowed_hosts}
        self._hosts = {settings.host.lower(), *LOOPBACK_NAMES, *self._proxies}
        self._is_on_network = not settings.on_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        problem = self._refusal(scope)
        if problem is not None:
            return await send_problem(scope, send, problem)
        return await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ProblemError | None:
        headers = {name: value for name, value in scope["headers"] if name in (b"host", b"origin", b"authorization")}
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = headers.get(b"origin")
        if scope["path"] not in ANY_HOST_PATHS and not self._is_own_host(_host_name(host)):
            return ProblemError(
                421,
                "wrong-host",
                "The host name is not accepted",
                "Use the address that the service printed. Its operator can add a name with: "
                "clocs serve --allowed-host NAME.",
            )
        if origin is not None and not self._is_own_origin(origin.decode("latin-1").lower().partition("://")[2], host):
            return ProblemError(
                403, "foreign-origin", "Requests from other sites are not accepted", "Use the service's own page."
            )
        if is_open(scope["path"]):
            return None
        try:
            identity = self._identity(scope, headers.get(b"authorization", b""))
        except UserNameError:
            return _sign_on_needed()
        if identity is None:
            return _token_needed()
        scope[IDENTITY] = identity
        return _missing_right(scope["path"], identity)

    def _identity(self, scope: Scope, authorization: bytes) -> Identity | None:
        return self._tokens.identify(authorization, scope["headers"]) if self._tokens else ANYONE

    def _is_own_host(self, name: str) -> bool:
        """Return True if a host name belongs to the service. On a network, IP addresses are accepted because no page
        can forge them."""
        return name in self._hosts or (self._is_on_network and _is_address(name))

    def _is_own_origin(self, origin: str, host: str) -> bool:
        return bool(origin) and (origin == host or _host_name(origin) in self._proxies)


def _missing_right(path: str, identity: Identity) -> ProblemError | None:
    """Return the refusal of a path that does not exist, or that requires a right that the identity does not have."""
    rights = rights_of(path)
    if not rights:
        return problem_from_status(404, NO_ROUTE)
    missing = [right for right in rights if right not in identity.rights]
    if not missing:
        return None
    return ProblemError(
        403,
        "right-needed",
        f"The right '{missing[0]}' is required",
        "The operator of the service can grant it in the file of --token-file.",
    )


def _token_needed() -> ProblemError:
    return ProblemError(
        401,
        "token-needed",
        "A token is required",
        "Send the header 'Authorization: Bearer TOKEN'. The service printed the token at its start, or read it from "
        "--token-file.",
        {"www-authenticate": "Bearer"},
    )


def _sign_on_needed() -> ProblemError:
    return ProblemError(
        401,
        "sign-on-needed",
        "Sign-on is required",
        "The proxy did not name a user. Sign on again.",
        {"www-authenticate": "Bearer"},
    )


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
