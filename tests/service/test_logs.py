"""Log lines are JSON in our own words; values of errors and of other libraries stay out."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from clocs.service.logs import log, place_of, write_logs_to


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    names = ("clocs.service", "uvicorn", "asyncio")
    before = {name: (list((one := logging.getLogger(name)).handlers), one.level, one.propagate) for name in names}
    made = io.StringIO()
    write_logs_to(made)
    yield made
    for name, (handlers, level, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


def test_a_line_is_an_object(stream: io.StringIO) -> None:
    log("request", status=200, seconds=0.1)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["status"], line["level"]) == ("request", 200, "info")


def test_an_error_is_told_by_type_and_place(stream: io.StringIO) -> None:
    try:
        try:
            int("Winterbottom")
        except ValueError as error:
            raise KeyError("patient 17") from error
    except KeyError as error:
        log("error", logging.ERROR, error)
    written = stream.getvalue()
    assert "KeyError at test_logs.py:" in written
    assert "ValueError at test_logs.py:" in written
    assert "Winterbottom" not in written
    assert "patient 17" not in written


def test_values_in_messages_of_the_web_server_are_not_written(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("refused %s\nTraceback of %s", "Winterbottom", "patient 17")
    line = json.loads(stream.getvalue())
    assert line["event"] == "refused %s"


def test_a_chain_of_errors_has_an_end() -> None:
    error: Exception = ValueError()
    for _ in range(20):
        outer = ValueError()
        outer.__cause__ = error
        error = outer
    assert len(place_of(error)) == 5
