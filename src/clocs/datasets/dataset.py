"""What a dataset is: data and two small functions. A new one is one file and one catalogue line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import to_jsonable_python

from clocs.core.errors import FormatError
from clocs.core.files import content_hash
from clocs.core.options import validate_model
from clocs.core.recording import Recording
from clocs.core.registry import Registry
from clocs.core.sources import Source
from clocs.formats import read_from
from clocs.formats.demographics import Sex
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

Part = Literal["train", "validation", "test"]


class SplitPolicy(BaseModel):
    """Shares of the patients; rounded down, with what is left over going to ``remainder``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: float = Field(default=0.64, ge=0, le=1)
    validation: float = Field(default=0.16, ge=0, le=1)
    test: float = Field(default=0.2, ge=0, le=1)
    remainder: Part = "train"

    @model_validator(mode="after")
    def _sums_to_one(self) -> Self:
        if abs(self.train + self.validation + self.test - 1) > 1e-9:
            raise ValueError(f"shares must sum to 1, not {self.train + self.validation + self.test:g}")
        return self


class Options(BaseModel):
    """Options a dataset takes; none unless it says so."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @property
    def own_classes(self) -> Mapping[str, tuple[str, ...]]:
        """Classes with their labels, in place of the dataset's; empty: the dataset's."""
        return {}

    @property
    def pseudonymous(self) -> bool:
        """Whether recordings and patients come under pseudonyms, so that names must not lie beside them."""
        return False

    def unused(self, patients: Container[str]) -> str:
        """What was given and is about none of these patients, who are all that were stored; empty: nothing."""
        return ""

    def of_recordings(self) -> dict[str, Any]:
        """As JSON, what of them a recording depends on beyond its entry: with other ones it is read again."""
        return self.model_dump(mode="json")

    def digest(self, told: Any) -> str:
        """A hash of what names files and patients, 64 hex signs; it stands in a store."""
        return content_hash(told)


@dataclass(frozen=True)
class Entry:
    """One recording to be ingested: its file, and what tables beside the files say about it."""

    file: str
    record_id: str = ""
    """Empty: the file's own."""
    patient_id: str = ""
    """Empty: the record id, one patient a recording."""
    site: str = ""
    age: float | None = None
    sex: Sex | None = None
    labels: tuple[str, ...] = ()
    """Empty: the file's own."""


def load_entry(source: Source, entry: Entry, options: Options) -> Recording:
    """Read an entry's file and add what its table says."""
    return with_entry(read_from(source, entry.file), entry)


def with_entry(recording: Recording, entry: Entry) -> Recording:
    """A recording with what its entry says, which goes before what the file says; of nobody, a patient of its own."""
    record_id = entry.record_id or recording.record_id
    return replace(
        recording,
        record_id=record_id,
        patient_id=entry.patient_id or record_id,
        site=entry.site or recording.site,
        age=entry.age if entry.age is not None else recording.age,
        sex=entry.sex or recording.sex,
        labels=entry.labels or recording.labels,
    )


def as_it_is(entry: Entry, options: Options) -> Entry:
    """For datasets whose names say nothing about anybody."""
    return entry


@dataclass(frozen=True)
class Download:
    """A publisher's file, or with ``listing`` a folder whose files its SHA256SUMS.txt lists."""

    url: str
    name: str = ""
    """What to call the file; empty: the last part of its address."""
    checksum: str = ""
    """``sha256:...`` or ``md5:...`` of the file, or of the listing; empty: the publisher states none, and
    the first download is recorded and later ones held to it (trust on first use)."""
    listing: bool = False
    only: tuple[str, ...] = ()
    """With ``listing``: just these files, and those below these folders (``folder/``)."""


