"""The ASGI application: endpoints, middlewares and OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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
from clocs.service.admission import Admission, RequestLimiter
from clocs.service.export_routes import export_routes
from clocs.service.list_routes import list_routes
from clocs.service.metrics import Metrics
from clocs.service.outer_middleware import OuterMiddleware
from clocs.service.problems import NO_ROUTE, ProblemError, problem_from_status
from clocs.service.rights import ROUTE_RIGHTS
from clocs.service.routes import open_routes, routes
from clocs.service.schemas import ProblemDetails
from clocs.service.settings import ServiceSettings
from clocs.service.state import load_service, run_service

VIEWER: Final = Path(__file__).parent / "viewer"
NO_TELEMETRY: Final[Any] = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""Options that disable telemetry. Newer versions of FastAPI can send request values to an address from the environment.
"""
_DETAILS: Final = {
    404: NO_ROUTE,
    405: "The address does not support this method. The endpoints are listed in /api/openapi.json.",
}


def create_app(settings: ServiceSettings) -> FastAPI:
    """Create the service as an ASGI application.

    The encoder and the index are loaded here. The application's lifespan starts the parsing processes.
    """
    loaded, metrics = load_service(settings), Metrics()
    limiter = RequestLimiter(settings.limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with run_service(loaded, limiter, metrics) as state:
            app.state.service = state
            yield

    app = FastAPI(
        title="clocs",
        summary="ECG preview, classification, similar patients and patient map. For research only.",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.include_router(open_routes)
    app.include_router(routes)
    app.include_router(list_routes)
    app.include_router(export_routes)
    app.add_api_route("/", _page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/viewer", StaticFiles(directory=VIEWER), name="viewer")
    add_middlewares(app, settings, limiter, metrics)
    _extend_openapi(app)
    return app


def add_middlewares(app: FastAPI, settings: ServiceSettings, limiter: RequestLimiter, metrics: Metrics) -> None:
    """Add the middlewares that check, limit, count and log requests."""
    app.state.limiter, app.state.metrics = limiter, metrics
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_middleware(Admission, limiter=limiter, limits=settings.limits)
    app.add_middleware(Access, settings=settings)
    app.add_middleware(OuterMiddleware, metrics=metrics)


async def _page() -> Response:
    """Return the viewer."""
    return FileResponse(VIEWER / "index.html", media_type="text/html")


async def _handle_http_error(request: Request, error: Exception) -> Response:
    """Convert an error of the framework to a problem, which the outer middleware sends."""
    assert isinstance(error, HTTPException)
    problem = problem_from_status(error.status_code, _DETAILS.get(error.status_code, "The request was refused."))
    raise ProblemError(problem.status, problem.kind, problem.title, problem.detail, dict(error.headers or {})) from None


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    """Report which options are invalid, without their values."""
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{_option_name(item['loc'])}: {item['msg']}" for item in error.errors())
    raise ProblemError(422, "wrong-option", "An option is invalid", wrong) from None


def _option_name(location: Sequence[str | int]) -> str:
    """Return the name of an option, without the position in a list."""
    return [part for part in location if isinstance(part, str)][-1]


def _extend_openapi(app: FastAPI) -> None:
    """Add problems, the token and the rights of each route to the OpenAPI document."""
    default = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = default()
            parts = document.setdefault("components", {})
            schemas = parts.setdefault("schemas", {})
            schemas["ProblemShown"] = ProblemDetails.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for route, rights in ROUTE_RIGHTS.items():
                for operation in document["paths"].get(route, {}).values():
                    operation["security"] = [{"token": list(rights)}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
