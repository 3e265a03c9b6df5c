"""Write the reference of commands and configuration keys from the code.

Sphinx calls ``write_reference_pages`` when a build begins. The pages follow from the code, so they are not committed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import clocs
from clocs.augmentations.augmentation import AUGMENTATIONS
from clocs.cli.main import PANELS, app
from clocs.core.options import constructor_model
from clocs.datasets.dataset import DATASETS, Options
from clocs.encoders import ENCODERS
from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions
from clocs.methods.method import METHODS
from clocs.service.settings import Limits
from clocs.training.config import EXECUTION_KEYS, PretrainConfig

MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "Pre-training": (
        PretrainConfig,
        "Keys of `clocs.pretrain`, of `clocs pretrain CONFIG key=value` and of YAML files. Parts have nested keys: "
        "`method.temperature=0.2`, `frames.num_samples=500`. Keys with a star say where and how a run is executed. "
        "They are not part of its identity. [](pretraining.md) explains how to choose.",
    ),
    "Frames": (
        clocs.FramePolicy,
        "Keys below `frames` of a pre-training configuration, and fields of {py:class}`clocs.FramePolicy`. They "
        "replace those of the dataset's own policy.",
    ),
    "Probe": (clocs.ProbeConfig, "Options of `clocs.probe` and of `clocs evaluate probe` ([](evaluation.md))."),
    "Fine-tuning": (clocs.FinetuneConfig, "Options of `clocs.finetune` and of `clocs evaluate finetune`."),
    "Benchmark": (BenchmarkOptions, "Options of `clocs.benchmark` ([](benchmark.md))."),
    "Split": (clocs.datasets.SplitPolicy, "Fractions of `clocs.split` ([](splits-and-frames.md))."),
    "Quality gate": (clocs.GatePolicy, "Thresholds of `clocs.assess` and `clocs.ingest` ([](quality.md))."),
    "Limits of the service": (Limits, "Limits on requests ([](service.md))."),
}
"""Models by the heading of their section, with an introduction."""


def write_reference_pages(folder: Path) -> None:
    """Write ``command-line.md`` and ``configuration.md``.

    Args:
        folder: Folder of the documentation's sources.
    """
    for name, text in (("command-line", command_line()), ("configuration", configuration())):
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def command_line() -> str:
    """Return the page of all commands, in the order of ``clocs --help``."""
    page = [
        "# Command line\n\nThis page is for everyone who works in a shell. It is made from the commands themselves. "
        "`clocs COMMAND --help` prints the same. A command that fails prints a line that begins with `error:` and "
        "exits with code 1.",
        "Four options stand before the command: `--version` shows the version. `--skip-checksums` reads stores without "
        "comparing checksums, so that damage is not detected. `--endpoint-url URL` and `--ca-bundle FILE` set the "
        "server of `s3://` locations and its certificates, see [](../how-to/object-stores.md).",
    ]
    root: Any = typer.main.get_command(app)
    for panel, names in PANELS.items():
        page.append(f"## {panel}")
        for name in names:
            page += _command(root.commands[name], f"clocs {name}")
    return "\n\n".join(page) + "\n"


def _command(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for child in command.commands:
            yield from _command(command.commands[child], f"{name} {child}")
        return
    arguments = [item for item in command.params if not item.opts[0].startswith("-")]
    usage = " ".join([name, *(item.metavar or item.name.upper() for item in arguments), "[OPTIONS]"])
    yield f"### {name}\n\n```text\n{usage}\n```\n\n{_quoted(command.help or '')}"
    types = get_type_hints(command.callback)
    rows = [_option(item, types[item.name]) for item in command.params if item.name in types]
    yield _table(("argument or option", "value", "default", "meaning"), rows)


def _option(item: Any, kind: Any) -> tuple[str, ...]:
    is_argument = not item.opts[0].startswith("-")
    name = item.metavar or item.name.upper() if is_argument else ", ".join([*item.opts, *item.secondary_opts])
    default = "required" if item.required else _value(None if item.default is False else item.default)
    allowed = "" if kind is bool else _allowed(kind).removesuffix(" or none")
    return f"`{name.strip('[]')}`", allowed, default, _quoted(item.help or "")


def configuration() -> str:
    """Return the page of all configuration keys."""
    page = [
        "# Configuration keys\n\nThis page is for everyone who changes an option. It is made from the models and "
        "constructors that validate options. Unknown keys and invalid values are errors that list all of them at once."
    ]
    for title, (model, introduction) in MODELS.items():
        starred = EXECUTION_KEYS if model is PretrainConfig else frozenset()
        page += [f"## {title}", introduction, _model_table(model, field_docstrings(model), starred)]
    for title, registry, left_out in (
        ("Methods", METHODS, ("encoder", "augmentations")),
        ("Encoders", ENCODERS, ()),
        ("Augmentations", AUGMENTATIONS, ()),
    ):
        key = title.lower().removesuffix("s")
        page.append(f"## {title}\n\nOptions by the name in a configuration, such as `{key}.name`.")
        if key == "method":
            page.append("Each contrastive method also takes `augmentations`, a list of names with options.")
        for name in registry.names():
            part = registry.get(name)
            model = constructor_model(part, exclude=left_out)
            link = f"Class {{py:class}}`clocs.{title.lower()}.{part.__name__}`."
            page += [f"### {name}", link, _model_table(model, argument_docstrings(part))]
    page.append(
        "## Datasets\n\nOptions of `clocs.ingest(..., options={...})` and of `clocs data ingest -o NAME=VALUE`."
    )
    for name in DATASETS.names():
        model = DATASETS.get(name).options
        if model is not Options:
            page += [f"### {name}", _model_table(model, field_docstrings(model))]
    return "\n\n".join(page) + "\n"


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a model and of the models that it inherits from."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if cls.__module__.startswith("clocs"):
            body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
            for field, text in pairwise(body):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    found[field.target.id] = inspect.cleandoc(str(text.value.value))  # type: ignore[union-attr]
    return found


def argument_docstrings(cls: type[Any]) -> dict[str, str]:
    """Return what the docstrings of a class, and of those it inherits from, say of each argument."""
    found: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        text = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(parent.__doc__ or ""), re.S | re.M)
        for name, meaning in re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", text[1] if text else "", re.M):
            found[name] = meaning
    return found


def _model_table(model: type[BaseModel], meanings: Mapping[str, str], starred: Iterable[str] = ()) -> str:
    rows = []
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _value(_default(field))
        limits = " and ".join(filter(None, map(_limit, field.metadata)))
        allowed = ", ".join(filter(None, (_allowed(field.annotation), limits)))
        rows.append(
            (f"`{name}`" + (" \\*" if name in starred else ""), default, allowed, _quoted(meanings.get(name, "")))
        )
    return _table(("key", "default", "allowed", "meaning"), rows) if rows else "No options."


def _default(field: FieldInfo) -> Any:
    """Return a default; None for a number that depends on the machine, which the docstring explains."""
    value = field.get_default(call_default_factory=True)
    return None if field.default_factory is not None and isinstance(value, int) else value


def _allowed(kind: Any) -> str:
    """Return the values of a type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [_limit(item) for extra in arguments[1:] for item in getattr(extra, "metadata", [extra])]
        return ", ".join(filter(None, (_allowed(arguments[0]), *limits)))
    if origin is Literal:
        return ", ".join(f"`{item}`" for item in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_allowed(item) for item in arguments)
    if origin in (tuple, list) and arguments:
        return "list of " + _allowed(arguments[0])
    if origin is dict:
        return "mapping"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{item.value}`" for item in kind)
    words = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path", NoneType: "none"}
    return words.get(kind, getattr(kind, "__name__", ""))


def _limit(item: Any) -> str:
    signs = {"gt": "&gt;", "ge": "≥", "lt": "&lt;", "le": "≤"}
    return " and ".join(f"{sign} {getattr(item, name):,}" for name, sign in signs.items() if hasattr(item, name))


def _value(value: Any) -> str:
    """Return a default; an empty cell for None and empty collections."""
    if value is None or value in ((), [], {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    value = getattr(value, "value", value)  # of an Enum
    if isinstance(value, dict):
        value = value.get("name", value)
    if isinstance(value, (tuple, list)):
        value = ", ".join(map(str, value))
    return "`" + str(value).replace(str(Path.home()), "~") + "`"


def _quoted(text: str) -> str:
    """Return a docstring's text as Markdown."""
    text = re.sub(r":(?:mod|ref):`([^`]*)`", r"`\1`", inspect.cleandoc(text))
    text = re.sub(r":(class|func|meth):`(clocs\.\w+(?:\.\w+)?)`", r"{py:obj}`\2`", text)
    return text.replace("``", "`")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
