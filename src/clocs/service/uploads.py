"""Streaming of multipart uploads with limits on size and time.

Uploads have no name on disk. Small ones stay in memory, larger ones go to an unnamed temporary file, so that even a
killed service leaves no files behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from clocs.service.problems import ProblemError, problem_from_status
from clocs.service.schemas import MAX_FIELD_LENGTH
from clocs.service.settings import Limits

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FIELD: Final = b"files"
MAX_MEMORY_BYTES: Final = 1 << 20
"""Maximum size in bytes of an upload that is kept in memory."""
MAX_NAME_LENGTH: Final = 80
MAX_SUFFIX_LENGTH: Final = 16
MAX_FIELD_BYTES: Final = 4 * MAX_FIELD_LENGTH
"""Maximum length in bytes of a text field."""


@dataclass(frozen=True)
class Upload:
    """Files of a request."""

    content: IO[bytes]
    """Content of all files, concatenated."""
    files: tuple[tuple[str, int], ...]
    """Cleaned names and sizes in bytes."""
    sha256: str
    """Hash of the hashes of all files, in the order of their names."""
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Text fields by name. They may hold what a user typed about a patient, so they are neither logged nor stored."""

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)


@asynccontextmanager
async def receive_upload(request: Request, limits: Limits, fields: Collection[str] = ()) -> AsyncIterator[Upload]:
    """Receive the files of a multipart request, which are deleted afterwards, and text fields of these names."""
    with tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES) as content:
        parts = _Parts(content, limits.upload_files, frozenset(fields))
        await _receive(request, parts, "Send the file as multipart/form-data, in a part named 'files'.")
        yield parts.upload()


async def receive_fields(request: Request, fields: Collection[str]) -> Mapping[str, str]:
    """Receive text fields of these names of a multipart request without files. The body may be empty."""
    if "content-type" not in request.headers and not await request.body():
        return {}
    parts = _Parts(io.BytesIO(), 0, frozenset(fields))
    await _receive(request, parts, f"Send {' and '.join(fields)} as multipart/form-data, or no body.")
    return parts.fields()


async def _receive(request: Request, parts: _Parts, expected: str) -> None:
    """Receive the parts of a multipart body. ``expected`` is the advice on a body of another type."""
    media, options = parse_options_header(request.headers.get("content-type", ""))
    if media != b"multipart/form-data" or not options.get(b"boundary"):
        raise problem_from_status(415, expected)
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())
        await _stream(request, parser)
    except FormParserError:
        raise problem_from_status(400, "The multipart body is malformed.") from None
    if not parts.complete:
        raise problem_from_status(400, "The multipart body ends before its last boundary.")


async def _stream(request: Request, parser: MultipartParser) -> None:
    try:
        async for chunk in request.stream():
            if chunk:
                parser.write(chunk)
                await asyncio.sleep(0)
    except ClientDisconnect:
        raise problem_from_status(400, "The connection was closed before the end of the body.") from None


@dataclass
class _Parts:
    """Parser callbacks that collect the parts of a body."""

    content: IO[bytes]
    max_files: int
    allowed_fields: frozenset[str] = frozenset()
    complete: bool = False
    _files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _fields: dict[str, bytes] = field(default_factory=dict)
    _field: str | None = None
    _hash: Any = None
    _name: str = ""
    _size: int = 0
    _header: bytes = b""
    _value: bytes = b""
    _disposition: bytes = b""

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_header,
            "on_header_value": self._on_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._open,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def upload(self) -> Upload:
        if not self._files:
            raise problem_from_status(400, "The request contains no file. Send it in a part named 'files'.")
        digests = b"".join(digest for _, (_, digest) in sorted(self._files.items()))
        files = tuple((name, size) for name, (size, _) in self._files.items())
        return Upload(self.content, files, hashlib.sha256(digests).hexdigest(), self.fields())

    def fields(self) -> dict[str, str]:
        fields = {name: clean_field(value) for name, value in self._fields.items()}
        if any(len(value) > MAX_FIELD_LENGTH for value in fields.values()):
            raise _field_too_long()
        return fields

    def _begin(self) -> None:
        self._disposition = b""

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        self._field = name if name in self.allowed_fields and b"filename" not in options else None
        if self._field is not None:
            if self._field in self._fields:
                raise problem_from_status(400, f"The field '{self._field}' is sent twice.")
            self._fields[self._field] = b""
            return
        if not self.max_files:
            raise problem_from_status(400, f"Expected only text fields: {', '.join(sorted(self.allowed_fields))}.")
        if options.get(b"name") != FIELD or b"filename" not in options:
            also = f" Text fields: {', '.join(sorted(self.allowed_fields))}." if self.allowed_fields else ""
            raise problem_from_status(400, f"Every part must be a file and be named 'files'.{also}")
        if len(self._files) >= self.max_files:
            raise problem_from_status(400, f"Expected at most {self.max_files} files per recording.")
        self._name = clean_name(options[b"filename"].decode("utf-8", "replace"))
        if self._name in self._files:
            raise problem_from_status(400, "Two files of the request have the same name.")
        self._hash, self._size = hashlib.sha256(), 0

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is not None:
            self._fields[self._field] += data[start:end]
            if len(self._fields[self._field]) > MAX_FIELD_BYTES:
                raise _field_too_long()
            return
        chunk = memoryview(data)[start:end]
        self.content.write(chunk)
        self._hash.update(chunk)
        self._size += end - start

    def _end(self) -> None:
        if self._field is None:
            self._files[self._name] = (self._size, self._hash.digest())

    def _finish(self) -> None:
        self.complete = True


def _field_too_long() -> ProblemError:
    return problem_from_status(400, f"A text field has more than {MAX_FIELD_LENGTH} characters.")


def clean_field(value: bytes) -> str:
    """Return the text of a field without invisible characters and surrounding blanks."""
    return "".join(character for character in value.decode("utf-8", "replace") if character.isprintable()).strip()


def clean_name(name: str) -> str:
    """Return the base name without invisible characters. It is used in memory only, as headers may refer to it."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(character for character in base if character.isprintable()).lstrip(".")
    stem, dot, suffix = clean.rpartition(".")
    if not dot:
        return clean[:MAX_NAME_LENGTH] or "file"
    return f"{stem[:MAX_NAME_LENGTH] or 'file'}.{suffix[:MAX_SUFFIX_LENGTH]}"


def too_large(limits: Limits) -> ProblemError:
    """Return the refusal of a body that is too large."""
    return ProblemError(
        413,
        "too-large",
        "The upload is too large",
        f"This service accepts up to {limits.upload_bytes >> 10:,} KiB per request.",
    )


def too_slow(limits: Limits) -> ProblemError:
    """Return the refusal of a body that does not arrive in time."""
    return ProblemError(
        408, "too-slow", "The upload took too long", f"The body did not arrive within {limits.upload_seconds:g} s."
    )
