"""A recording without what may say who was recorded: pseudonyms for ids and names, ages pooled, typed text left out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from clocs.core.identity import Identity
from clocs.core.pseudonyms import PatientKey
from clocs.core.recording import Recording
from clocs.formats.lead_codes import LEADS
from clocs.signals.leads import STANDARD_LEADS

KeepField = Literal["labels", "notes", "leads", "site"]
POOLED_AGE: Final = 90.0
"""Years; stands for this age and every higher one."""
MIN_SEARCH_LENGTH: Final = 4
"""Characters of an identity value that is looked for in texts; shorter ones stand in any text."""

_KNOWN_LEADS: Final = {*STANDARD_LEADS, *LEADS.values()}
_LEAD = re.compile(
    r"ECG( ?\d{1,2})?|(ML?|D)(I{1,3}|[1-3])|MV[1-6]|V\d{1,2}R?|E[1-9]|[XYZ]|lead \d{1,3}|channel \d{1,3}"
)
_OBJECT_NUMBER = re.compile(r"\d+(\.\d+){3,}")
_NOBODY = re.compile(
    r"(.)\1*|anon(ymous|ymized|ymised)?|none|null|n/?a|unknown|removed?|scrubbed|deleted|test|dd-mmm-yyyy",
    re.IGNORECASE,
)


def patient_id_from(identity: Identity) -> str:
    """A file's number of its patient; empty where it has none, or only what stands for none (``0``, ``unknown``).

    aECG files give the issuer's object number before the patient's: it is passed over.
    """
    usable = [value for value in identity.get("patient_id", ()) if not _NOBODY.fullmatch(value)]
    own = [value for value in usable if not _OBJECT_NUMBER.fullmatch(value)]
    return next(iter(own or usable), "")


def deidentify_recording(
    recording: Recording, key: PatientKey, *, name: str, patient: str, keep: Collection[str] = ()
) -> Recording:
    """The recording under pseudonyms, its age pooled, without what was typed but for the fields to ``keep``.

    ``name`` is what its record id is made from; ``patient`` its patient's number, empty: a patient of its own.
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
        labels=recording.labels if "labels" in keep else (),
        episodes=recording.episodes if "labels" in keep else (),
        provenance=replace(
            origin,
            source=record_id,
            sha256=key.file(origin.sha256),
            notes=origin.notes if "notes" in keep else (),
            derived_leads=tuple(leads[recording.leads.index(lead)] for lead in origin.derived_leads),
        ),
    )


def _plain_leads(leads: Sequence[str]) -> tuple[str, ...]:
    """Names that are no lead's become ``lead 1``, ``lead 2`` by their place: the field can be typed in.

    Where a lead has that name already, the next number that is free is taken.
    """
    plain = [lead if lead in _KNOWN_LEADS or _LEAD.fullmatch(lead) else "" for lead in leads]
    for place, lead in enumerate(plain):
        if not lead:
            numbered = (f"lead {number}" for number in itertools.count(place + 1))
            plain[place] = next(name for name in numbered if name not in plain)
    return tuple(plain)


def replace_values(text: str, values: Iterable[str], instead: str, *, shortest: int = MIN_SEARCH_LENGTH) -> str:
    """A text with each of these values replaced, whatever its case; short ones only where they stand alone."""
    for value in sorted({value for value in values if len(value) >= shortest}, key=len, reverse=True):
        alone = rf"(?<![^\W_]){re.escape(value)}(?![^\W_])"
        pattern = re.escape(value) if len(value) > 2 * MIN_SEARCH_LENGTH else alone
        text = re.sub(pattern, lambda _: instead, text, flags=re.IGNORECASE)
    return text


def searchable_values(identity: Identity) -> list[str]:
    """Every value of an identity that is long enough to be looked for in a text."""
    return [value for values in identity.values() for value in values if len(value) >= MIN_SEARCH_LENGTH]
