"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from clocs.core.errors import ConfigError
from clocs.core.storage.locations import to_location


class EngineName(StrEnum):
    """Engines that run tasks."""

    SERIAL = "serial"
    PROCESSES = "processes"
    RAY = "ray"


Checkpoint = Annotated[
    str,
    typer.Argument(metavar="CHECKPOINT", help="Folder of a run or checkpoint, name of a shipped encoder, or 'random'."),
]
StoreFolder = Annotated[
    Path, typer.Argument(metavar="STORE", parser=to_location, help="Folder of a store, or s3://bucket/folder.")
]
SplitStoreFolder = Annotated[
    Path, typer.Argument(metavar="STORE", parser=to_location, help="Folder of a store with a split.")
]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Override configuration keys.")]

SplitName = Annotated[str, typer.Option("--split", help="Use this split.")]
Picture = Annotated[Path, typer.Option("--out", help="Write the picture to this file: .png, .pdf or .svg.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Write a picture to this file: .png, .pdf or .svg.")]
Engine = Annotated[
    EngineName | None,
    typer.Option("--engine", help="Run tasks with this engine. Default: serial, or processes if --workers is above 1."),
]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Use this number of worker processes.")]
Threads = Annotated[int, typer.Option("--num-threads", min=1, help="Use this number of torch threads.")]
PatientList = Annotated[
    Path, typer.Option("--from", metavar="FILE", help="Read patient ids from this file, one per line.")
]
OptionalKey = Annotated[
    Path | None, typer.Option("--key", help="Convert original patient ids to pseudonyms with this key file.")
]
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Accept ids that are not there, and keep them out of later additions.")
]
ArchiveFolder = Annotated[
    Path,
    typer.Argument(metavar="ARCHIVE", parser=to_location, help="Folder of an archive, written by 'clocs embed STORE'."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Run the encoder with torch on this device, e.g. cuda. Default: ONNX Runtime."),
]
EvaluationDevice = Annotated[
    str | None, typer.Option("--device", help="Run the encoder on this torch device, e.g. cuda. Default: the CPU.")
]


def read_ids(path: Path) -> list[str]:
    """Read patient ids from a file, one per line."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a list of patient ids: {error}") from error
