"""Summaries of a store: its counts and listings, and a report of the archive that it was made from.

The report accounts for every file of the archive.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow.compute as pc

from clocs.core.errors import ConfigError, FormatError
from clocs.core.pseudonyms import PatientKey, read_key
from clocs.core.sources import Source, open_source, strip_extension
from clocs.datasets.folder import BY_FILE
from clocs.formats.reading import FORMATS, Format, detect_format
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.duplicates import duplicate_groups, near_duplicate_groups
from clocs.store.manifest import read_quarantine
from clocs.store.reader import StoreLike
from clocs.store.splits import PARTS, load_split
from clocs.store.store import Store, open_store

TOLD: Final = (
    "record_id",
    "patient_id",
    "site",
    "age",
    "sex",
    "labels",
    "sampling_rate",
    "leads",
    "format",
    "source",
    "notes",
)
"""What is listed of a recording."""
Outcome = Literal["stored", "refused", "not an ECG", "part of a record", "not ingested"]
SETS = {
    "12 leads": STANDARD_LEADS,
    "6 limb leads": STANDARD_LEADS[:6],
    "I, II, V1-V6": (*STANDARD_LEADS[:2], *STANDARD_LEADS[6:]),
}
SHOWN_LEADS = 3


def info(store: StoreLike) -> dict[str, Any]:
    """Counts of a store, or of its folder, as one JSON object.

    ``instances`` are frames x leads by the evaluation policy.
    """
    store = open_store(store)
    groups = duplicate_groups(store)
    members = sum(len(group) for group in groups)
    frames = store.frames("evaluation") if "evaluation" in store.manifest.dataset["frames"] else None
    return {
        "dataset": store.manifest.dataset["name"],
        "version": store.manifest.version,
        "sha256": store.sha256,
        "in": store.manifest.records_in,
        "stored": store.manifest.stored,
        "quarantined": store.manifest.quarantined,
        "patients": pc.count_distinct(store.table(["patient_id"]).column(0)).as_py(),
        "duplicates": {"groups": len(groups), "records": members, "redundant": members - len(groups)},
        "frames": frames.frames if frames is not None else None,
        "instances": len(frames) if frames is not None else None,
        "shards": len(store.manifest.shards),
        "bytes": sum(shard.bytes for shard in store.manifest.shards),
    }


def list_recordings(store: Store, split: str | None = None) -> Iterator[dict[str, Any]]:
    """What a store says of each recording, in its order: plain values, and its part of a split where one is named."""
    table = store.table([*TOLD, "num_samples"])
    parts = load_split(store, split).parts.tolist() if split else []
    for number, row in enumerate(table.to_pylist()):
        seconds = row.pop("num_samples") / row["sampling_rate"]
        yield row | {"seconds": round(seconds, 3)} | ({"part": PARTS[parts[number]]} if split else {})


def list_quarantined(store: Store) -> Iterator[dict[str, Any]]:
    """Each recording that was refused, its file, and all that was found."""
    for row in quarantined_rows(store):
        found = [f"{each['reason']}: {finding_in_words(each)}" for each in row["findings"]]
        yield {"record_id": row["record_id"], "source": row["source"], "reason": row["reason"], "findings": found}


def quarantined_rows(store: Store) -> list[dict[str, Any]]:
    """Return the refused recordings: record id, source, its hash, reason, all findings."""
    listed = store.manifest.quarantine
    return read_quarantine(store.folder / listed.file, listed.sha256)


def finding_in_words(finding: dict[str, str]) -> str:
    """Of a quarantined recording: the lead, if it is one's, and what was measured."""
    return " ".join(filter(None, (finding["lead"], finding["detail"])))


@dataclass(frozen=True)
class FileAccount:
    """One file of an archive, and what became of it."""

    file: str
    format: str
    outcome: Outcome
    reason: str = ""
    """Of a refusal: its name."""
    detail: str = ""


