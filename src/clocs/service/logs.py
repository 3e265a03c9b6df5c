"""Structured logs: one JSON object per line, also for libraries and Python warnings.

Logs contain no file names of uploads, headers, bodies or addresses.
"""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("clocs.service")
CONSTANT_MESSAGES: Final = ("clocs.service.", "uvicorn.", "asyncio.")
"""Loggers with constant messages and separate values. Other libraries may format values into their messages."""


class JsonLines(logging.Formatter):
    """Formatter of an event with its fields. Errors are logged by type and code location, without messages that may
    quote a file."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **_event(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = error_location(record.exc_info[1])
        return json.dumps(line)


def _event(record: logging.LogRecord) -> dict[str, Any]:
    """Return the event of a record. Messages of other libraries are omitted because they may contain values."""
    if f"{record.name}.".startswith(CONSTANT_MESSAGES):
        return {"event": str(record.msg).partition("\n")[0], **getattr(record, "fields", {})}
    return {"event": "library message", "logger": record.name, "place": f"{record.filename}:{record.lineno}"}


def error_location(error: BaseException) -> list[str]:
    """Return the types of an error and its causes, each with its code location."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < 5:
        frames = traceback.extract_tb(seen.__traceback__)
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-6:]))
        found.append(f"{type(seen).__name__} at {places}" if places else type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    return found


def log(event: str, level: int = logging.INFO, error: BaseException | None = None, **fields: str | int | float) -> None:
    """Log an event, which must be a constant, with its fields."""
    LOGGER.log(level, event, exc_info=error, extra={"fields": fields})


@contextmanager
def logs_written_to(stream: TextIO | None = None) -> Iterator[None]:
    """Send the logs of the service, of all libraries and of Python warnings to a stream, within a context.

    ONNX Runtime writes its own warnings to standard error as plain text, because it cannot forward them.

    Args:
        stream: Where lines are written; None for standard error.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    known = [one for one in (root, *root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
    before = [(one, list(one.handlers), one.level, one.propagate) for one in known]
    shown = warnings.showwarning
    for logger in known:
        if logger is root or _writes_to_a_terminal(logger):
            logger.handlers[:] = []
            logger.propagate = True
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
    warnings.showwarning = _log_warning
    try:
        yield
    finally:
        warnings.showwarning = shown
        for logger, handlers, level, propagate in before:
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)


def _writes_to_a_terminal(logger: logging.Logger) -> bool:
    """Return True if a library writes a logger's messages to a standard stream, as torch does."""
    return any(type(handler) is logging.StreamHandler for handler in logger.handlers)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning by category and code location, without its message."""
    log("warning", logging.WARNING, category=category.__name__, place=f"{Path(filename).name}:{lineno}")
