"""A parsing process: ``python -m clocs.service.parsing.worker``. It is asked through its input until that ends."""

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
from clocs.service.parsing.confinement import confine, give_way, limit_cpu, limit_resources
from clocs.service.parsing.messages import Answer, Ask, Failure, Start, packed, read_message, told_of
from clocs.service.parsing.plain_words import plain
from clocs.service.parsing.reading import beginning, failure_of, read_upload, whole
from clocs.service.schemas import NOTICE

DPI: Final = 200
DRAWING: Final = ("clocs.drawing.ecg_paper", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf")


def main() -> None:
    """Load, confine, then answer one upload after another."""
    for number in (signal.SIGTERM, signal.SIGINT):  # sent to a whole group; the service lets requests end first
        signal.signal(number, signal.SIG_IGN)
    requests, answers = _private_streams()
    message = read_message(requests)
    if message is None:
        return
    start = Start.model_validate(message[0])
    give_way()
    _load()
    limit_resources(start.memory_bytes)
    try:
        confine(start.confinement)
    except OSError as error:
        failure = Failure(error="unexpected", message=error.strerror or str(error))
        answers.write(packed(Answer(failure=failure)))
        return answers.close()
    answers.write(packed(Answer()))
    answers.flush()
    while (message := read_message(requests)) is not None:
        limit_cpu(start.cpu_seconds)
        answer, raw = _answer(Ask.model_validate(message[0]), message[1])
        del message  # the upload
        answers.write(packed(answer, len(raw)))
        answers.write(raw)
        answers.flush()


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the service, taken away from whatever else may print or read."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def _load() -> None:
    """Everything that reading and drawing may import, while files can still be opened."""
    warnings.simplefilter("ignore")
    list(FORMATS)
    plain("a word")
    for name in (*_imported_late(), *DRAWING):
        with contextlib.suppress(ImportError):  # an extra that is not installed; who needs it says so
            importlib.import_module(name)


def _imported_late() -> set[str]:
    """Modules that readers import only when they are used."""
    found: set[str] = set()
    for module in [module for name, module in sys.modules.items() if name.startswith("clocs.formats.")]:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                found.add(node.module)
    return found


def _answer(ask: Ask, content: bytes) -> tuple[Answer, bytes]:
    try:
        ends = list(itertools.accumulate(size for _, size in ask.files))
        files = {name: content[end - size : end] for (name, size), end in zip(ask.files, ends, strict=True)}
        recording = read_upload(files)
        seconds = recording.seconds
        if ask.want == "recording":
            told, raw = told_of(whole(recording, ask.seconds), seconds)
        elif ask.want == "beginning":
            told, raw = told_of(beginning(recording, ask.seconds), seconds)
        else:
            return Answer(), _drawn(beginning(recording, ask.seconds), ask.want)
        return Answer(told=told), raw
    except Exception as error:
        return Answer(failure=failure_of(error)), b""


def _drawn(recording: Recording, form: str) -> bytes:
    from clocs.drawing.ecg_paper import draw_recording

    metadata: dict[str, Any] = {"CreationDate": None} if form == "pdf" else {}
    buffer = io.BytesIO()
    figure = draw_recording(recording, seconds=None, title="ECG", notice=NOTICE)
    figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
