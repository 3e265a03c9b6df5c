"""Response models of the API, with examples for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from clocs.service.rights import Right

NOTICE: Final = "For research. Not a medical device; not a diagnosis."
MAX_FIELD_LENGTH: Final = 64
"""Maximum number of characters of a text field."""
Sex = Literal["female", "male"]
Probability = Annotated[float, Field(ge=0, le=1)]
MapPoint = Annotated[list[float], Field(min_length=2, max_length=2, description="x and y on the map")]

Age = Annotated[
    float | None,
    Field(description="Completed years; completed months below two years; 90 stands for 90 and more.", examples=[63.0]),
]


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Health(_Response):
    """The service is running."""

    status: Literal["ok"]
    version: str = Field(examples=["0.1.0"])


class Ready(Health):
    """The service can parse uploads."""

    confinement: str = Field(examples=["seccomp+landlock 7", "seccomp", "none"])


class Me(_Response):
    """Who asks, and with which rights."""

    rights: list[Right]
    user: str | None = Field(description="User whom a proxy named; null for a token without users.", examples=["anna"])
    token: str | None = Field(description="Name of the token; null for the only one.", examples=["sign-on"])


class ReliabilityBin(_Response):
    """Validation patients with a probability above ``low`` and up to ``high``, and the share that had the class."""

    low: Probability
    high: Probability
    count: int = Field(examples=[120])
    mean_probability: Probability
    observed: Probability


class ClassInfo(_Response):
    """A class of a classifier."""

    name: str = Field(examples=["AFIB"])
    meaning: str = Field(examples=["atrial fibrillation and flutter"])
    prevalence: Probability


class LeadSetInfo(_Response):
    """Leads that a classifier was fitted on, with its results on these leads."""

    leads: list[str] = Field(examples=[["I", "II", "III", "aVR", "aVL", "aVF"]])
    reliability: dict[str, list[ReliabilityBin]] = Field(description="Validation patients by class.")
    validation_auc: float | None = Field(description="Macro AUC of validation recordings.", examples=[0.95])
    test_auc: float | None = Field(description="Macro AUC of test recordings.", examples=[0.95])


class ClassifierInfo(_Response):
    """A classifier of the encoder."""

    name: str = Field(examples=["chapman"])
    title: str = Field(description="Title of the training data.")
    lead_sets: list[LeadSetInfo] = Field(
        description="Leads that it was fitted on, the largest set first. A recording needs all leads of one set."
    )
    multi_label: bool
    classes: list[ClassInfo]
    limitations: list[str]


class IndexInfo(_Response):
    """The index that is searched."""

    patients: int = Field(examples=[300])
    recordings: int = Field(examples=[600])
    kind: str = Field(examples=["exact"])
    labels: list[str] = Field(description="Labels of patients on the map.", examples=[["AFIB", "SR"]])
    sites: list[str] = Field(description="Sites of patients on the map.", examples=[["synthetic"]])


class LimitsInfo(_Response):
    """Limits that a client should know before uploading."""

    upload_bytes: int = Field(examples=[67108864])
    upload_files: int = Field(examples=[16])
    longest_seconds: float = Field(description="Maximum duration for classification and search.", examples=[600.0])
    shown_seconds: float = Field(description="Maximum duration of a preview or picture.", examples=[60.0])


class ModelInfo(_Response):
    """The encoder, its classifiers and the index."""

    encoder: str = Field(examples=["cmsc-chapman"])
    embedding_dim: int = Field(examples=[128])
    sampling_rate: float = Field(description="Hz", examples=[500.0])
    seconds: float = Field(description="Duration of a frame.", examples=[5.0])
    leads: list[str] = Field(examples=[["II", "V2", "aVL", "aVR"]])
    multi_label: bool
    classes: list[ClassInfo]
    limitations: list[str]
    classifiers: list[ClassifierInfo] = Field(description="All classifiers; the fields above describe the first.")
    card: str = Field(description="README of the encoder, in Markdown.")
    index: IndexInfo | None
    recordings: int | None = Field(description="Recordings of the store that is listed.", examples=[21799])
    shows_ids: bool
    embeddings: bool
    prints_times: bool = Field(description="Sheets to print have the time at which the file was recorded.")
    limits: LimitsInfo
    notice: str = Field(examples=[NOTICE])


class PreviewLead(_Response):
    """A lead of a preview."""

    name: str = Field(examples=["aVR"])
    derived: bool = Field(description="Computed from I and II, not in the file.")


class PreviewSignal(_Response):
    """Samples as integers: value = integer x scale of the lead, in the unit of the preview."""

    scale: dict[str, float] = Field(
        description="Scale of each lead: 0.001 mV or one step, more if the values would not fit.",
        examples=[{"II": 0.001}],
    )
    missing: int = Field(description="Value of a missing sample.", examples=[-32768])
    samples: dict[str, list[int]] = Field(examples=[{"II": [12, 15, 21, 30]}])


class Preview(_Response):
    """A recording for drawing."""

    format: str = Field(examples=["muse-xml"])
    sampling_rate: float = Field(description="Hz", examples=[500.0])
    seconds: float = Field(description="Duration of the whole recording.", examples=[10.0])
    shown_seconds: float = Field(description="Duration of the samples in this preview.", examples=[10.0])
    unit: Literal["mV", "adu"]
    age: Age
    sex: Sex | None
    labels: list[str] = Field(description="Labels of a neighbour's recording; empty for uploads.", examples=[["AFIB"]])
    leads: list[PreviewLead]
    signal: PreviewSignal
    notes: list[str]


class ClassProbability(_Response):
    """A class with its probability."""

    name: str = Field(examples=["AFIB"])
    meaning: str = Field(examples=["atrial fibrillation and flutter"])
    probability: Probability
    prevalence: Probability = Field(description="Share of training patients with the class.")
    validation: ReliabilityBin | None = Field(description="Validation patients with a probability in the same range.")
    track_record: str = Field(examples=["of 120 validation patients with 80 to 90%, 78% had it"])
    local_record: str = Field(
        description="The same in your hospital; empty unless the classifier was calibrated there.",
        examples=["in your hospital, of 23 patients with 80 to 90%, 83% had it (95% interval 63% to 93%)"],
    )


class ClassificationResponse(_Response):
    """Class probabilities, the most probable class first."""

    request_id: str = Field(description="To report a wrong result with.", examples=["8c1f0b6e2d3a4f57"])
    classifier: str = Field(description="Its name.", examples=["chapman"])
    leads: list[str] = Field(description="Leads that were used.", examples=[["I"]])
    multi_label: bool
    classes: list[ClassProbability] = Field(description="Empty if they are withheld.")
    prediction_set: list[str] | None = Field(
        description="Classes that cannot be excluded at 95 %; null if they are withheld or not exclusive.",
        examples=[["AFIB", "SR"]],
    )
    set_statement: str = Field(
        description="The same in words, empty without a set.",
        examples=["cannot tell apart: AFIB (atrial fibrillation), SR (sinus rhythm)"],
    )
    limitations: list[str]
    notes: list[str]
    findings: list[str] = Field(description="Findings that need no classifier.", examples=[["paced"]])
    withheld: list[str] = Field(
        description="Why classes are withheld; empty if they are not.",
        examples=[["heartbeats cannot be measured: no clear beats"]],
    )
    notice: str = Field(examples=[NOTICE])


class VerdictSaved(_Response):
    """The verdict is in the service's file."""

    request_id: str = Field(description="Id of the request for classes.", examples=["8c1f0b6e2d3a4f57"])


