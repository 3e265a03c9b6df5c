"""Log lines are JSON without values of errors and of other libraries."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from clocs.service.logs import error_location, log, logs_written_to


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Return the stream of the service's logs."""
    made = io.StringIO()
    with logs_written_to(made):
        yield made


def test_a_line_is_an_object(stream: io.StringIO) -> None:
    log("request", status=200, seconds=0.1)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["status"], line["level"]) == ("request", 200, "info")


def test_errors_are_logged_by_type_and_location(stream: io.StringIO) -> None:
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


def test_library_messages_are_logged_by_logger_and_location(stream: io.StringIO) -> None:
    """It may have filled values into its message itself."""
    logging.getLogger("some.library").warning(f"cannot read {'Winterbottom'}")
    logging.getLogger("some.library").info("nothing")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["logger"]) == ("warning", "library message", "some.library")
    assert line["place"].startswith("test_logs.py:")
    assert "Winterbottom" not in stream.getvalue()


def test_a_library_that_writes_plain_text_no_longer_does(capfd: pytest.CaptureFixture[str]) -> None:
    """The loggers have their own handlers, as those of torch."""
    logger = logging.getLogger("plain.library")
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False
    stream = io.StringIO()
    with logs_written_to(stream):
        logger.error("Winterbottom")
    assert json.loads(stream.getvalue())["logger"] == "plain.library"
    assert capfd.readouterr().err == ""
    logger.error("as before")
    assert capfd.readouterr().err == "as before\n"


def test_a_warning_is_a_line_too() -> None:
    stream = io.StringIO()
    with logs_written_to(stream), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("Winterbottom", RuntimeWarning, stacklevel=1)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["category"]) == ("warning", "warning", "RuntimeWarning")
    assert line["place"].startswith("test_logs.py:")
    assert "Winterbottom" not in stream.getvalue()


def test_a_chain_of_errors_has_an_end() -> None:
    error: Exception = ValueError()
    for _ in range(20):
        outer = ValueError()
        outer.__cause__ = error
        error = outer
    assert len(error_location(error)) == 5
