"""What a running service holds: loaded before it listens, given back when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.service.admission import Gate
from clocs.service.archive_view import ArchiveView
from clocs.service.audit_log import AuditLog
from clocs.service.inference import Threads
from clocs.service.logs import log
from clocs.service.metrics import Metrics
from clocs.service.parsing.confinement import Confinement
from clocs.service.parsing.pool import ParsingPool
from clocs.service.parsing.trial import check_folders, try_confinement
from clocs.service.privacy import Handles
from clocs.service.settings import ServiceSettings


@dataclass(frozen=True, eq=False)
class Loaded:
    """What needs no event loop; a fault in it is said before anything listens."""

    settings: ServiceSettings
    encoder: PretrainedEncoder
    encoder_name: str
    """Without its folder's place."""
    card: str
    """The encoder's README; empty where it has none."""
    archive: ArchiveView | None
    audit: AuditLog
    confinement: Confinement
    """Of the parsing processes."""


@dataclass(frozen=True, eq=False)
class ServiceState:
    """All parts of a service."""

    loaded: Loaded
    handles: Handles
    metrics: Metrics
    gate: Gate
    threads: Threads
    pool: ParsingPool

    @property
    def settings(self) -> ServiceSettings:
        return self.loaded.settings


def load(settings: ServiceSettings) -> Loaded:
    """Open the encoder, the index and the audit log, once it is known that uploads can be parsed safely."""
    confinement = try_confinement(without_landlock=settings.without_landlock, unconfined=settings.unconfined)
    archive = ArchiveView(settings.index, settings.encoder, settings.device) if settings.index else None
    check_folders(confinement.folders, _private(settings, archive))
    encoder = archive.encoder if archive else load_encoder(settings.encoder_or_default, device=settings.device)
    if encoder.input.sampling_rate is None:
        raise ConfigError(f"encoder '{encoder.name}' regards no rate, so files cannot be brought to what it takes")
    card = encoder.folder / "README.md"
    return Loaded(
        settings=settings,
        encoder=encoder,
        encoder_name=Path(encoder.name).name,
        card=card.read_text(encoding="utf-8") if card.exists() else "",
        archive=archive,
        audit=AuditLog(settings.audit_log),
        confinement=confinement,
    )


def _private(settings: ServiceSettings, archive: ArchiveView | None) -> dict[str, Path]:
    """Return what parsing processes must not be able to read, by what it is."""
    token = {"token file": settings.token_file} if settings.token_file else {}
    return {"audit log": settings.audit_log, **token, **(archive.folders if archive else {})}


@contextlib.asynccontextmanager
async def running(loaded: Loaded, gate: Gate, metrics: Metrics) -> AsyncIterator[ServiceState]:
    """Start the parsing processes; at the end, leave nothing behind."""
    limits = loaded.settings.limits
    threads = Threads(limits.active)

    def report(outcome: str, place: str) -> None:
        metrics.parsing.labels(outcome).inc()
        if outcome not in ("ok", "refused"):
            log("parsing", logging.WARNING, outcome=outcome, place=place)

    pool = ParsingPool(limits, loaded.confinement, report)
    try:
        try:
            await asyncio.gather(pool.open(), threads.warm_up(loaded.encoder))
        except (EOFError, OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            log("parsing processes cannot be started", logging.ERROR, error, reason=reason)
            raise
        level = loaded.confinement.level
        severity = logging.INFO if loaded.confinement.landlock else logging.WARNING
        log("parsing processes started", severity, confinement=level)
        metrics.confinement.labels(level).set(1)
        yield ServiceState(
            loaded=loaded,
            handles=Handles(),
            metrics=metrics,
            gate=gate,
            threads=threads,
            pool=pool,
        )
    finally:
        await pool.close()
        threads.close()
        loaded.audit.close()
