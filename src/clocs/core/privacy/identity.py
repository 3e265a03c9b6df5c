"""Identifying content of ECG files. It is never part of a ``Recording``; readers return it separately, by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clocs.core.errors import ConfigError

IDENTITY_FIELDS: Final[dict[str, str]] = {
    "patient_id": "the number or code of the patient",
    "patient_name": "any part of the patient's name",
    "birth_date": "date of birth, as written in the file",
    "contact": "address, telephone, e-mail",
    "physician": "names of physicians who ordered, referred, read or confirmed",
    "operator": "names or codes of people who recorded or edited",
    "institution": "hospital, department, room, bed",
    "device_serial": "serial number or network name of the device",
    "order": "numbers of the order, the visit, the study and the file itself",
    "acquired": "date and time of the recording, in ISO 8601 if the file's notation can be parsed",
    "free_text": "statements, comments, indications, medications and other typed text",
}
"""Fields of identifying content that readers distinguish, with a description of each."""

Identity = Mapping[str, tuple[str, ...]]
"""Values by field, as written in the file. Fields without a value are absent."""


def check_identity_fields(names: tuple[str, ...]) -> None:
    """Raise a ``ConfigError`` if a name is not an identity field."""
    unknown = [name for name in names if name not in IDENTITY_FIELDS]
    if unknown:
        raise ConfigError(f"Unknown identity field {', '.join(unknown)}. Choose from {', '.join(IDENTITY_FIELDS)}.")
