"""Rights: every route requires one or two, and who lacks one gets nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.routing import Mount

from clocs.service.app import create_app
from clocs.service.rights import (
    OPEN_FILES,
    OPEN_ROUTES,
    ROUTE_RIGHTS,
    Identity,
    NamedToken,
    Right,
    Tokens,
    UserNameError,
    is_open,
    rights_of,
)
from clocs.service.settings import ServiceSettings
from tests.service.conftest import TOKENS, USER_HEADER
from tests.service.samples import sample
from tests.service.serving import Served
from tests.service.test_api import problem

PROXY = {"authorization": "Bearer token-of-the-proxy"}


def each_route(routes: Iterable[Any]) -> Iterator[Any]:
    """Yield routes, also those of included routers, which newer versions of FastAPI keep as one route."""
    for route in routes:
        router = getattr(route, "original_router", None)
        yield from [route] if router is None else each_route(router.routes)


def test_every_route_is_open_or_has_rights(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(open_access=True, audit_log=tmp_path / "audit"))
    routes = list(each_route(app.routes))
    mounted = {f"{route.path}/" for route in routes if isinstance(route, Mount)}
    paths = {route.path for route in routes if not isinstance(route, Mount)}
    assert mounted == {OPEN_FILES}
    assert paths == set(ROUTE_RIGHTS) | OPEN_ROUTES
    assert not [path for path in ROUTE_RIGHTS if is_open(path)]
    assert all(rights_of(path.replace("{handle}", "p-1")) == rights for path, rights in ROUTE_RIGHTS.items())
    assert all(ROUTE_RIGHTS.values())
    stated = {path: operations for path, operations in app.openapi()["paths"].items() if path not in OPEN_ROUTES}
    for path, operations in stated.items():
        assert [operation["security"] for operation in operations.values()] == [[{"token": list(ROUTE_RIGHTS[path])}]]


@pytest.mark.parametrize("path", ROUTE_RIGHTS)
def test_without_the_right_a_request_gets_nothing(path: str, open_handed: Served) -> None:
    """For every route, a token for each right, and one for all but each: only those with the route's rights get in.

    The handle is one that opens a recording, so that only the rights can be the reason.
    """
    rows = open_handed.get("/api/v1/recordings").json()["recordings"]
    address = path.replace("{handle}", rows[0]["handle"] if "/recordings/" in path else "p-1")
    for name in [name for right in Right for name in (right.value, f"not-{right}")]:
        token = TOKENS[name]
        for method in ("GET", "POST", "HEAD"):
            reply = open_handed.ask(method, address, headers={"authorization": f"Bearer {token['token']}"})
            if {*ROUTE_RIGHTS[path]} <= {*token["rights"]}:
                assert reply.status not in (401, 403), (name, method)
            elif method == "HEAD":
                assert (reply.status, reply.body) == (403, b"")
            else:
                assert set(problem(reply, 403, "right-needed")) == {"type", "title", "status", "detail", "instance"}


@pytest.mark.parametrize(
    "path", ["/metrics%0A", "/metrics/", "//metrics", "/viewer%2F..%2Fmetrics", "/viewer/../metrics", "/Metrics", "/x"]
)
def test_other_spellings_of_a_path_lead_nowhere(path: str, open_handed: Served) -> None:
    for token in ("all", "view"):
        reply = open_handed.get(path, authorization=f"Bearer {TOKENS[token]['token']}")
        assert reply.status == 404
        assert b"clocs_" not in reply.body


def identify(authorization: str, *headers: tuple[str, bytes]) -> Identity | None:
    tokens = [(name, NamedToken.model_validate(table)) for name, table in TOKENS.items()]
    raw = [(name.lower().encode(), value) for name, value in headers]
    return Tokens(tokens).identify(authorization.encode(), raw)


def test_a_users_name_counts_only_with_the_proxys_token() -> None:
    anna, proxy = (USER_HEADER, b"anna"), "Bearer token-of-the-proxy"
    assert identify(proxy, anna) == Identity(frozenset({Right.VIEW, Right.EXPORT}), "proxy", "anna")
    assert identify(proxy, (USER_HEADER, "jürgen".encode())) == Identity(
        frozenset({Right.VIEW, Right.SEARCH}), "proxy", "jürgen"
    )
    assert identify("Bearer token-with-the-right-list", anna) == Identity(frozenset({Right.LIST}), "list")
    assert identify("Bearer token-of-the-proxy2", anna) is None
    assert identify("Basic token-of-the-proxy", anna) is None
    assert identify("", anna) is None


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((USER_HEADER, b""),),
        ((USER_HEADER, b"anna"), (USER_HEADER, b"bert")),
        ((USER_HEADER, b"an\x00na"),),
        ((USER_HEADER, b"\xff"),),
        ((USER_HEADER, b"a" * 129),),
        (("X-Clocs_User", b"anna"),),
    ],
)
def test_a_proxy_names_exactly_one_user(headers: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(UserNameError):
        identify("Bearer token-of-the-proxy", *headers)


def test_users_of_a_proxy_have_their_own_rights_and_are_audited(open_handed: Served, real_data: Path) -> None:
    files, written = sample(real_data, "muse-xml"), open_handed.audit_log.read_text().splitlines()
    problem(open_handed.get("/api/v1/me", **PROXY), 401, "sign-on-needed")
    anna, bert = ({**PROXY, USER_HEADER.lower(): name} for name in ("anna", "bert"))
    assert open_handed.get("/api/v1/me", **anna).json() == {
        "rights": ["view", "export"],
        "user": "anna",
        "token": "proxy",
    }
    problem(open_handed.get("/api/v1/map", **anna), 403, "right-needed")
    assert open_handed.get("/api/v1/map", **bert).status == 200
    asked = [
        ("/api/v1/figure", anna),
        ("/api/v1/print", anna),
        ("/api/v1/fhir", anna),
        ("/api/v1/similar?k=1", bert),
        ("/api/v1/preview", bert),
    ]
    for path, headers in asked:
        assert open_handed.post(path, files, headers=headers).status == 200, path
    problem(open_handed.post("/api/v1/figure", files, headers=bert), 403, "right-needed")
    lines = [json.loads(line) for line in open_handed.audit_log.read_text().splitlines()[len(written) :]]
    assert [(line["user"], line["endpoint"]) for line in lines] == [
        ("anna", "figure"),
        ("anna", "print"),
        ("anna", "fhir"),
        ("bert", "similar"),
        ("bert", "preview"),
    ]
    assert {line["token"] for line in lines} == {"proxy"}
    assert len({line["upload_sha256"] for line in lines}) == 1


def test_the_only_token_has_every_right() -> None:
    settings = ServiceSettings(token=SecretStr("sixteen-signs-ok"))
    found = Tokens(settings.named_tokens).identify(b"Bearer sixteen-signs-ok", [])
    assert found == Identity(frozenset(Right))
