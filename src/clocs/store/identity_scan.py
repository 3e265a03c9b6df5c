"""Search for identities in a store, by patterns and by the identities in an archive's files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError, FormatError
from clocs.core.hashes import unseal
from clocs.core.privacy.identity_patterns import find_identity, find_identity_in_value, is_identifying_name, mask
from clocs.core.sources.source import open_source
from clocs.core.storage.locations import to_location
from clocs.datasets.redaction import searchable_values
from clocs.formats.reading import FORMATS, detect_format, read_identity_from
from clocs.store.arrow_files import CheckedArrow
from clocs.store.byte_search import TextSearch
from clocs.store.manifest import manifest_path, read_manifest, read_quarantine, versions
from clocs.store.segments import METADATA
from clocs.store.shard import SHARDS, schema
from clocs.store.task_records import TASK_RECORDS

SKIPPED_COLUMNS: Final = ("values", "sex", "unit", "format")
"""Columns that contain no text from files."""
EXTRA_PREFIX: Final = "extra."
"""Prefix of the field of an extra column's values."""


@dataclass(frozen=True)
class IdentityHit:
    """A location in a store that may identify a person."""

    file: str
    """Path of the file within the store."""
    field: str
    """A column, a field of a list, or ``bytes``."""
    kind: str
    """Name of a pattern, or an identity field of the archive."""
    count: int
    """Number of matches in this field of this file."""
    example: str
    """The first match, masked."""


@dataclass(frozen=True)
class IdentityScan:
    """Result of a search for identities."""

    hits: tuple[IdentityHit, ...]
    """Locations that may identify a person."""
    values: int
    """Number of identity values of the archive that were searched for."""
    common: int
    """Number of identity values that were skipped because every store contains them (``Patient``, ``test``)."""


def scan_identities(
    folder: str | os.PathLike[str], against: str | os.PathLike[str] | None = None, ignore: Collection[str] = ()
) -> IdentityScan:
    """Search a store for names, dates and numbers that may identify a person.

    Every text in the store is searched for such patterns. With an archive, every byte of the store is also searched for
    the identities in the archive's files.

    Args:
        folder: Folder of the store.
        against: The archive that the store was made from, a folder or zip.
        ignore: Columns with harmless patterns, such as ``labels`` that are numeric codes, or ``extra.NAME`` for the
            values of an extra column.

    Returns:
        The hits, with masked examples, and the number of identity values that were searched for.

    Raises:
        ConfigError: The archive contains no identity.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 2})
        >>> scan = clocs.scan_identities(store)
        >>> sorted({hit.field for hit in scan.hits})
        ['patient_id', 'record_id', 'source']
        >>> scan.hits[0].kind
        'long number'
    """
    root = to_location(folder)
    read_manifest(root)
    values = identity_values(against) if against is not None else {}
    if against is not None and not values:
        raise ConfigError(f"{against} contains no identity. Pass the archive that the store was made from.")
    standard_text = _standard_text(root)
    searched = {value: field for value, field in values.items() if value not in standard_text}
    found: dict[tuple[str, str, str], list[str]] = {}
    search = TextSearch(searched)
    reported: set[tuple[str, str]] = set()
    for (file, field), rows in groupby(_store_texts(root), key=lambda row: row[:2]):
        texts = [text for _, _, text in rows]
        for kind, match in (pair for text in texts if field not in ignore for pair in _matching_pattern(field, text)):
            found.setdefault((file, field, kind), []).append(match)
        for value in search.search("\n".join(texts)):
            found.setdefault((file, field, searched[value]), []).append(value)
            reported.add((file, value))
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        file = path.relative_to(root).as_posix()
        known = {value for name, value in reported if name == file or _is_copy(file, name)}
        for value in (value for value in search.search_file(path) if value not in known):
            found.setdefault((file, "bytes", searched[value]), []).append(value)
    hits = [IdentityHit(*location, len(matches), mask(matches[0])) for location, matches in sorted(found.items())]
    return IdentityScan(tuple(hits), len(searched), len(values) - len(searched))


