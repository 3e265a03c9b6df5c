"""The application: the endpoints behind their walls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from clocs import __version__
from clocs.service.access import Access
from clocs.service.admission import Admission, Gate
from clocs.service.boundary import Boundary
from clocs.service.metrics import Metrics
from clocs.service.problems import ProblemError, problem_of_status
from clocs.service.routes import open_routes, routes
from clocs.service.schemas import ProblemShown
from clocs.service.settings import ServiceSettings
from clocs.service.state import load, running

VIEWER: Final = Path(__file__).parent / "viewer"
NO_TELEMETRY: Final[Any] = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""Newer FastAPI may send requests, with their values, wherever variables of the environment say."""
_DETAILS: Final = {
    404: "No such address. The endpoints are in /api/openapi.json.",
    405: "The address exists, but not with this method. The endpoints are in /api/openapi.json.",
}


def create_app(settings: ServiceSettings) -> FastAPI:
    """The service as an ASGI application, encoder and index loaded; parsing processes come with its lifespan."""
    loaded, metrics = load(settings), Metrics()
    gate = Gate(settings.limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(loaded, gate, metrics) as state:
            app.state.service = state
            yield

    app = FastAPI(
        title="clocs",
        summary="ECGs: preview, classes with their track record, similar patients, a map. For research only.",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.include_router(open_routes)
    app.include_router(routes)
    app.add_api_route("/", _page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/viewer", StaticFiles(directory=VIEWER), name="viewer")
    add_walls(app, settings, gate, metrics)
    _document(app)
    return app


def add_walls(app: FastAPI, settings: ServiceSettings, gate: Gate, metrics: Metrics) -> None:
    """Put an application behind everything that checks, bounds, counts and logs its requests."""
    app.state.gate, app.state.metrics = gate, metrics
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_middleware(Admission, gate=gate, limits=settings.limits)
    app.add_middleware(Access, settings=settings)
    app.add_middleware(Boundary, metrics=metrics)


async def _page() -> Response:
    """The viewer."""
    return FileResponse(VIEWER / "index.html", media_type="text/html")


async def _of_framework(request: Request, error: Exception) -> Response:
    """Raised on to the boundary, where every refusal is sent."""
    assert isinstance(error, HTTPException)
    problem = problem_of_status(error.status_code, _DETAILS.get(error.status_code, "The request was refused."))
    raise ProblemError(problem.status, problem.kind, problem.title, problem.detail, dict(error.headers or {})) from None


async def _of_validation(request: Request, error: Exception) -> Response:
    """What is wrong with which option; not its value, which may be anything."""
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{item['loc'][-1]}: {item['msg']}" for item in error.errors())
    raise ProblemError(422, "wrong-option", "An option is wrong", wrong) from None


def _document(app: FastAPI) -> None:
    """Adds to the OpenAPI document what the framework cannot know: problems and the token."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            parts = document.setdefault("components", {})
            schemas = parts.setdefault("schemas", {})
            schemas["ProblemShown"] = ProblemShown.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
