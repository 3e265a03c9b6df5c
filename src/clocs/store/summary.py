"""Summaries of a store: counts, lists of recordings, and a report of the archive that it was made from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow.compute as pc

from clocs.core.errors import ConfigError, FormatError
from clocs.core.privacy.pseudonyms import PatientKey, read_key
from clocs.core.sources.source import Source, open_source
from clocs.core.sources.source_files import strip_extension
from clocs.datasets.folder import FILE_PATIENT_PREFIX
from clocs.formats.reading import FORMATS, Format, detect_format
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.duplicates import duplicate_groups
from clocs.store.manifest import read_quarantine
from clocs.store.near_duplicates import near_duplicate_groups
from clocs.store.reader import StoreLike
from clocs.store.splits import PARTS, load_split
from clocs.store.store import Store, open_store

LISTED_COLUMNS: Final = (
    "record_id",
    "patient_id",
    "site",
    "age",
    "sex",
    "labels",
    "acquired",
    "sampling_rate",
    "leads",
    "format",
    "source",
    "notes",
)
"""Columns of the list of recordings."""
Outcome = Literal["stored", "refused", "not an ECG", "part of a record", "not ingested"]
"""Result of a file of an archive."""
LEAD_SETS = {
    "12 leads": STANDARD_LEADS,
    "6 limb leads": STANDARD_LEADS[:6],
    "I, II, V1-V6": (*STANDARD_LEADS[:2], *STANDARD_LEADS[6:]),
}
"""Names of common sets of leads."""
MAX_LISTED_LEADS = 3
"""Maximum number of leads that are listed by name."""


def info(store: StoreLike) -> dict[str, Any]:
    """Return the counts of a store.

    Args:
        store: A store or its folder.

    Returns:
        Counts as JSON: recordings in, stored, quarantined and withdrawn, patients, duplicates, frames and instances
        (frames times leads) under the evaluation policy, lead order and amplitude of the signals, shards and bytes;
        with dataset, version and hash of the store.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> counts = clocs.info(store)
        >>> counts["stored"], counts["patients"], counts["frames"]
        (4, 2, 8)
    """
    store = open_store(store)
    groups = duplicate_groups(store)
    members = sum(len(group) for group in groups)
    has_policy = "evaluation" in store.manifest.dataset["frame_policies"]
    frames = store.frames("evaluation") if has_policy else None
    return {
        "dataset": store.manifest.dataset["name"],
        "version": store.manifest.version,
        "sha256": store.sha256,
        "in": store.manifest.records_in,
        "stored": store.manifest.stored,
        "quarantined": store.manifest.quarantined,
        "withdrawn": store.manifest.withdrawn,
        "patients": pc.count_distinct(store.table(["patient_id"]).column(0)).as_py(),
        "duplicates": {"groups": len(groups), "records": members, "redundant": members - len(groups)},
        "frames": frames.num_frames if frames is not None else None,
        "instances": len(frames) if frames is not None else None,
        "signals": store.manifest.signals.model_dump(mode="json") if store.manifest.signals is not None else None,
        "shards": len(store.shards),
        "bytes": sum(shard.bytes for shard in store.shards),
    }


def list_recordings(store: Store, split: str | None = None) -> Iterator[dict[str, Any]]:
    """Iterate over the metadata of each recording, with extra columns, and its part of a split if one is named."""
    table = store.table([*LISTED_COLUMNS, "num_samples", *store.extra_types])
    parts = load_split(store, split).parts.tolist() if split else []
    for number, row in enumerate(table.to_pylist()):
        seconds = row.pop("num_samples") / row["sampling_rate"]
        yield row | {"seconds": round(seconds, 3)} | ({"part": PARTS[parts[number]]} if split else {})


def list_quarantined(store: Store) -> Iterator[dict[str, Any]]:
    """Iterate over the quarantined recordings, with their files and all findings."""
    for row in quarantined_rows(store):
        findings = [f"{finding['reason']}: {describe_finding(finding)}" for finding in row["findings"]]
        yield {"record_id": row["record_id"], "source": row["source"], "reason": row["reason"], "findings": findings}


def quarantined_rows(store: Store) -> list[dict[str, Any]]:
    """Return the quarantined recordings: record id, source and its hash, reason and all findings."""
    quarantine = store.manifest.quarantine
    return read_quarantine(store.folder / quarantine.file, quarantine.sha256)


def describe_finding(finding: dict[str, str]) -> str:
    """Return lead and detail of a finding as text."""
    return " ".join(filter(None, (finding["lead"], finding["detail"])))


@dataclass(frozen=True)
class FileOutcome:
    """A file of an archive with its result."""

    file: str
    """Path within the archive."""
    format: str
    """Name of the format; empty if unknown."""
    outcome: Outcome
    """Result of the file."""
    reason: str = ""
    """Reason of a quarantined recording."""
    detail: str = ""
    """Details of the reason."""


@dataclass
class ArchiveReport:
    """Counts of an archive, with the result of every file."""

    formats: dict[str, int]
    """Number of recordings by format."""
    rates: dict[str, int]
    """Number of recordings by sampling rate."""
    leads: dict[str, int]
    """Number of recordings by set of leads."""
    faults: dict[str, int]
    """Number of quarantined recordings by reason."""
    near_duplicates: list[list[str]]
    """Groups of files of the same ECG, by file name, or by pseudonym if the name is unknown."""
    without_patient: int
    """Number of recordings without a patient id, each of which counts as one patient."""
    files: list[FileOutcome] = field(default_factory=list)
    """Result of every file of the archive; empty without the archive."""

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of files by result."""
        return dict(Counter(account.outcome for account in self.files))


