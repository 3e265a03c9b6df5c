"""Who may ask: a bearer token, in constant time; a name that is this machine's; headers that close all else."""

from __future__ import annotations

import hmac
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from clocs.service.problems import ProblemError, send_problem
from clocs.service.settings import LOOPBACK_NAMES, ServiceSettings

GUARDED: Final = ("/api/", "/metrics")
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
    """Lets through what may be asked. Pure ASGI: nothing of a body is read before."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._token = settings.token.get_secret_value().encode() if settings.token else None
        self._proxies = {name.lower().strip("[]") for name in settings.allowed_hosts}
        own = {settings.host.lower(), *LOOPBACK_NAMES, *self._proxies}
        self._hosts = own if settings.on_loopback else None

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
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return ProblemError(
                421, "wrong-host", "The service is not known by this name", "Use the address it printed."
            )
        if origin is not None and not self._is_own(origin.decode("latin-1").lower().partition("://")[2], host):
            return ProblemError(
                403, "foreign-origin", "Pages of other sites may not ask", "Use the service's own page."
            )
        if self._token is None or not scope["path"].startswith(GUARDED):
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        return ProblemError(
            401,
            "token-needed",
            "A token is needed",
            "Send the header 'Authorization: Bearer TOKEN'. The service printed the token when it started, or it is in "
            "the file given by --token-file.",
            {"www-authenticate": "Bearer"},
        )

    def _is_own(self, origin: str, host: str) -> bool:
        return bool(origin) and (origin == host or _name_of(origin) in self._proxies)


def _name_of(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
