"""Main loop of a parsing process, ``python -m clocs.service.parsing.worker``."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import itertools
import os
import signal
import sys
import warnings
from typing import Any, BinaryIO, Final

from clocs.core.recording import Recording
from clocs.formats import FORMATS
from clocs.service.parsing.confinement import confine, limit_cpu, limit_resources, lower_priority
from clocs.service.parsing.messages import (
    Failure,
    ParseRequest,
    ParseResponse,
    SheetRequest,
    Start,
    decode_recording,
    encode_recording,
    pack_message,
    read_message,
)
from clocs.service.parsing.reading import (
    check_length,
    failure_from_error,
    first_seconds,
    read_identified_upload,
    read_upload,
)
from clocs.service.parsing.redaction import redact
from clocs.service.schemas import NOTICE

DPI: Final = 200
DRAWING: Final = ("clocs.drawing.print_sheet", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf")


def main() -> None:
    """Load libraries, confine the process, and parse or draw until the input ends."""
    for number in (signal.SIGTERM, signal.SIGINT):  # sent to the process group; the service answers requests first
        signal.signal(number, signal.SIG_IGN)
    requests, answers = _private_streams()
    message = read_message(requests)
    if message is None:
        return
    start = Start.model_validate(message[0])
    lower_priority()
    _load()
    limit_resources(start.memory_bytes)
    try:
        confine(start.confinement)
    except OSError as error:
        failure = Failure(error="unexpected", message=error.strerror or str(error))
        answers.write(pack_message(ParseResponse(failure=failure)))
        return answers.close()
    answers.write(pack_message(ParseResponse()))
    answers.flush()
    while (message := read_message(requests)) is not None:
        limit_cpu(start.cpu_seconds)
        answer, raw = _answer(ParseRequest.model_validate(message[0]), message[1])
        del message  # the upload
        answers.write(pack_message(answer, len(raw)))
        answers.write(raw)
        answers.flush()


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes to the service, and redirect the standard streams to nothing."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def _load() -> None:
    """Import everything that reading and drawing may need, while files can still be opened."""
    warnings.simplefilter("ignore")
    list(FORMATS)
    redact("a word")
    for name in (*_lazy_imports(), *DRAWING):
        with contextlib.suppress(ImportError):  # an extra that is not installed is reported when it is needed
            importlib.import_module(name)


def _lazy_imports() -> set[str]:
    """Return the modules that readers import only when they are used."""
    found: set[str] = set()
    for module in [module for name, module in sys.modules.items() if name.startswith("clocs.formats.")]:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                found.add(node.module)
    return found


def _answer(ask: ParseRequest, content: bytes) -> tuple[ParseResponse, bytes]:
    try:
        recording = _recording(ask, content)
        seconds = recording.seconds
        if ask.output in ("recording", "dated", "identified"):
            whole = check_length(recording, ask.seconds)
            with_patient, with_time = ask.output == "identified", ask.output != "recording"
            metadata, raw = encode_recording(whole, seconds, with_patient=with_patient, with_time=with_time)
        elif ask.output == "beginning":
            metadata, raw = encode_recording(first_seconds(recording, ask.seconds), seconds)
        elif ask.sheet is not None:
            return ParseResponse(), _draw_sheets(check_length(recording, ask.seconds), ask.sheet)
        else:
            return ParseResponse(), _draw(first_seconds(recording, ask.seconds), ask.output)
        return ParseResponse(recording=metadata), raw
    except Exception as error:
        return ParseResponse(failure=failure_from_error(error)), b""


def _recording(ask: ParseRequest, content: bytes) -> Recording:
    """Return the recording of a message, or that of an upload, with its time and patient only if they are asked for."""
    if ask.recording is not None:
        return decode_recording(ask.recording, content)
    ends = list(itertools.accumulate(size for _, size in ask.files))
    files = {name: content[end - size : end] for (name, size), end in zip(ask.files, ends, strict=True)}
    return read_identified_upload(files) if ask.output in ("dated", "identified") else read_upload(files)


def _draw(recording: Recording, form: str) -> bytes:
    from clocs.drawing.ecg_paper import draw_recording

    metadata: dict[str, Any] = {"CreationDate": None} if form == "pdf" else {}
    buffer = io.BytesIO()
    figure = draw_recording(recording, seconds=None, title="ECG", notice=NOTICE)
    figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def _draw_sheets(recording: Recording, sheet: SheetRequest) -> bytes:
    from clocs.drawing.print_sheet import draw_sheets

    return draw_sheets(recording, sheet.text, paper=sheet.paper, start=sheet.start, seconds=sheet.seconds)


if __name__ == "__main__":
    main()
