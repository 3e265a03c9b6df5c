"""State of a running service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.types import Scope

from clocs.core.errors import ConfigError
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.results import Classification
from clocs.service.admission import RequestLimiter
from clocs.service.archive_view import ArchiveView
from clocs.service.audit_log import AuditLog
from clocs.service.inference import WorkerThreads
from clocs.service.logs import log
from clocs.service.metrics import Metrics
from clocs.service.parsing.confinement import Confinement
from clocs.service.parsing.confinement_check import check_confinement, check_folders
from clocs.service.parsing.pool import ParsingPool
from clocs.service.privacy import Handles
from clocs.service.problems import REQUEST_ID
from clocs.service.recording_list import RecordingList
from clocs.service.rights import identity_of
from clocs.service.settings import ServiceSettings
from clocs.service.verdicts import Result, Verdicts

VERDICTS: Final = "verdicts.jsonl"
"""File of the users' verdicts, beside the audit log."""


@dataclass(frozen=True, eq=False)
class LoadedService:
    """Parts that need no event loop. They are loaded before the service listens, so that errors are reported early."""

    settings: ServiceSettings
    encoder: PretrainedEncoder
    encoder_name: str
    """Name of the encoder without its folder."""
    card: str
    """README of the encoder; empty if it has none."""
    archive: ArchiveView | None
    recordings: RecordingList | None
    audit: AuditLog
    confinement: Confinement
    """Confinement of the parsing processes."""


@dataclass(frozen=True, eq=False)
class ServiceState:
    """All parts of a running service."""

    loaded: LoadedService
    handles: Handles
    """Handles of the recordings of the index."""
    recording_handles: Handles
    """Handles of the listed recordings."""
    metrics: Metrics
    limiter: RequestLimiter
    threads: WorkerThreads
    pool: ParsingPool
    verdicts: Verdicts

    @property
    def settings(self) -> ServiceSettings:
        return self.loaded.settings

    def remember(self, scope: Scope, found: Classification) -> str:
        """Keep the classes of an answer, so that the user can report on them, and return the id of the request."""
        request_id: str = scope[REQUEST_ID]
        probabilities = {item.name: item.probability for item in found.classes}
        encoder_sha256 = self.loaded.encoder.about["weights_sha256"]
        self.verdicts.remember(request_id, Result(encoder_sha256, found.classifier, probabilities))
        return request_id

    async def audit(self, scope: Scope, endpoint: str, **fields: Any) -> None:
        """Write who asked for what to the audit log, and return when the line is on disk.

        Args:
            scope: ASGI scope of the request.
            endpoint: Name of the endpoint.
            fields: Further fields of the line, without identities of patients.

        Raises:
            AuditError: The line was not written, so the request must not be answered.
        """
        who = identity_of(scope)
        await self.threads.run(
            self.loaded.audit.write,
            request_id=scope[REQUEST_ID],
            token=who.token,
            user=who.user,
            endpoint=endpoint,
            **fields,
        )


def load_service(settings: ServiceSettings) -> LoadedService:
    """Check the confinement of uploads, then open encoder, index and audit log."""
    confinement = check_confinement(without_landlock=settings.without_landlock, unconfined=settings.unconfined)
    archive = ArchiveView(settings.index, settings.encoder, settings.device) if settings.index else None
    check_folders(confinement.folders, _private_paths(settings, archive))
    encoder = archive.encoder if archive else load_encoder(settings.encoder_or_default, device=settings.device)
    weights = encoder.about["weights_sha256"]
    recordings = RecordingList(settings.store, settings.classified, weights) if settings.store else None
    if encoder.input.sampling_rate is None:
        raise ConfigError(f"Encoder '{encoder.name}' has no sampling rate, so uploads cannot be resampled for it.")
    card = encoder.folder / "README.md"
    return LoadedService(
        settings=settings,
        encoder=encoder,
        encoder_name=Path(encoder.name).name,
        card=card.read_text(encoding="utf-8") if card.exists() else "",
        archive=archive,
        recordings=recordings,
        audit=AuditLog(settings.audit_log),
        confinement=confinement,
    )


def _private_paths(settings: ServiceSettings, archive: ArchiveView | None) -> dict[str, Path]:
    """Return the paths that parsing processes must not be able to read, by description."""
    optional = {"token file": settings.token_file, "store": settings.store, "table": settings.classified}
    given = {name: path for name, path in optional.items() if path is not None}
    return {"audit log": settings.audit_log, **given, **(archive.folders if archive else {})}


@contextlib.asynccontextmanager
async def run_service(loaded: LoadedService, limiter: RequestLimiter, metrics: Metrics) -> AsyncIterator[ServiceState]:
    """Start the parsing processes, yield the state, and release everything at the end."""
    limits = loaded.settings.limits
    threads = WorkerThreads(limits.active)

    def report(outcome: str, place: str) -> None:
        metrics.parsing.labels(outcome).inc()
        if outcome not in ("ok", "refused"):
            log("parsing", logging.WARNING, outcome=outcome, place=place)

    pool = ParsingPool(limits, loaded.confinement, report)
    try:
        try:
            await asyncio.gather(pool.open(), threads.warm_up(loaded.encoder))
        except (EOFError, OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer in time; is the machine overloaded?"
            log("parsing processes cannot be started", logging.ERROR, error, reason=reason)
            raise
        level = loaded.confinement.level
        severity = logging.INFO if loaded.confinement.landlock else logging.WARNING
        log("parsing processes started", severity, confinement=level)
        metrics.confinement.labels(level).set(1)
        yield ServiceState(
            loaded=loaded,
            handles=Handles(),
            recording_handles=Handles("r"),
            metrics=metrics,
            limiter=limiter,
            threads=threads,
            pool=pool,
            verdicts=Verdicts(loaded.settings.audit_log.with_name(VERDICTS)),
        )
    finally:
        await pool.close()
        threads.close()
        loaded.audit.close()
