"""``clocs receive``: ECGs from a watched folder and by DICOM, into a store."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import StoreFolder
from clocs.core.errors import MissingExtraError


def receive(
    store: StoreFolder,
    key: Annotated[Path, typer.Option("--key", help="Store patients and files under pseudonyms of this key file.")],
    spool: Annotated[Path, typer.Option("--spool", help="Keep received files in this folder until they are stored.")],
    watch: Annotated[
        Path | None, typer.Option("--watch", help="Take ECG files of this folder, which is only read.")
    ] = None,
    dicom_port: Annotated[
        int | None, typer.Option("--dicom-port", min=1, max=65535, help="Receive DICOM ECGs on this port.")
    ] = None,
    host: Annotated[str, typer.Option(help="Listen for DICOM on this address.")] = "127.0.0.1",
    title: Annotated[str, typer.Option(help="Use this AE title.")] = "CLOCS",
    caller: Annotated[
        list[str] | None, typer.Option("--caller", help="Accept this AE title as a sender. Repeatable.")
    ] = None,
    poll_seconds: Annotated[float, typer.Option(min=0.1, help="Poll the folder in this interval.")] = 10.0,
    batch_seconds: Annotated[
        float, typer.Option(min=0, help="Add a version to the store at most in this interval, or when 500 wait.")
    ] = 300.0,
    without_landlock: Annotated[
        bool,
        typer.Option("--without-landlock", help="Start even if the kernel cannot protect files from hostile ones."),
    ] = False,
) -> None:
    """Receive ECGs from a watched folder and by DICOM, and add them to a store by batches.

    A DICOM sender is told of success when the file is on disk. Files are parsed in confined processes. Stop it with
    Ctrl-C or SIGTERM; received files are stored first, or by the next start.
    """
    import asyncio

    try:
        from clocs.service.receiving.run import DicomSettings, ReceiveSettings
        from clocs.service.receiving.run import receive as run
    except ImportError as error:
        raise MissingExtraError("serve", "clocs receive") from error

    dicom = DicomSettings(host, dicom_port, title, tuple(caller or ())) if dicom_port else None
    settings = ReceiveSettings(
        store=store,
        spool=spool,
        key=key,
        watch=watch,
        dicom=dicom,
        poll_seconds=poll_seconds,
        batch_seconds=batch_seconds,
        without_landlock=without_landlock,
    )

    async def until_signal() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(settings, stop, typer.echo)

    asyncio.run(until_signal())
