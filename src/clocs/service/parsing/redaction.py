"""Messages of readers without what a file contains: a word leaves only if the package's own code wrote it.

Readers quote what they stumble over, and that may be a name. So: what stands in quotation marks goes, unless the
package quotes it itself; a word stays if it is in a text of the package's code; a number stays if it is short, and so
does the name of a chest lead.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

ROOMS: Final = ("core", "signals", "formats", "datasets", "service")
"""Folders of the package whose texts make the vocabulary: all that reading may say."""
PYTHONS: Final = (
    "could not convert string to float; invalid literal for int() with base 10; Bad magic number for file header; "
    "not well-formed (invalid token); mismatched tag; undefined entity; no element found; unclosed token; "
    "junk after document element; duplicate attribute; unbound prefix"
)
"""What Python's own readers of numbers, archives and XML say."""
LEFT_OUT: Final = "..."
LONGEST: Final = 600
"""Characters of a message."""
_NUMBER = re.compile(r"[+-]?\d{1,5}(\.\d{1,3})?%?")
_CHEST_LEAD = re.compile(r"V\d{1,2}R?")
_WORD = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"(?<![^\W_])(['\"]).*\1(?![^\W_])", re.DOTALL)
_MARKS = "'\"()[]{}<>,.;:!?`"


def plain(message: str, *names: str) -> str:
    """A message without file names (``names``, with the words that stand for them: ``the upload``) and content."""
    for name in sorted((name for name in names if name), key=len, reverse=True):
        if not _is_of_messages(name):
            message = re.sub(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", "the upload", message)
    message = _QUOTED.sub(_kept_quote, message)
    return " ".join(_kept(chunk) for chunk in message.split())[:LONGEST]


def _is_of_messages(name: str) -> bool:
    """A word or number that messages use themselves, as ``rate`` or ``1``: one cannot tell where it is the name."""
    return name.lower() in _own_words() or _NUMBER.fullmatch(name) is not None


def _kept_quote(found: re.Match[str]) -> str:
    return found[0] if found[0] in _own_text() else LEFT_OUT


def _kept(chunk: str) -> str:
    core = chunk.strip(_MARKS)
    if not core or core == LEFT_OUT.strip(_MARKS):
        return chunk
    if any(sign.isdigit() for sign in core):
        known = bool(_NUMBER.fullmatch(core) or _CHEST_LEAD.fullmatch(core)) or core in _own_chunks()
    else:
        words = _WORD.findall(core)
        known = all(word.lower() in _own_words() for word in words)
    return chunk if known else chunk.replace(core, LEFT_OUT)


@functools.cache
def _own_text() -> str:
    """Every text in the code of the readers, docstrings left out."""
    package = resources.files("clocs")
    files = [file for room in ROOMS for file in _sources(package / room)]
    return "\n".join((PYTHONS, *(text for file in files for text in _texts(file.read_bytes()))))


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