class MeasuredValue(_Response):
    """A measurement, its spread, what the file states, and the normal range where one holds."""

    name: str = Field(examples=["pr_interval"])
    title: str = Field(examples=["PR"])
    unit: str = Field(examples=["ms"])
    value: float | None = Field(examples=[164.0])
    beat_spread: float | None = Field(description="Spread over single beats, as a standard deviation.")
    lead_spread: float | None = Field(description="Spread over single leads, as a standard deviation.")
    reason: str = Field(description="Why there is no value; empty if there is one.")
    stated: float | None = Field(description="Value that the file states; null if it states none.", examples=[160.0])
    low: float | None = Field(description="Lower end of the normal range of adults.", examples=[120.0])
    high: float | None = Field(description="Upper end of it.", examples=[200.0])
    position: Literal["below", "within", "above"] | None = Field(description="Null without a range or a value.")
    source: str = Field(description="Publication of the range.")


class MedianBeat(_Response):
    """The median beat, in microvolt, with the marks of its waves."""

    sampling_rate: float = Field(description="Hz", examples=[500.0])
    samples: dict[str, list[int]] = Field(examples=[{"II": [12, 15, 21, 30]}])
    marks: dict[str, float] = Field(description="Samples from the start.", examples=[{"qrs_onset": 180.5}])


