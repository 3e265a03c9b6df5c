"""Structured logs: a JSON object a line, in the package's own words, also for libraries and Python's warnings.

No name of an uploaded file, no header field, no body, no address.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("clocs.service")
CONSTANT_MESSAGES: Final = ("clocs.service.", "uvicorn.", "asyncio.")
"""Loggers whose messages are constants, with values apart. Other libraries may write values into theirs."""


class JsonLines(logging.Formatter):
    """An event, its fields, and of an error its type and place; never its message, which may quote a file."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **_event(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = place_of(record.exc_info[1])
        return json.dumps(line)


def _event(record: logging.LogRecord) -> dict[str, Any]:
    """Return what happened; values of other libraries' messages may be anything, so they are not filled in."""
    if f"{record.name}.".startswith(CONSTANT_MESSAGES):
        return {"event": str(record.msg).partition("\n")[0], **getattr(record, "fields", {})}
    return {"event": "library message", "logger": record.name, "place": f"{record.filename}:{record.lineno}"}


def place_of(error: BaseException) -> list[str]:
    """The types of an error and what caused it, each with the place in the code where it rose; no values."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < 5:
        frames = traceback.extract_tb(seen.__traceback__)
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-6:]))
        found.append(f"{type(seen).__name__} at {places}" if places else type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    return found


def log(event: str, level: int = logging.INFO, error: BaseException | None = None, **fields: str | int | float) -> None:
    """Write one line; the event is a constant of the code."""
    LOGGER.log(level, event, exc_info=error, extra={"fields": fields})


def write_logs_to(stream: TextIO = sys.stderr) -> None:
    """Send the logs of the service and of all libraries, and Python's warnings, to a stream.

    ONNX Runtime writes its own warnings to the standard error as plain text: it has no way to pass them on.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for logger in (root, *root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and (logger is root or _writes_to_a_terminal(logger)):
            logger.handlers[:] = []
            logger.propagate = True
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
    warnings.showwarning = _log_warning


def _writes_to_a_terminal(logger: logging.Logger) -> bool:
    """Return whether a library has set a logger up to write plain text to a standard stream, as torch does."""
    return any(type(handler) is logging.StreamHandler for handler in logger.handlers)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning by its category and place; its message may quote anything."""
    log("warning", logging.WARNING, category=category.__name__, place=f"{Path(filename).name}:{lineno}")
