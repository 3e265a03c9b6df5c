"""Redaction of error messages: only words that occur in the package's own code are kept.

Readers quote values that they cannot parse, which may be names. Quoted text is removed unless the package's code
contains it.
Other words are kept if they occur in a text of the code. Short numbers and names of chest leads are kept.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

SOURCE_FOLDERS: Final = ("core", "signals", "formats", "datasets", "service")
"""Folders of the package that provide the vocabulary."""
PYTHON_MESSAGES: Final = (
    "could not convert string to float; invalid literal for int() with base 10; Bad magic number for file header; "
    "not well-formed (invalid token); mismatched tag; undefined entity; no element found; unclosed token; "
    "junk after document element; duplicate attribute; unbound prefix"
)
"""Messages of Python's own parsers of numbers, archives and XML."""
REDACTED: Final = "..."
MAX_LENGTH: Final = 600
"""Maximum length of a message in characters."""
_NUMBER = re.compile(r"[+-]?\d{1,5}(\.\d{1,3})?%?")
_CHEST_LEAD = re.compile(r"V\d{1,2}R?")
_WORD = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"(?<![^\W_])(['\"]).*\1(?![^\W_])", re.DOTALL)
_MARKS = "'\"()[]{}<>,.;:!?`"


def redact(message: str, *names: str) -> str:
    """Return a message without content of files, with file ``names`` replaced by ``the upload``."""
    for name in sorted((name for name in names if name), key=len, reverse=True):
        if not _is_own_word(name):
            message = re.sub(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", "the upload", message)
    message = _QUOTED.sub(_redact_quote, message)
    return " ".join(_redact_chunk(chunk) for chunk in message.split())[:MAX_LENGTH]


def _is_own_word(name: str) -> bool:
    """Return True for a name that messages use as a word or number, such as ``rate`` or ``1``, so that it cannot be
    replaced."""
    return name.lower() in _own_words() or _NUMBER.fullmatch(name) is not None


def _redact_quote(found: re.Match[str]) -> str:
    return found[0] if found[0] in _own_text() else REDACTED


def _redact_chunk(chunk: str) -> str:
    core = chunk.strip(_MARKS)
    if not core or core == REDACTED.strip(_MARKS):
        return chunk
    if any(sign.isdigit() for sign in core):
        known = bool(_NUMBER.fullmatch(core) or _CHEST_LEAD.fullmatch(core)) or core in _own_chunks()
    else:
        words = _WORD.findall(core)
        known = all(word.lower() in _own_words() for word in words)
    return chunk if known else chunk.replace(core, REDACTED)


@functools.cache
def _own_text() -> str:
    """Return all texts in the readers' code except docstrings."""
    package = resources.files("clocs")
    files = [file for room in SOURCE_FOLDERS for file in _sources(package / room)]
    return "\n".join((PYTHON_MESSAGES, *(text for file in files for text in _texts(file.read_bytes()))))


@functools.cache
def _own_chunks() -> frozenset[str]:
    return frozenset(chunk.strip(_MARKS) for chunk in _own_text().split())


@functools.cache
def _own_words() -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(_own_text()))


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _sources(item)
        elif item.name.endswith(".py"):
            yield item


def _texts(source: bytes) -> Iterator[str]:
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
