"""Main loop of ``clocs receive``: poll, parse, and add batches to the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import PatientKey, read_key
from clocs.core.storage.files import is_inside, lock_folder
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.parsing.pool import ParsingPool
from clocs.service.receiving.dicom_server import dicom_server
from clocs.service.receiving.intake import parse_incoming, take_in
from clocs.service.receiving.spool import Spool
from clocs.service.receiving.watch import WatchedFolder
from clocs.service.settings import Limits
from clocs.store.manifest import check_not_inside_store


@dataclass(frozen=True)
class DicomSettings:
    """Address, own AE title and permitted senders of the DICOM receiver."""

    host: str
    port: int
    title: str
    callers: tuple[str, ...]


@dataclass(frozen=True)
class ReceiveSettings:
    """Settings of ``clocs receive``."""

    store: Path
    """Store to add recordings to."""
    spool: Path
    """Folder of received files until they are in the store."""
    key: Path
    """Key file of the pseudonyms."""
    watch: Path | None = None
    """Folder to poll."""
    dicom: DicomSettings | None = None
    """DICOM receiver."""
    poll_seconds: float = 10.0
    """Time between polls."""
    batch_seconds: float = 300.0
    """Minimum time between versions of the store, unless a batch is full."""
    batch_size: int = 500
    """Number of recordings of a full batch."""
    without_landlock: bool = False
    """Start even if the kernel has no Landlock."""
    limits: Limits = field(default_factory=lambda: Limits(parsing_processes=1))


async def receive(settings: ReceiveSettings, stop: asyncio.Event, report: Callable[[str], None]) -> None:
    """Receive ECGs until ``stop`` is set, and add what was received to the store.

    Args:
        settings: The settings.
        stop: Event that ends the loop.
        report: Called with lines about the progress, which name no one.

    Raises:
        ConfigError: There is nothing to receive from, or folders overlap.
        StoreError: Another process uses the spool.
    """
    key = read_key(settings.key)
    _check(settings)
    confinement = check_confinement(without_landlock=settings.without_landlock)
    with lock_folder(settings.spool):
        spool, pool = Spool(settings.spool), ParsingPool(settings.limits, confinement)
        await pool.open()
        try:
            with contextlib.ExitStack() as stack:
                if settings.dicom is not None:
                    report(f"DICOM on port {stack.enter_context(_server(settings, settings.dicom, spool, key))}")
                report("receiving")
                await _loop(settings, spool, pool, key, stop, report)
        finally:
            await pool.close()


def _check(settings: ReceiveSettings) -> None:
    if settings.watch is None and settings.dicom is None:
        raise ConfigError("There is nothing to receive from. Pass --watch FOLDER, --dicom-port PORT, or both.")
    check_not_inside_store(settings.spool)
    watch = settings.watch
    if watch is not None and not watch.is_dir():
        raise ConfigError(f"{watch} is not a folder.")
    if watch is not None and any(is_inside(path, watch) for path in (settings.spool, settings.store)):
        raise ConfigError(f"Spool and store must be outside of {watch}, which is only read.")


def _server(
    settings: ReceiveSettings, dicom: DicomSettings, spool: Spool, key: PatientKey
) -> contextlib.AbstractContextManager[int]:
    return dicom_server(
        spool,
        key,
        address=(dicom.host, dicom.port),
        title=dicom.title,
        callers=dicom.callers,
        max_bytes=settings.limits.upload_bytes,
    )


async def _loop(
    settings: ReceiveSettings,
    spool: Spool,
    pool: ParsingPool,
    key: PatientKey,
    stop: asyncio.Event,
    report: Callable[[str], None],
) -> None:
    watched = WatchedFolder(settings.watch, key, settings.limits.upload_bytes) if settings.watch else None
    clock = asyncio.get_running_loop().time
    last = clock()
    while True:
        stopping = stop.is_set()
        if watched is not None:
            await asyncio.to_thread(watched.poll, spool)
        await parse_incoming(spool, pool, key)
        waiting = len(spool.names("parsed"))
        if waiting and (stopping or waiting >= settings.batch_size or clock() - last >= settings.batch_seconds):
            done = await asyncio.to_thread(take_in, spool, settings.store, settings.key)
            last = clock()
            report(f"stored {done.stored}, quarantined {done.quarantined}, refused {len(spool.names('refused'))}")
        if stopping:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), settings.poll_seconds)