def archive_report(
    store: StoreLike, source: str | os.PathLike[str] | None = None, key: str | os.PathLike[str] | None = None
) -> ArchiveReport:
    """Report formats, sampling rates, leads, faults and near duplicates of a store.

    With the archive that the store was made from, the report also lists the result of every file.

    Args:
        store: A store or its folder.
        source: The archive, a folder or zip.
        key: Key file of a de-identified store, which is needed to match its recordings with files.

    Returns:
        Counts of recordings, groups of near duplicates, and the result of every file.

    Raises:
        ConfigError: The archive does not belong to the store, or the key is missing.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> report = clocs.archive_report(store)
        >>> report.leads, report.rates
        ({'12 leads': 4}, {'500 Hz': 4})
    """
    store = open_store(store)
    table = store.table(["format", "sampling_rate", "leads", "source"])
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    patient_key = read_key(key) if key else None
    files = list(file_outcomes(store, open_source(source), patient_key)) if source else []
    if files and not any(file.outcome in ("stored", "refused") for file in files):
        raise ConfigError(
            f"{store.folder} has no recording of {source}. Pass the archive that the store was made from."
        )
    names = {patient_key.record(file.file): file.file for file in files} if patient_key else {}
    sources = [names.get(name, name) for name in columns["source"]]
    return ArchiveReport(
        formats=_count(columns["format"]),
        rates=_count(f"{sampling_rate:g} Hz" for sampling_rate in columns["sampling_rate"]),
        leads=_count(map(describe_leads, columns["leads"])),
        faults=dict(store.manifest.quarantined),
        near_duplicates=[[sources[index] for index in group] for group in near_duplicate_groups(store)],
        without_patient=sum(_has_no_patient(store)),
        files=files,
    )


def count_unused_patient_ids(store: Store) -> int:
    """Count the recordings with a patient id in the file that is not used, because there is no key or table."""
    if store.manifest.options.get("key"):
        return 0
    without_ids = {form.name for form in FORMATS if form.read_identity is Format.read_identity} | {"wfdb"}
    formats = store.table(["format"]).column(0).to_pylist()
    return sum(form not in without_ids and is_own for form, is_own in zip(formats, _has_no_patient(store), strict=True))


def _has_no_patient(store: Store) -> Iterator[bool]:
    """Iterate over the recordings: true if the patient id is the record id or the file name."""
    for row in store.table(["record_id", "patient_id", "source"]).to_pylist():
        names = (row["record_id"], row["source"], strip_extension(row["source"]))
        yield row["patient_id"].removeprefix(FILE_PATIENT_PREFIX) in names


def file_outcomes(store: Store, source: Source, key: PatientKey | None = None) -> Iterator[FileOutcome]:
    """Iterate over the files of an archive with their results."""
    if store.manifest.options.get("key") and key is None:
        raise ConfigError(f"{store.folder} was made with a key. Pass it to match recordings with files (--key FILE).")
    stored = set(store.table(["source"]).column(0).to_pylist())
    quarantined = {row["source"]: row for row in quarantined_rows(store)}
    for name in source.names():
        alias = key.record(name) if key else name
        form = _format_name(source, name)
        if alias in quarantined:
            row = quarantined[alias]
            first = next(finding for finding in row["findings"] if finding["reason"] == row["reason"])
            yield FileOutcome(name, form, "refused", row["reason"], describe_finding(first).replace(alias, name))
        elif alias in stored:
            yield FileOutcome(name, form, "stored")
        elif form or name.endswith(".hea"):
            yield FileOutcome(name, form, "not ingested")
        else:
            is_part = source.exists(f"{name.rsplit('.', 1)[0]}.hea")
            yield FileOutcome(name, "", "part of a record" if is_part else "not an ECG")


def describe_leads(leads: list[str]) -> str:
    """Return a short description of leads."""
    short = ", ".join(leads) if len(leads) <= MAX_LISTED_LEADS else f"{len(leads)} other leads"
    return next((name for name, known in LEAD_SETS.items() if set(known) == set(leads)), short)


def _format_name(source: Source, name: str) -> str:
    try:
        form = detect_format(source, name)
    except FormatError:
        return ""
    return form.name if form else ""


def _count(values: Iterator[str] | list[str] | map[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0])))