def _is_copy(file: str, name: str) -> bool:
    """Return whether a file is metadata and another is a shard, whose columns the metadata repeat."""
    return file.startswith(f"{METADATA}/") and name.startswith(f"{SHARDS}/")


def identity_values(archive: str | os.PathLike[str]) -> dict[str, str]:
    """Return the identity values in an archive's files, in lower case, with their fields."""
    source = open_source(archive)
    values: dict[str, str] = {}
    for name in source.names():
        try:
            if not name.endswith(".hea") and detect_format(source, name) is None:
                continue
            identity = read_identity_from(source, name)
        except FormatError:
            continue
        for field, texts in identity.items():
            for value in searchable_values({field: texts}):
                values.setdefault(" ".join(value.lower().split()), field)
                if field in ("acquired", "birth_date"):
                    values |= {day: field for day in _date_variants(value) if day not in values}
    return values


def _date_variants(text: str) -> Iterator[str]:
    """Iterate over other spellings of a date."""
    match = re.match(r"(\d{4})-?(\d{2})-?(\d{2})", text)
    if match:
        year, month, day = match.groups()
        yield from (f"{year}-{month}-{day}", f"{year}{month}{day}", f"{day}.{month}.{year}", f"{month}/{day}/{year}")


def _matching_pattern(field: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the first pattern that a text matches, with the match. Numbers in messages are sizes and positions."""
    found = find_identity_in_value(text) if field.startswith(EXTRA_PREFIX) else find_identity(text)
    if not found and field == "extra" and is_identifying_name(text):
        found = ("column name", text)
    if found and not (found[0] == "long number" and field == "findings.detail"):
        yield found


def _store_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Iterate over file, field and text of all texts in a store."""
    for path in sorted((folder / SHARDS).glob("*.arrow")):
        name = f"{SHARDS}/{path.name}"
        yield from ((name, field, text) for field, text in _shard_texts(path))
    manifests = [read_manifest(folder, number) for number in versions(folder)]
    listed = {manifest.quarantine.file: manifest.quarantine.sha256 for manifest in manifests}
    for path in sorted(folder.glob("quarantine-*.jsonl")):  # a killed ingest may leave one without a manifest
        for row in read_quarantine(path, listed.get(path.name)):
            yield from ((path.name, field, text) for field, text in _refusal_texts(row))
    for path in sorted((folder / TASK_RECORDS).glob("*.json")):
        for refused in unseal(path.read_bytes(), f"{TASK_RECORDS}/{path.name}").get("refused", ()):
            yield from ((f"{TASK_RECORDS}/{path.name}", field, text) for field, text in _refusal_texts(refused))
    for manifest in manifests:
        name = manifest_path(folder, manifest.version).name
        yield from ((name, f"options.{field}", str(text)) for field, text in manifest.options.items() if text)


def _shard_texts(path: Path) -> Iterator[tuple[str, str]]:
    file = CheckedArrow(path)
    for column in file.schema:
        if column.name == "extra":
            pairs = {pair for row in file.column("extra").to_pylist() for pair in row}
            yield from (("extra", name) for name in sorted({name for name, _ in pairs}))
            yield from sorted((f"{EXTRA_PREFIX}{name}", value) for name, value in pairs)
        elif column.name not in SKIPPED_COLUMNS and "string" in str(column.type):
            for value in set(_flat(file.column(column.name).to_pylist())):
                yield column.name, value


def _flat(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from _flat(value)
        elif isinstance(value, dict):
            yield from _flat(value.values())


def _refusal_texts(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((field, str(row[field])) for field in ("record_id", "source"))
    for finding in row["findings"]:
        yield from ((f"findings.{field}", str(finding[field])) for field in ("lead", "detail") if finding[field])


def _standard_text(folder: Path) -> str:
    """Return the text that every store contains, in lower case."""
    manifest = read_manifest(folder).model_dump(mode="json")
    metadata = {name: manifest[name] for name in ("dataset", "gate", "software", "quarantined")}
    words = [
        *manifest,
        *schema("int16").names,
        *FORMATS.names(),
        json.dumps(metadata),
        "unreadable findings detail lead",
    ]
    return " ".join(words).lower()
