"""Every public object has a complete docstring whose example runs."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from pydantic import BaseModel

import clocs

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = sorted(
    path for folder in ("src", "reproduction", "protocols", "examples") for path in (ROOT / folder).rglob("*.py")
)
NAMESPACES: Final = ("augmentations", "datasets", "encoders", "formats", "losses", "methods")
"""Subpackages whose exports are public, beside those of ``clocs`` itself."""
FRAGMENTS: Final = ("Of", "What", "Whether", "Which", "From", "Where", "How", "So", "As", "Whose")
"""First words of docstrings that are no sentences."""


def public_objects() -> dict[str, Any]:
    """Return all public objects by their public name; registries and types are documented where they are defined."""
    found = {f"clocs.{name}": getattr(clocs, name) for name in clocs.__all__}
    for namespace in NAMESPACES:
        module = import_module(f"clocs.{namespace}")
        found |= {f"clocs.{namespace}.{name}": getattr(module, name) for name in module.__all__}
    return {name: item for name, item in found.items() if inspect.isroutine(item) or inspect.isclass(item)}


PUBLIC: Final = public_objects()


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring in Google style by their title; the beginning has the title ''."""
    parts = re.split(r"(?m)^(Args|Attributes|Returns|Yields|Raises|Example|Examples):\n", text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def documented(section: str) -> set[str]:
    """Return the names that a section explains."""
    return set(re.findall(r"(?m)^    \*{0,2}(\w+)(?: \([^)]*\))?:", section))


def parameters(item: Any) -> set[str]:
    """Return the names of the parameters of a function, or of a class's constructor."""
    found = inspect.signature(item).parameters
    return {name for name, parameter in found.items() if name not in ("self", "cls") and not name.startswith("_")}


def fields_with_docstrings(item: type[Any]) -> set[str]:
    """Return the fields of a class that have a docstring of their own, in the class or in one that it inherits from."""
    found: set[str] = set()
    for parent in item.__mro__:
        if parent.__module__.startswith("clocs"):
            found |= set(re.findall(r'(?m)^    (\w+): .*(?:\n(?!    \w).*)*?\n    """', inspect.getsource(parent)))
    return found


def methods(item: type[Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the public methods and properties that a class defines itself."""
    kinds = (property, classmethod, staticmethod)
    for name, value in vars(item).items():
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, kinds)):
            yield name, value


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_docstring_is_complete(name: str) -> None:
    item = PUBLIC[name]
    text = inspect.getdoc(item) or ""
    parts = sections(text)
    summary = text.split("\n\n")[0].strip()
    assert summary.endswith("."), "the first paragraph is a sentence"
    assert summary.split()[0] not in FRAGMENTS, f"'{summary}' begins with a fragment"
    explained = documented(parts.get("Args", "")) | documented(parts.get("Attributes", ""))
    if inspect.isclass(item):
        explained |= fields_with_docstrings(item)
    if not (inspect.isclass(item) and issubclass(item, BaseModel)):
        assert parameters(item) <= explained, f"undocumented: {sorted(parameters(item) - explained)}"
    else:
        assert set(item.model_fields) <= explained, f"undocumented: {sorted(set(item.model_fields) - explained)}"
    if inspect.isroutine(item) and inspect.signature(item).return_annotation not in (None, "None"):
        assert "Returns" in parts or "Yields" in parts, "no 'Returns:'"
    assert ">>> " in text, "no 'Example:'"


@pytest.mark.parametrize("name", sorted(name for name, item in PUBLIC.items() if inspect.isclass(item)))
def test_methods_of_public_classes_have_docstrings(name: str) -> None:
    for method, value in methods(PUBLIC[name]):
        text = inspect.getdoc(value) or ""
        assert text, f"{method} has no docstring"
        assert text.split()[0] not in FRAGMENTS, f"{method}: '{text.splitlines()[0]}' begins with a fragment"
        function = getattr(value, "__func__", value)
        explained = documented(sections(text).get("Args", ""))
        if explained and not isinstance(value, property):
            assert parameters(function) <= explained, f"{method}: {sorted(parameters(function) - explained)}"


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example runs in an empty folder. It may use ``clocs``, ``np``, ``torch`` and the names of its namespace."""
    monkeypatch.chdir(tmp_path)
    namespace, item = name.rpartition(".")[0], PUBLIC[name]
    names = {full.rpartition(".")[2]: other for full, other in PUBLIC.items() if full.rpartition(".")[0] == namespace}
    names |= {"clocs": clocs, "np": np, "torch": torch}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(item) or "", names, name, None, 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not runner.run(example, out=output.append).failed, "".join(output)


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_no_docstring_begins_with_a_fragment(path: Path) -> None:
    tree = ast.parse(path.read_text())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    assert not [text.splitlines()[0] for text in texts if text.split(" ")[0] in FRAGMENTS]
