"""What a file says about who was recorded, by whom and when: never part of a ``Recording``, given out only by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clocs.core.errors import ConfigError

IDENTITY_FIELDS: Final[dict[str, str]] = {
    "patient_id": "the number or code of the patient",
    "patient_name": "any part of the patient's name",
    "birth_date": "day of birth, as the file has it",
    "contact": "address, telephone, e-mail",
    "physician": "names of physicians who ordered, referred, read or confirmed",
    "operator": "names or codes of who recorded or edited",
    "institution": "hospital, department, room, bed",
    "device_serial": "serial number or network name of the device",
    "order": "numbers of the order, the visit, the study and the file itself",
    "acquired": "day and time of the recording, ISO 8601 where the file's form is understood",
    "free_text": "statements, comments, indications, medications: anything typed",
}
"""Every kind of identifying content that readers tell apart, with what it covers."""

Identity = Mapping[str, tuple[str, ...]]
"""Values by field, each as the file has it; fields without a value are absent."""


def check_identity_fields(names: tuple[str, ...]) -> None:
    """Refuse names that are no identity field."""
    unknown = [name for name in names if name not in IDENTITY_FIELDS]
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: no identity field; there are {', '.join(IDENTITY_FIELDS)}")
