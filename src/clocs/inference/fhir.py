"""Reports as FHIR R4 resources: a bundle of a DiagnosticReport, its Observations and the Device.

Only elements that R4 and R4B share are used. Profiles and terminology are those of the receiving system.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final

from clocs.inference.report import Report
from clocs.measurements.results import TITLES, Measurement

LOINC: Final = "http://loinc.org"
UCUM: Final = "http://unitsofmeasure.org"
ABSENT: Final = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
CATEGORY: Final = "http://terminology.hl7.org/CodeSystem/observation-category"
STATUS: Final = "preliminary"
"""Status of every resource: no physician has confirmed it."""


@dataclass(frozen=True)
class Code:
    """LOINC code of a measurement and UCUM code of its unit."""

    loinc: str
    """LOINC code, listed at ``https://loinc.org/CODE``; empty if no code with this meaning is known."""
    display: str
    """Name of the code in LOINC."""
    ucum: str
    """UCUM code of the unit."""


CODES: Final[dict[str, Code]] = {
    "heart_rate": Code("8867-4", "Heart rate", "/min"),
    "rr_variation": Code("", "", "%"),
    "p_duration": Code("", "", "ms"),
    "pr_interval": Code("8625-6", "P-R Interval", "ms"),
    "qrs_duration": Code("8633-0", "QRS duration", "ms"),
    "qt_interval": Code("8634-8", "Q-T interval", "ms"),
    "qtc_bazett": Code("76635-2", "Q-T interval corrected based on Bazett formula", "ms"),
    "qtc_fridericia": Code("76634-5", "Q-T interval corrected based on Fridericia formula", "ms"),
    "qrs_axis": Code("8632-2", "QRS axis", "deg"),
    "t_axis": Code("", "", "deg"),
}
"""Codes of the measurements: LOINC (https://loinc.org) and UCUM (https://ucum.org)."""
STUDY: Final = Code("11524-6", "EKG study", "")
"""Code of the report."""


def report_to_fhir(report: Report, *, identifier: str = "", order: str = "") -> dict[str, Any]:
    """Return a report as a FHIR R4 bundle.

    Values that were not measured and classes that are withheld have a ``dataAbsentReason`` with the reason.

    Args:
        report: Measurements and classes.
        identifier: Identifier of the patient that the user typed, for ``subject``; empty for none.
        order: Order number that the user typed, for ``basedOn``; empty for none.

    Returns:
        A bundle of type ``collection``, for JSON.
    """
    device = _entry(_device(report))
    shared: dict[str, Any] = {"status": STATUS}
    shared |= {"subject": {"identifier": {"value": identifier}}} if identifier else {}
    shared |= {"basedOn": [{"identifier": {"value": order}}]} if order else {}
    measured = [
        _entry(shared | _observation(name, item, device["fullUrl"]))
        for name, item in report.measurements.values().items()
    ]
    observations = [*measured, _entry(shared | _classes(report, device["fullUrl"]))]
    about = {
        "resourceType": "DiagnosticReport",
        "code": _concept(STUDY, "ECG"),
        "result": [{"reference": entry["fullUrl"]} for entry in observations],
        "conclusion": f"{report.origin.notice} {_gate_text(report)}",
    }
    return {"resourceType": "Bundle", "type": "collection", "entry": [_entry(shared | about), *observations, device]}


def _entry(resource: dict[str, Any]) -> dict[str, Any]:
    return {"fullUrl": f"urn:uuid:{uuid.uuid4()}", "resource": resource}


def _device(report: Report) -> dict[str, Any]:
    origin, found = report.origin, report.classification
    versions = {"package": origin.clocs_version, "encoder SHA-256": origin.encoder_sha256}
    versions |= {"classifier": found.classifier} if found is not None else {}
    return {
        "resourceType": "Device",
        "deviceName": [{"name": f"clocs, encoder {origin.encoder}", "type": "model-name"}],
        "version": [{"type": {"text": name}, "value": value} for name, value in versions.items()],
        "note": [{"text": origin.notice}],
    }


def _observation(name: str, item: Measurement, device: str) -> dict[str, Any]:
    """Return the Observation of a measurement."""
    code, (title, unit) = CODES[name], TITLES[name]
    value: dict[str, Any]
    if item.value is None:
        value = {"dataAbsentReason": _absent("unknown", item.reason)}
    else:
        value = {"valueQuantity": {"value": round(item.value, 1), "unit": unit, "system": UCUM, "code": code.ucum}}
    return _procedure(_concept(code, title), device) | value


def _classes(report: Report, device: str) -> dict[str, Any]:
    """Return the Observation of the classes, one component a class."""
    found = report.classification
    absent = {"dataAbsentReason": _absent("not-performed", report.withheld)} if report.withheld else {}
    if found is None or not found.classes:
        return _procedure({"text": "ECG classes"}, device) | absent
    components = [
        {
            "code": {"text": item.meaning or item.name},
            "valueQuantity": {
                "value": round(item.probability, 4),
                "unit": "probability",
                "system": UCUM,
                "code": "1",
            },
        }
        for item in found.classes
    ]
    said = (_gate_text(report), *filter(None, (found.set_statement,)))
    notes = [{"text": text} for text in (*said, *found.notes, *found.limitations, report.origin.notice)]
    title = {"text": f"ECG classes by classifier {found.classifier}"}
    return _procedure(title, device) | absent | {"component": components, "note": notes}


def _procedure(code: dict[str, Any], device: str) -> dict[str, Any]:
    category = {"coding": [{"system": CATEGORY, "code": "procedure", "display": "Procedure"}]}
    return {
        "resourceType": "Observation",
        "category": [category],
        "code": code,
        "device": {"reference": device},
    }


def _concept(code: Code, text: str) -> dict[str, Any]:
    coding = {"system": LOINC, "code": code.loinc, "display": code.display}
    return {"text": text} | ({"coding": [coding]} if code.loinc else {})


def _absent(code: str, reason: str) -> dict[str, Any]:
    return {"coding": [{"system": ABSENT, "code": code}], "text": reason}


def _gate_text(report: Report) -> str:
    return f"Gate: {report.gate}. {report.withheld}".strip()