class MeasurementsResponse(_Response):
    """Measurements of all leads together."""

    values: list[MeasuredValue]
    regular: bool | None
    num_beats: int
    paced: bool
    leads: list[str] = Field(description="Leads that were used.", examples=[["I", "II"]])
    beat: MedianBeat | None
    notice: str = Field(examples=[NOTICE])


class LeadSimilarity(_Response):
    """Similarity of one lead: cosine of its embeddings."""

    lead: str = Field(examples=["II"])
    similarity: float = Field(examples=[0.97])


class SimilarPatient(_Response):
    """A patient similar to the query. Ids are present only if the service was started with --show-ids."""

    handle: str = Field(examples=["p-3f9c0d6c1f2e4b5a6d70"])
    similarity: float = Field(examples=[0.93])
    distance: float = Field(examples=[0.07])
    labels: list[str] = Field(description="Labels of all recordings of the patient.", examples=[["AFIB"]])
    age: Age
    sex: Sex | None
    site: str = Field(examples=["synthetic"])
    recordings: int
    why: list[LeadSimilarity]
    map: MapPoint | None
    patient_id: str | None = None
    record_id: str | None = None


class QueryPosition(_Response):
    """Position of the query on the map."""

    map: MapPoint | None


class SimilarResponse(_Response):
    """Patients similar to the query, the most similar first."""

    neighbours: list[SimilarPatient]
    num_hidden: int = Field(
        description="Number of patients among the k nearest that are hidden, because they are too distant.",
        examples=[0],
    )
    query: QueryPosition
    notes: list[str]
    notice: str = Field(examples=[NOTICE])


class MapResponse(_Response):
    """Patients of the index on a map, without ids; a fixed random sample of at most 5,000."""

    method: Literal["pca"]
    explained: list[Probability] = Field(min_length=2, max_length=2, examples=[[0.31, 0.12]])
    points: list[MapPoint]
    label: list[str] = Field(description="First label of each point, or empty.")
    age: list[Age]
    sex: list[Sex | None]
    site: list[str]


class EmbeddingResponse(_Response):
    """Embeddings of a recording. They are personal data."""

    embedding: list[float] = Field(description="Mean over all leads and frames.")
    rows: list[list[float]]
    leads: list[str] = Field(description="Lead of each row.")
    start: list[float] = Field(description="Start of each row, in seconds.")
    notes: list[str]


class ProblemDetails(_Response):
    """An error response (RFC 9457)."""

    type: str = Field(examples=["/problems/unreadable-file"])
    title: str = Field(examples=["The file cannot be read as an ECG"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["not a format clocs knows (wfdb, chapman-csv, ...)"])
    instance: str = Field(description="Id of the request.", examples=["8c1f0b6e2d3a4f57"])


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of an endpoint's error responses."""
    known = {
        400: "The body is malformed or contains no file",
        401: "A token is required",
        403: "Disabled, or requested by a page of another site",
        404: "Not found",
        408: "The body took too long",
        413: "The body is too large",
        415: "Not multipart/form-data",
        421: "The host name is not accepted",
        422: "The file or an option is invalid",
        500: "Internal error of the service",
        501: "A required package is not installed",
        503: "Busy (with Retry-After), or index or audit log unavailable",
        504: "Reading the file took too long",
    }
    schema = {"$ref": "#/components/schemas/ProblemShown"}
    return {
        status: {"description": known[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }


NO_TOKEN: Final[dict[str, Any]] = {"security": []}
"""OpenAPI fields of endpoints that need no token."""


def fields_body(*fields: str) -> dict[str, Any]:
    """Return the OpenAPI fields of an endpoint with optional text fields, which ``uploads`` reads instead of the
    framework.

    Args:
        fields: Names of text fields of the body.
    """
    schema = {"type": "object", "properties": _texts(fields), "additionalProperties": False}
    return {"requestBody": {"required": False, "content": {"multipart/form-data": {"schema": schema}}}}


def upload_body(*fields: str) -> dict[str, Any]:
    """Return the OpenAPI fields of an endpoint with an upload, which ``uploads`` reads instead of the framework.

    Args:
        fields: Names of text fields of the body.
    """
    files = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "format": "binary"},
        "description": "One ECG: a file, a WFDB header with its signal file, or a zip of these.",
    }
    schema = {"type": "object", "required": ["files"], "properties": {"files": files, **_texts(fields)}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _texts(fields: Sequence[str]) -> dict[str, Any]:
    return {name: {"type": "string", "maxLength": MAX_FIELD_LENGTH} for name in fields}


UPLOAD_BODY: Final = upload_body()
"""OpenAPI fields of endpoints that take only files."""
