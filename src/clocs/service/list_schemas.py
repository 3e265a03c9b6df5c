"""Response models of the list of recordings."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from clocs.inference.report import GateResult
from clocs.service.schemas import NOTICE, Age, ClassificationResponse, Probability, Sex

SHIFTED = "Under a key, times are shifted by whole weeks per patient: compare only times of one patient."


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeasurementInfo(_Response):
    """A measurement that the list has."""

    name: str = Field(examples=["qrs_duration"])
    title: str = Field(examples=["QRS"])
    unit: str = Field(examples=["ms"])


class ListedClass(_Response):
    """A class with its probability."""

    name: str = Field(examples=["AFIB"])
    probability: Probability


class ListedRecording(_Response):
    """A recording of the store, without ids."""

    handle: str = Field(description="Opaque name of the recording while the service runs.", examples=["r-1f0b6e2d3a4f"])
    acquired: str | None = Field(description="Date and time in ISO 8601. " + SHIFTED, examples=["2020-02-29T08:30:05"])
    age: Age
    sex: Sex | None
    leads: int = Field(description="Number of stored leads.", examples=[12])
    seconds: float
    recordings: int = Field(description="Recordings of this patient in the store.", examples=[3])
    known_patient: bool = Field(description="False if the store does not say whose recording it is.")
    gate: GateResult | None = Field(description="Null if the table does not have the recording.")
    withheld: str = Field(description="Why classes are withheld.", examples=[""])
    measurements: dict[str, float | None] = Field(examples=[{"heart_rate": 72.0}])
    classes: list[ListedClass] = Field(description="The most probable classes.")
    prediction_set: str = Field(description="Classes that cannot be excluded, in words; empty without a set.")


class RecordingsPage(_Response):
    """Recordings of the store, newest first."""

    recordings: list[ListedRecording]
    page: int = Field(examples=[1])
    pages: int = Field(examples=[436])
    total: int = Field(description="Recordings of the store.", examples=[21799])
    shifted: bool = Field(description=SHIFTED)
    measurements: list[MeasurementInfo]
    notice: str = Field(examples=[NOTICE])


class PatientRecordings(_Response):
    """Recordings of one patient, newest first, at most 100."""

    recordings: list[ListedRecording]
    measurements: list[MeasurementInfo]


class ReportedMeasurement(_Response):
    """A measured value, or why there is none."""

    value: float | None
    reason: str = Field(description="Why there is no value.", examples=[""])


class RecordingReport(_Response):
    """Measurements and classes of a recording of the store, computed now."""

    gate: Literal["passed", "withheld"]
    withheld: str = Field(description="Why classes are withheld.", examples=[""])
    measurements: dict[str, ReportedMeasurement]
    classification: ClassificationResponse | None = Field(description="Null if the recording does not fit.")
    notice: str = Field(examples=[NOTICE])
