"""Structured logs: a JSON object a line, in our own words. No file name, no header field, no body, no address."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("clocs.service")


class JsonLines(logging.Formatter):
    """An event, its fields, and of an error its type and place; never its message, which may quote a file."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": str(record.msg).partition("\n")[0],  # others' values, which are not filled in, may be anything
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = place_of(record.exc_info[1])
        return json.dumps(line)


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
    """Send the service's logs, and those of the web server beneath it, to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name, level in (("clocs.service", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
