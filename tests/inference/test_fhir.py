"""Reports as FHIR: valid for an independent model of R4B, complete, and honest about absent values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import clocs
from clocs.inference.fhir import CODES, report_to_fhir
from clocs.inference.report import NOTICE, Report, ReportOrigin
from clocs.inference.results import Classification, ClassProbability
from clocs.measurements.results import NAMES, TITLES
from tests.measurements.test_measurements import simulated

ORIGIN = ReportOrigin("1.2.3", "small", "ab" * 32)
CLASSES = tuple(ClassProbability(name, f"meaning of {name}", p, 0.1, None) for name, p in (("AFIB", 0.8), ("SR", 0.2)))
FOUND = Classification("mine", ("I", "II"), CLASSES, False, ("It has seen no paced rhythm.",), ("lead V1 not used",))


@pytest.fixture(scope="module")
def measured() -> Any:
    signal, _ = simulated("AFIB", leads=("I", "II"))
    return clocs.measure(signal, 500, ("I", "II"))


def resources(bundle: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [entry["resource"] for entry in bundle["entry"]]
    return [resource for resource in found if resource["resourceType"] == kind]


def test_the_codes_cover_the_measurements() -> None:
    assert set(CODES) == set(NAMES) == set(TITLES)
    codes = [code.loinc for code in CODES.values() if code.loinc]
    assert len(set(codes)) == len(codes)
    for code in codes:  # the last digit of a LOINC code is a check digit (Luhn, modulo 10)
        digits = [int(digit) for digit in code.replace("-", "")]
        doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(digits[::-1])]
        assert sum(doubled) % 10 == 0, code


@pytest.mark.parametrize("withheld", ["", "the recording is not embedded: flat"])
def test_a_bundle_is_valid_and_complete(measured: Any, withheld: str) -> None:
    bundle_model = pytest.importorskip("fhir.resources.R4B.bundle").Bundle
    report = Report(ORIGIN, measured, None if withheld else FOUND, withheld)
    bundle = report_to_fhir(report, identifier="K-4711", order="A-12")
    assert json.loads(bundle_model.model_validate(bundle).model_dump_json()) == bundle
    (about,), (device,) = resources(bundle, "DiagnosticReport"), resources(bundle, "Device")
    observations = resources(bundle, "Observation")
    assert {item["status"] for item in (about, *observations)} == {"preliminary"}
    assert all(item["subject"] == {"identifier": {"value": "K-4711"}} for item in (about, *observations))
    assert about["basedOn"] == [{"identifier": {"value": "A-12"}}]
    urls = [entry["fullUrl"] for entry in bundle["entry"] if entry["resource"]["resourceType"] == "Observation"]
    assert [item["reference"] for item in about["result"]] == urls
    assert NOTICE in about["conclusion"]
    assert f"Gate: {'withheld' if withheld else 'passed'}." in about["conclusion"]
    versions = {item["type"]["text"]: item["value"] for item in device["version"]}
    assert versions == {"package": "1.2.3", "encoder SHA-256": "ab" * 32} | ({} if withheld else {"classifier": "mine"})


def test_absent_values_have_a_reason(measured: Any) -> None:
    bundle = report_to_fhir(Report(ORIGIN, measured, None, "too short"))
    observations = {item["code"]["text"]: item for item in resources(bundle, "Observation")}
    rate, pr = observations["heart rate"], observations["PR"]
    assert rate["valueQuantity"]["value"] == pytest.approx(measured.heart_rate.value, abs=0.06)
    assert rate["valueQuantity"]["code"] == "/min"
    assert measured.pr_interval.value is None
    assert pr["dataAbsentReason"]["text"] == measured.pr_interval.reason
    assert "valueQuantity" not in pr
    classes = observations["ECG classes"]
    assert classes["dataAbsentReason"]["coding"][0]["code"] == "not-performed"
    assert classes["dataAbsentReason"]["text"] == "too short"
    assert "component" not in classes
    assert not any("subject" in item or "basedOn" in item for item in resources(bundle, "Observation"))


def test_classes_are_components(measured: Any) -> None:
    bundle = report_to_fhir(Report(ORIGIN, measured, FOUND, ""))
    *_, classes = resources(bundle, "Observation")
    values = {item["code"]["text"]: item["valueQuantity"]["value"] for item in classes["component"]}
    assert values == {"meaning of AFIB": 0.8, "meaning of SR": 0.2}
    texts = [note["text"] for note in classes["note"]]
    assert {"lead V1 not used", "It has seen no paced rhythm.", NOTICE} <= set(texts)
    assert not any("tell apart" in text for text in texts)


def test_a_prediction_set_is_a_note(measured: Any) -> None:
    found = replace(FOUND, prediction_set=("AFIB", "SR"))
    *_, classes = resources(report_to_fhir(Report(ORIGIN, measured, found, "")), "Observation")
    said = "cannot tell apart: AFIB (meaning of AFIB), SR (meaning of SR)"
    assert said in [note["text"] for note in classes["note"]]
