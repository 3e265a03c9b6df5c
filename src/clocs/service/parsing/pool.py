"""Pool of processes that parse and draw, which are replaced when they crash, hang or have parsed many uploads."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final, Literal, TypeVar, cast

from pydantic import ValidationError

from clocs.core.errors import ClocsError, FormatError, LeadError, SignalError
from clocs.core.recording import Recording
from clocs.service.parsing.confinement import Confinement
from clocs.service.parsing.confinement_check import parser_environment, python_command
from clocs.service.parsing.messages import (
    Failure,
    ParseRequest,
    ParseResponse,
    SheetRequest,
    Start,
    WireError,
    decode_recording,
    encode_recording,
    pack_message,
    receive_message,
)
from clocs.service.parsing.reading import first_seconds
from clocs.service.problems import UNREADABLE, ProblemError
from clocs.service.settings import Limits
from clocs.service.uploads import Upload

START_SECONDS: Final = 120.0
"""Time limit in seconds for the start of a process, including its libraries, on a busy machine."""
RETRY_SECONDS: Final = 2.0
ACQUIRE_SECONDS: Final = 30.0
CHUNK_BYTES: Final = 1 << 18
"""Bytes of an upload that are passed on at once."""
WALL_CLOCK_FACTOR: Final = 3
"""Wall-clock limit divided by the limit of processor time; a busy machine needs longer."""
GRACE_SECONDS: Final = 1.0
"""Time in seconds for a process to end after it closed its pipe."""
_ERRORS: Final[dict[str, type[ClocsError]]] = {
    "FormatError": FormatError,
    "LeadError": LeadError,
    "SignalError": SignalError,
    "MemoryError": FormatError,
    "unexpected": FormatError,
}
Result = TypeVar("Result")
Report = Callable[[str, str], None]
"""Callback with an outcome (ok, refused, memory, crashed, timeout, unexpected, ended idle, not started) and a code
location."""


@dataclass(frozen=True)
class Parsed:
    """Result of parsing an upload."""

    recording: Recording
    """The recording, or its beginning."""
    seconds: float
    """Duration of the whole recording in seconds."""


class _Process:
    """A parsing process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._requests, self._answers = process, process.stdin, process.stdout
        self.files = 0
        self.is_idle = False

    @classmethod
    async def started(cls, start: Start) -> _Process:
        process = await asyncio.create_subprocess_exec(
            *python_command("worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # libraries may print file content there
            env=parser_environment(),
            cwd="/",
            start_new_session=True,
        )
        made = cls(process)
        try:
            made._requests.write(pack_message(start))
            body, _ = await asyncio.wait_for(receive_message(made._answers), START_SECONDS)
            if (failure := ParseResponse.model_validate(body).failure) is not None:
                raise OSError(failure.message)
        except BaseException:
            await made.end()
            raise
        return made

    async def ask(self, ask: ParseRequest, content: IO[bytes]) -> tuple[ParseResponse, bytes]:
        self.files += 1
        self._requests.write(pack_message(ask, content.seek(0, os.SEEK_END)))
        content.seek(0)
        while piece := content.read(CHUNK_BYTES):
            self._requests.write(piece)
            await self._requests.drain()
        body, raw = await receive_message(self._answers)
        try:
            return ParseResponse.model_validate(body), raw
        except ValidationError as error:
            raise WireError("not an answer") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()
        self._requests.close()

    def kill(self) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # asyncio's kill may lose the exit code

    async def end(self, grace: float = 0) -> int:
        """Wait for the process to end, kill it after ``grace`` seconds, and return its exit code."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                return await self._process.wait()
        self.kill()
        self._requests.close()
        return await self._process.wait()


class ParsingPool:
    """Parses uploads and draws recordings; must be created in a running event loop."""

    def __init__(self, limits: Limits, confinement: Confinement, report: Report = lambda outcome, place: None) -> None:
        self._limits, self._report = limits, report
        self._start = Start(
            memory_bytes=limits.parse_memory_bytes, cpu_seconds=limits.parse_seconds, confinement=confinement
        )
        self._idle: asyncio.Queue[_Process] = asyncio.Queue()
        self._all: set[_Process] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._check_safety = False

    async def open(self) -> None:
        """Start all processes and wait until they are ready."""
        await asyncio.gather(*(self._add() for _ in range(self._limits.parsing_processes)))

    async def close(self) -> None:
        """End all processes."""
        self._check_safety = True
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await asyncio.gather(*(process.end() for process in self._all))
        self._all.clear()

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return [process.pid for process in self._all if process.is_alive]

    async def recording(self, upload: Upload, *, with_time: bool = False) -> Recording:
        """Return the whole recording of an upload, unless it is too long.

        Args:
            upload: The upload.
            with_time: Also return the time at which it was recorded.
        """
        output: Literal["dated", "recording"] = "dated" if with_time else "recording"
        ask = ParseRequest(files=upload.files, output=output, seconds=self._limits.longest_seconds)
        return (await self._submit(ask, upload.content, _parsed)).recording

    async def identified(self, upload: Upload) -> Recording:
        """Return the whole recording of an upload with its patient's id, to be replaced by a pseudonym."""
        ask = ParseRequest(files=upload.files, output="identified", seconds=self._limits.longest_seconds)
        return (await self._submit(ask, upload.content, _parsed)).recording

    async def beginning(self, upload: Upload) -> Parsed:
        """Return the beginning of an upload's recording."""
        ask = ParseRequest(files=upload.files, output="beginning", seconds=self._limits.shown_seconds)
        return await self._submit(ask, upload.content, _parsed)

    async def drawing(self, drawn: Upload | Recording, form: Literal["png", "pdf"], seconds: float) -> bytes:
        """Return the beginning of an upload or a recording on ECG paper, as PNG or PDF."""
        if isinstance(drawn, Recording):
            return await self._draw(first_seconds(drawn, seconds), form, seconds)
        ask = ParseRequest(files=drawn.files, output=form, seconds=seconds)
        return await self._submit(ask, drawn.content, lambda answer, raw: raw)

    async def sheets(self, recording: Recording, sheet: SheetRequest) -> bytes:
        """Return a range of a recording as a PDF to print."""
        return await self._draw(recording, "sheets", self._limits.longest_seconds, sheet)

    async def _draw(
        self,
        recording: Recording,
        output: Literal["png", "pdf", "sheets"],
        seconds: float,
        sheet: SheetRequest | None = None,
    ) -> bytes:
        metadata, raw = encode_recording(recording, recording.seconds)
        ask = ParseRequest(recording=metadata, output=output, seconds=seconds, sheet=sheet)
        return await self._submit(ask, io.BytesIO(raw), lambda answer, raw: raw)

    async def _submit(
        self, ask: ParseRequest, content: IO[bytes], convert: Callable[[ParseResponse, bytes], Result]
    ) -> Result:
        process = await self._acquire()
        usable = False
        try:
            async with asyncio.timeout(WALL_CLOCK_FACTOR * self._limits.parse_seconds):
                answer, raw = await process.ask(ask, content)
            found = None if answer.failure else convert(answer, raw)
            usable = True
        except TimeoutError:
            self._report("timeout", "")
            raise _too_slow(self._limits.parse_seconds) from None
        except (asyncio.IncompleteReadError, ConnectionError, WireError):
            if await process.end(grace=GRACE_SECONDS) == -signal.SIGXCPU:
                self._report("timeout", "")
                raise _too_slow(self._limits.parse_seconds) from None
            self._report("crashed", "")
            raise _crashed() from None
        finally:
            self._release(process, usable)
        if answer.failure is not None:
            raise self._refusal(answer.failure)
        self._report("ok", "")
        return cast(Result, found)

    async def _acquire(self) -> _Process:
        """Wait for an idle process; raise an error if none becomes idle in time."""
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):
                process = await self._idle.get()
                while not process.is_alive:  # a replacement is being started
                    process = await self._idle.get()
        except TimeoutError:
            detail = "No parsing process is ready. Try again in a moment."
            raise ProblemError(503, "busy", "The service is busy", detail, {"retry-after": "5"}) from None
        process.is_idle = False
        return process

    def _refusal(self, failure: Failure) -> ClocsError:
        outcomes = {"MemoryError": "memory", "unexpected": "unexpected"}
        self._report(outcomes.get(failure.error, "refused"), failure.place)
        return _ERRORS[failure.error](failure.message)

    def _release(self, process: _Process, usable: bool) -> None:
        if usable and process.files < self._limits.files_per_process:
            self._offer(process)
        else:
            process.kill()

    def _offer(self, process: _Process) -> None:
        process.is_idle = True
        self._idle.put_nowait(process)

    async def _add(self) -> None:
        process = await _Process.started(self._start)
        self._all.add(process)
        self._offer(process)
        task = asyncio.create_task(self._replace(process))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _replace(self, process: _Process) -> None:
        """Wait until a process has ended, and start another one."""
        await process.ended()
        self._all.discard(process)
        if process.is_idle:
            self._report("ended idle", "")
        while not self._check_safety:
            try:
                return await self._add()
            except (OSError, EOFError, TimeoutError, WireError):
                self._report("not started", "")
                await asyncio.sleep(RETRY_SECONDS)


def _parsed(answer: ParseResponse, raw: bytes) -> Parsed:
    if answer.recording is None:
        raise WireError("no recording")
    return Parsed(decode_recording(answer.recording, raw), answer.recording.seconds)


def _too_slow(seconds: float) -> ProblemError:
    return ProblemError(
        504,
        "parsing-too-slow",
        "Reading the file took too long",
        f"Reading was stopped after {seconds:g} s. An ECG file takes far less; check the file.",
    )


def _crashed() -> ProblemError:
    return ProblemError(
        422,
        "unreadable-file",
        UNREADABLE,
        "The reader crashed. The file is damaged, or needs more time or memory than the service allows.",
    )