@dataclass
class ArchiveReport:
    """A store in numbers, by what differs between archives."""

    formats: dict[str, int]
    rates: dict[str, int]
    leads: dict[str, int]
    faults: dict[str, int]
    """Refused recordings by reason."""
    same_ecg: list[list[str]]
    """Each group of files that hold one ECG: their names, or their pseudonyms where those are unknown."""
    without_patient: int
    """Recordings that count as a patient of their own."""
    files: list[FileAccount] = field(default_factory=list)
    """Empty unless the archive was given."""

    @property
    def outcomes(self) -> dict[str, int]:
        """Files by what became of them."""
        return dict(Counter(account.outcome for account in self.files))


def archive_report(
    store: StoreLike, source: str | os.PathLike[str] | None = None, key: str | os.PathLike[str] | None = None
) -> ArchiveReport:
    """Count what a store holds and, with the archive it came from, account for every file.

    ``key`` is the one the store was made with: it tells which file a pseudonym stands for.
    """
    store = open_store(store)
    table = store.table(["format", "sampling_rate", "leads", "source"])
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    secret = read_key(key) if key else None
    files = list(account(store, open_source(source), secret)) if source else []
    if files and not any(file.outcome in ("stored", "refused") for file in files):
        raise ConfigError(f"no file of {source} is a recording of {store.folder}: it was made of another archive")
    names = {secret.record(file.file): file.file for file in files} if secret else {}
    told = [names.get(name, name) for name in columns["source"]]
    return ArchiveReport(
        formats=_counted(columns["format"]),
        rates=_counted(f"{sampling_rate:g} Hz" for sampling_rate in columns["sampling_rate"]),
        leads=_counted(map(lead_set, columns["leads"])),
        faults=dict(store.manifest.quarantined),
        same_ecg=[[told[number] for number in group] for group in near_duplicate_groups(store)],
        without_patient=sum(_patients_of_their_own(store)),
        files=files,
    )


def count_unused_patient_ids(store: Store) -> int:
    """Recordings of formats that name patients which count as a patient of their own, for want of a key or a table."""
    if store.manifest.options.get("key"):
        return 0
    silent = {form.name for form in FORMATS if form.read_identity is Format.read_identity} | {"wfdb"}
    formats = store.table(["format"]).column(0).to_pylist()
    return sum(form not in silent and own for form, own in zip(formats, _patients_of_their_own(store), strict=True))


def _patients_of_their_own(store: Store) -> Iterator[bool]:
    """Of each recording, whether its patient is called as it is, or as its file: nobody said whose it is."""
    for row in store.table(["record_id", "patient_id", "source"]).to_pylist():
        names = (row["record_id"], row["source"], strip_extension(row["source"]))
        yield row["patient_id"].removeprefix(BY_FILE) in names


def account(store: Store, source: Source, key: PatientKey | None = None) -> Iterator[FileAccount]:
    """What became of each file, in the archive's order."""
    if store.manifest.options.get("key") and key is None:
        raise ConfigError(f"{store.folder} was made with a key: to tell its files by their names, give it (--key FILE)")
    stored = set(store.table(["source"]).column(0).to_pylist())
    refused = {row["source"]: row for row in quarantined_rows(store)}
    for name in source.names():
        shown = key.record(name) if key else name
        form = _format(source, name)
        if shown in refused:
            row = refused[shown]
            first = next(each for each in row["findings"] if each["reason"] == row["reason"])
            yield FileAccount(name, form, "refused", row["reason"], finding_in_words(first).replace(shown, name))
        elif shown in stored:
            yield FileAccount(name, form, "stored")
        elif form or name.endswith(".hea"):
            yield FileAccount(name, form, "not ingested")
        else:
            part = source.exists(f"{name.rsplit('.', 1)[0]}.hea")
            yield FileAccount(name, "", "part of a record" if part else "not an ECG")


def lead_set(leads: list[str]) -> str:
    """Leads in a few words."""
    short = ", ".join(leads) if len(leads) <= SHOWN_LEADS else f"{len(leads)} other leads"
    return next((name for name, known in SETS.items() if set(known) == set(leads)), short)


def _format(source: Source, name: str) -> str:
    try:
        form = detect_format(source, name)
    except FormatError:
        return ""
    return form.name if form else ""


def _counted(values: Iterator[str] | list[str] | map[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0])))
