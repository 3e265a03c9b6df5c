"""What several commands take, in the same words for all of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class EngineName(StrEnum):
    """What runs the tasks."""

    SERIAL = "serial"
    PROCESSES = "processes"
    RAY = "ray"


Checkpoint = Annotated[
    str,
    typer.Argument(metavar="CHECKPOINT", help="A run's folder, its 'best', a shipped encoder's name, or 'random'."),
]
StoreFolder = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a store.")]
SplitStoreFolder = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a store with a split.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Laid over the config.")]

SplitName = Annotated[str, typer.Option("--split", help="Name of the split.")]
Picture = Annotated[Path, typer.Option("--out", help="Picture to write: .png, .pdf or .svg.")]
Draw = Annotated[Path | None, typer.Option("--draw", help="Picture to write: .png, .pdf or .svg.")]
Engine = Annotated[EngineName | None, typer.Option("--engine", help="Default: processes where workers > 1.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Worker processes.")]
Threads = Annotated[int, typer.Option("--num-threads", min=1, help="Threads of torch.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Run the encoder by torch on this device, such as cuda. Default: ONNX Runtime."),
]
