"""Looking for what may still name somebody in a store: by patterns, and by what an archive's files say."""

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
from clocs.core.files import unseal
from clocs.core.pseudonyms import PSEUDONYM
from clocs.core.sources import open_source
from clocs.datasets.redaction import searchable_values
from clocs.formats.reading import FORMATS, detect_format, read_identity_from
from clocs.store.arrow_files import CheckedArrow
from clocs.store.byte_search import Needles
from clocs.store.manifest import SHARDS, manifest_path, read_manifest, read_quarantine, versions
from clocs.store.shard import schema
from clocs.store.task_records import TASK_RECORDS

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "name": re.compile(r"\b[^\W\d_a-zà-ÿ](?:[^\W\d_]|['’-])+, ?[^\W\d_a-zà-ÿ](?![\d_])|[^\W\d_]{2,}\^[^\W\d_]*|"
                       r"\b(Dr|Mr|Mrs|Ms|Prof|Herr|Frau)\b\.? ?[^\W\d_a-zà-ÿ]\w+"),
    "e-mail": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w"),
    "date": re.compile(
        r"(?<!\d)(19|20)\d\d([-/._]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d{1,5}(\D|$))|"
        r"(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](19|20)?\d\d(?!\d)|"
        rf"(?i:(?<!\d)\d{{1,2}}[- .]?({_MONTHS})[a-z]*[- .,]{{1,2}}\d{{2,4}}(?!\d))"
    ),
    "telephone": re.compile(r"(?<![\w.])(\+|00)\d[\d ()/-]{6,}\d|\(\d{2,5}\) ?\d[\d -]{4,}\d|"
                            r"(?<!\d)\d{3}[- ]\d{3}[- ]\d{4}(?!\d)"),
    "long number": re.compile(r"(?<!\d)\d{6,}(?!\d)"),
}  # fmt: skip
"""What identities look like, in the order in which a text is named by them."""
UNREAD: Final = ("values", "sex", "unit", "format")
"""Columns without text of any file's."""
_OWN_FORM = re.compile(rf"(?<![0-9a-z])({PSEUDONYM.pattern}|[0-9a-f]{{64}})(?![0-9a-z])")


@dataclass(frozen=True)
class Hit:
    """A place of a store that may name somebody."""

    file: str
    field: str
    """A column, a field of a listing, or ``bytes``."""
    kind: str
    """A pattern, or an identity field of the archive."""
    count: int
    """How often in this field of this file."""
    example: str
    """The first one, masked."""


@dataclass(frozen=True)
class Scan:
    """What was found, and what was looked for."""

    hits: tuple[Hit, ...]
    values: int
    """Identity values of an archive that were looked for."""
    common: int
    """Of its values, those that stand in words of clocs' own (``Patient``, ``test``) and were not looked for."""


def scan_identities(
    folder: str | os.PathLike[str], against: str | os.PathLike[str] | None = None, ignore: Collection[str] = ()
) -> Scan:
    """Look through every text in a store and, for what the files of an archive say, through every byte.

    ``ignore`` names columns whose patterns are known to be harmless, such as ``labels`` that are code numbers.
    """
    place = Path(folder)
    read_manifest(place)
    values = identity_values(against) if against is not None else {}
    if against is not None and not values:
        raise ConfigError(f"{against} holds no identity to look for; is it the archive that the store was made of?")
    own = _own_words(place)
    wanted = {value: field for value, field in values.items() if value not in own}
    found: dict[tuple[str, str, str], list[str]] = {}
    needles = Needles(wanted)
    told: set[tuple[str, str]] = set()
    for (file, field), rows in groupby(_texts(place), key=lambda row: row[:2]):
        texts = [text for _, _, text in rows]
        for kind, match in (pair for text in texts if field not in ignore for pair in _patterns(field, text)):
            found.setdefault((file, field, kind), []).append(match)
        for value in needles.search("\n".join(texts)):
            found.setdefault((file, field, wanted[value]), []).append(value)
            told.add((file, value))
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        file = path.relative_to(place).as_posix()
        for value in (value for value in needles.search_file(path) if (file, value) not in told):
            found.setdefault((file, "bytes", wanted[value]), []).append(value)
    hits = [Hit(*where, len(matches), masked(matches[0])) for where, matches in sorted(found.items())]
    return Scan(tuple(hits), len(wanted), len(values) - len(wanted))


def identity_values(archive: str | os.PathLike[str]) -> dict[str, str]:
    """Every identity value of over three characters in an archive's files, in lower case, with its field."""
    source = open_source(archive)
    values: dict[str, str] = {}
    for name in source.names():
        try:
            if not name.endswith(".hea") and detect_format(source, name) is None:
                continue
            identity = read_identity_from(source, name)
        except FormatError:
            continue
        for field, given in identity.items():
            for value in searchable_values({field: given}):
                values.setdefault(" ".join(value.lower().split()), field)
                if field in ("acquired", "birth_date"):
                    values |= {day: field for day in _days(value) if day not in values}
    return values


def _days(text: str) -> Iterator[str]:
    """The ways in which a date may be written elsewhere."""
    found = re.match(r"(\d{4})-?(\d{2})-?(\d{2})", text)
    if found:
        year, month, day = found.groups()
        yield from (f"{year}-{month}-{day}", f"{year}{month}{day}", f"{day}.{month}.{year}", f"{month}/{day}/{year}")


def masked(text: str) -> str:
    """Enough to recognise a finding by, without repeating it."""
    return f"{text[:2]}{'*' * min(len(text) - 2, 6)} ({len(text)} characters)" if len(text) > 2 else "**"


def _patterns(field: str, text: str) -> Iterator[tuple[str, str]]:
    """Each kind of identity that a text looks like holding; numbers in messages are sizes and positions."""
    plain = _OWN_FORM.sub(" ", text)
    for kind, pattern in PATTERNS.items():
        match = pattern.search(plain)
        if match and not (kind == "long number" and field == "findings.detail"):
            yield kind, match.group()
            return


def _texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """File, field and text of all that a store says in words."""
    for path in sorted((folder / SHARDS).glob("*.arrow")):
        name = f"{SHARDS}/{path.name}"
        yield from ((name, field, text) for field, text in _shard_texts(path))
    manifests = [read_manifest(folder, number) for number in versions(folder)]
    listed = {manifest.quarantine.file: manifest.quarantine.sha256 for manifest in manifests}
    for path in sorted(folder.glob("quarantine-*.jsonl")):  # one that no manifest lists is left by a killed ingest
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
        if column.name not in UNREAD and "string" in str(column.type):
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


def _own_words(folder: Path) -> str:
    """What stands in every store, and names nobody."""
    manifest = read_manifest(folder).model_dump(mode="json")
    about = {name: manifest[name] for name in ("dataset", "gate", "software", "quarantined")}
    words = [*manifest, *schema("int16").names, *FORMATS.names(), json.dumps(about), "unreadable findings detail lead"]
    return " ".join(words).lower()