@dataclass(frozen=True)
class Dataset:
    """A collection of recordings with its layout, labels and policies."""

    name: str
    title: str
    licence: str
    citation: str
    homepage: str
    entries: Callable[[Source, Any], Iterator[Entry]]
    """Every recording of a source, in a fixed order, without reading signals."""
    load: Callable[[Source, Entry, Any], Recording] = load_entry
    redact: Callable[[Entry, Any], Entry] = as_it_is
    """An entry as the list of refused recordings may name it."""
    options: type[Options] = Options
    needs_source: bool = True
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The paper's grouping: class -> labels. Frames whose label is in no class are not instances."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Class -> what it is, in words."""
    limitations: tuple[str, ...] = ()
    """What a classifier trained on these labels cannot know, a sentence each."""
    frames: Mapping[str, FramePolicy] = field(default_factory=dict)
    """By purpose: ``evaluation`` and, where there is pre-training, ``segments``."""
    split: SplitPolicy = SplitPolicy()
    gate: GatePolicy = GatePolicy()
    downloads: tuple[Download, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    """Counts of the whole published set."""
    records_per_shard: int = 512
    grows: bool = False
    """Whether sources grow at any place: what is new is then read alone, and what was read before is kept."""

    def parse_options(self, given: Mapping[str, Any]) -> Options:
        """Check options given as text or values; all that is wrong is said at once."""
        return validate_model(self.options, given, f"dataset '{self.name}'")

    def describe_options(self) -> dict[str, dict[str, Any]]:
        """For each option its default, as JSON, and what it means."""
        return {
            name: {
                "default": to_jsonable_python(option.get_default(call_default_factory=True)),
                "meaning": " ".join((option.description or "").replace("``", "'").split()),
            }
            for name, option in self.options.model_fields.items()
        }

    def metadata(self, options: Options | None = None) -> dict[str, Any]:
        """What a store keeps of its dataset, as JSON."""
        classes = self.classes if options is None else options.own_classes or self.classes
        return {
            "name": self.name,
            "title": self.title,
            "licence": self.licence,
            "citation": self.citation,
            "homepage": self.homepage,
            "classes": {name: list(labels) for name, labels in classes.items()},
            "frames": {purpose: policy.model_dump(mode="json") for purpose, policy in self.frames.items()},
            "split": self.split.model_dump(mode="json"),
        }


DATASETS: Registry[Dataset] = Registry(
    "dataset",
    {
        "chapman": "clocs.datasets.chapman:CHAPMAN",
        "physionet2020": "clocs.datasets.physionet2020:PHYSIONET2020",
        "physionet2017": "clocs.datasets.physionet2017:PHYSIONET2017",
        "cardiology": "clocs.datasets.cardiology:CARDIOLOGY",
        "ptbxl": "clocs.datasets.ptbxl:PTBXL",
        "ludb": "clocs.datasets.ludb:LUDB",
        "folder": "clocs.datasets.folder:FOLDER",
        "synthetic": "clocs.datasets.synthetic:SYNTHETIC",
    },
)


def find_table(source: Source, *file_names: str) -> str | None:
    """The first of these files that lies anywhere in a source."""
    found = {name.rsplit("/", 1)[-1]: name for name in source.names() if name.endswith(file_names)}
    return next((found[name] for name in file_names if name in found), None)


def read_csv(
    source: Source, name: str, columns: tuple[str, ...] = (), needed: tuple[str, ...] = ()
) -> Iterator[dict[str, str]]:
    """Rows of a CSV table; its header line names the columns unless they are given. Those ``needed`` are there."""
    for line, row in numbered_rows(source, name, columns):
        absent = [column for column in needed if row.get(column) is None]
        if absent or None in row:
            reason = f"has no {', '.join(absent)}" if absent else "has more values than the table has columns"
            raise FormatError(f"{name}: unlike the published table: line {line} {reason}")
        yield {column: value or "" for column, value in row.items()}


def numbered_rows(source: Source, name: str, columns: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """As ``read_csv``, each with the line of the file that it ends on, counted from 1."""
    last = 0
    try:
        text = source.read(name).decode("utf-8-sig")
        if "\0" in text:
            raise FormatError(f"{name}: holds NUL bytes, so it is damaged or no text. It must be saved as CSV in UTF-8")
        rows = csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns or None, strict=True)
        named = [column.strip() for column in rows.fieldnames or () if column.strip()]
        twice = sorted({column for column in named if named.count(column) > 1})
        if twice:
            raise FormatError(f"{name}: two columns are called '{twice[0]}'; leave one of them")
        last = rows.line_num
        for row in rows:
            last = rows.line_num
            yield last, row
    except csv.Error as error:
        raise FormatError(
            f"{name}: line {last + 1} has a quote that is not closed, or text after a closing one ({error}). Close it, "
            'and write a quote within a value twice ("")'
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: not a readable CSV table: {error}. It must be saved as CSV in UTF-8") from error
