"""Removal of identities from recordings and texts: pseudonyms for ids, pooled ages, no typed text."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from clocs.core.privacy.identity import Identity
from clocs.core.privacy.identity_patterns import find_identity, find_identity_in_value, is_identifying_name
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.recording import Recording
from clocs.core.sources.source_files import strip_extension
from clocs.formats.demographics import parse_acquired
from clocs.formats.lead_codes import LEADS
from clocs.signals.leads import STANDARD_LEADS

KeepField = Literal["labels", "notes", "leads", "site", "extra"]
POOLED_AGE: Final = 90.0
"""Age in years that replaces itself and every higher age."""
MIN_SEARCH_LENGTH: Final = 4
"""Minimum length, in characters, of a value that is searched for in texts. Shorter ones match by chance."""

_KNOWN_LEADS: Final = {*STANDARD_LEADS, *LEADS.values()}
_LEAD = re.compile(
    r"ECG( ?\d{1,2})?|(ML?|D)(I{1,3}|[1-3])|MV[1-6]|V\d{1,2}R?|E[1-9]|[XYZ]|lead \d{1,3}|channel \d{1,3}"
)
_OBJECT_NUMBER = re.compile(r"\d+(\.\d+){3,}")
_PLACEHOLDER = re.compile(
    r"(.)\1*|anon(ymous|ymized|ymised)?|none|null|n/?a|unknown|removed?|scrubbed|deleted|test|dd-mmm-yyyy",
    re.IGNORECASE,
)


def patient_id_from(identity: Identity) -> str:
    """Return the patient id of a file; empty if it has none, or only a placeholder such as ``0`` or ``unknown``.

    aECG files hold the object identifier of the issuer before the patient's, which is skipped.
    """
    usable = [value for value in identity.get("patient_id", ()) if not _PLACEHOLDER.fullmatch(value)]
    own = [value for value in usable if not _OBJECT_NUMBER.fullmatch(value)]
    return next(iter(own or usable), "")


def acquired_from(identity: Identity) -> datetime | None:
    """Return the time of a recording that a file states; None if it states none that can be parsed."""
    return next(filter(None, map(parse_acquired, identity.get("acquired", ()))), None)


def deidentify_recording(
    recording: Recording, key: PatientKey, *, name: str, patient: str, keep: Collection[str] = ()
) -> Recording:
    """Return a recording with pseudonyms, a pooled age and a shifted time, without typed text.

    Args:
        recording: The recording.
        key: Key of the pseudonyms.
        name: Text that the record id is derived from, such as the file name.
        patient: Id of the patient; empty to make the recording its own patient.
        keep: Typed fields that stay: ``labels``, ``notes``, ``leads``, ``site``, ``extra``.

    Returns:
        The de-identified recording.
    """
    record_id = key.record(name)
    leads = recording.leads if "leads" in keep else _plain_leads(recording.leads)
    origin = recording.provenance
    return replace(
        recording,
        leads=leads,
        record_id=record_id,
        patient_id=key.patient(patient) if patient else record_id,
        site=recording.site if "site" in keep else "",
        age=None if recording.age is None else min(recording.age, POOLED_AGE),
        acquired=recording.acquired and key.shift_time(recording.acquired, patient or name),
        labels=recording.labels if "labels" in keep else (),
        episodes=recording.episodes if "labels" in keep else (),
        provenance=replace(
            origin,
            source=record_id,
            sha256=key.file(origin.sha256),
            notes=origin.notes if "notes" in keep else (),
            derived_leads=tuple(leads[recording.leads.index(lead)] for lead in origin.derived_leads),
        ),
        extra=recording.extra if "extra" in keep else {},
    )


def column_identity(column: str, values: Sequence[str], ids: Sequence[Sequence[str]]) -> str:
    """Return why an extra column may identify a person; empty if no rule applies.

    Args:
        column: Name of the column.
        values: Values of the column, one per row; empty if absent.
        ids: Ids of the patient and the record, and file name of each row.

    Returns:
        A reason with counts, without the values.
    """
    if find_identity(column) or is_identifying_name(column):
        return "its name may stand for a person or a day"
    copies = sum(_repeats_id(value, names) for value, names in zip(values, ids, strict=True) if value)
    if copies:
        return f"{copies} values repeat an id or a file name"
    found = {value: find_identity_in_value(value) for value in set(values)}
    kinds = Counter(match[0] for value in values if (match := found[value]))
    return ", ".join(f"{count} values look like a {kind}" for kind, count in kinds.most_common())


def _repeats_id(value: str, names: Sequence[str]) -> bool:
    """Return whether a value contains an id, or a file name without folder and extension."""
    text = value.upper()
    parts = {part.upper() for name in names for part in (name, strip_extension(name).rpartition("/")[2])}
    return any(part in text for part in parts if len(part) >= MIN_SEARCH_LENGTH)


def _plain_leads(leads: Sequence[str]) -> tuple[str, ...]:
    """Replace unknown lead names by ``lead 1``, ``lead 2``, because users can type into the field.

    The number is the lead's position, or the next free number if that name is taken.
    """
    plain = [lead if lead in _KNOWN_LEADS or _LEAD.fullmatch(lead) else "" for lead in leads]
    for index, lead in enumerate(plain):
        if not lead:
            numbered = (f"lead {number}" for number in itertools.count(index + 1))
            plain[index] = next(name for name in numbered if name not in plain)
    return tuple(plain)


def replace_values(text: str, values: Iterable[str], replacement: str, *, min_length: int = MIN_SEARCH_LENGTH) -> str:
    """Replace values in a text, ignoring case; short values only where they are whole words."""
    for value in sorted({value for value in values if len(value) >= min_length}, key=len, reverse=True):
        whole_word = rf"(?<![^\W_]){re.escape(value)}(?![^\W_])"
        pattern = re.escape(value) if len(value) > 2 * MIN_SEARCH_LENGTH else whole_word
        text = re.sub(pattern, lambda _: replacement, text, flags=re.IGNORECASE)
    return text


def searchable_values(identity: Identity) -> list[str]:
    """Return the values of an identity that are long enough to search for in a text."""
    return [value for values in identity.values() for value in values if len(value) >= MIN_SEARCH_LENGTH]
