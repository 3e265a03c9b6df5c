"""The contract of a dataset. A new dataset is one module and one line in the catalogue ``DATASETS``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import to_jsonable_python

from clocs.core.hashes import content_hash
from clocs.core.options import validate_model
from clocs.core.recording import Recording
from clocs.core.registry import Registry
from clocs.core.sources.source import Source
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import Task
from clocs.formats import read_from
from clocs.formats.demographics import Sex, parse_acquired
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

Part = Literal["train", "validation", "test"]


class SplitPolicy(BaseModel):
    """Fractions of the patients in the train, validation and test parts of a split.

    The fractions sum to 1. The number of patients of each part is rounded down.

    Example:
        >>> policy = SplitPolicy(train=0.6, validation=0.2, test=0.2)
        >>> policy.remainder
        'train'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: float = Field(default=0.64, ge=0, le=1)
    """Fraction of patients in the train part, 0 to 1."""
    validation: float = Field(default=0.16, ge=0, le=1)
    """Fraction of patients in the validation part, 0 to 1."""
    test: float = Field(default=0.2, ge=0, le=1)
    """Fraction of patients in the test part, 0 to 1."""
    remainder: Part = "train"
    """Part that receives the patients left over by rounding."""

    @model_validator(mode="after")
    def _sums_to_one(self) -> Self:
        if abs(self.train + self.validation + self.test - 1) > 1e-9:
            raise ValueError(f"fractions must sum to 1, not {self.train + self.validation + self.test:g}")
        return self


class Options(BaseModel):
    """Base class of a dataset's options. A dataset without options uses it as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @property
    def custom_classes(self) -> Mapping[str, tuple[str, ...]]:
        """Classes with their labels that replace the dataset's; empty to keep the dataset's."""
        return {}

    @property
    def custom_tasks(self) -> Mapping[str, Task]:
        """Tasks by name that are added to the dataset's."""
        return {}

    @property
    def is_pseudonymous(self) -> bool:
        """True if recordings and patients are stored under pseudonyms, never beside original names."""
        return False

    def unused_input_warning(self, patients: Callable[[], Container[str]]) -> str:
        """Return a warning about input that matches none of the stored patients; empty if all input is used.

        Args:
            patients: Function that reads the ids of the stored patients, which takes long for a large store.
        """
        return ""

    def recording_options(self) -> dict[str, Any]:
        """Return the options that a recording depends on beside its entry, as JSON. A change reads it again."""
        return self.model_dump(mode="json")

    def digest(self, content: Any) -> str:
        """Return a hash of content that includes names of files and patients, 64 hex digits. A store keeps it."""
        return content_hash(content)


@dataclass(frozen=True)
class Entry:
    """One recording to ingest: its file, and the metadata that tables beside the files hold.

    Values of an entry override those of the file.

    Example:
        >>> entry = Entry("ward/001.xml", patient_id="17", age=64.0, labels=("AFIB",))
        >>> entry.record_id
        ''
    """

    file: str
    """Path of the file within the source."""
    record_id: str = ""
    """Id of the recording; empty to use the file's."""
    patient_id: str = ""
    """Id of the patient; empty to use the record id, so that the recording is its own patient."""
    site: str = ""
    """Hospital or device group; empty to use the file's."""
    age: float | None = None
    """Age in years; None to use the file's."""
    sex: Sex | None = None
    """"female" or "male"; None to use the file's."""
    labels: tuple[str, ...] = ()
    """Labels of the recording; empty to use the file's."""
    extra: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Values of extra columns as text, added to the file's. Absent values are left out."""
    row: int | None = None
    """Position of the recording in a file of many recordings, from 0; None for a file of one recording."""
    acquired: str = ""
    """Date and time of the recording in ISO 8601; empty if unknown. That in the file is not used."""


def load_entry(source: Source, entry: Entry, options: Options) -> Recording:
    """Read the file of an entry and apply the entry's metadata."""
    return apply_entry(read_from(source, entry.file), entry)


def apply_entry(recording: Recording, entry: Entry) -> Recording:
    """Return a recording with the metadata of its entry, which overrides the file's."""
    record_id = entry.record_id or recording.record_id
    return replace(
        recording,
        record_id=record_id,
        patient_id=entry.patient_id or record_id,
        site=entry.site or recording.site,
        age=entry.age if entry.age is not None else recording.age,
        sex=entry.sex or recording.sex,
        acquired=parse_acquired(entry.acquired) or recording.acquired,
        labels=entry.labels or recording.labels,
        extra={**recording.extra, **entry.extra},
    )


def no_redaction(entry: Entry, options: Options) -> Entry:
    """Return the entry unchanged, for datasets with file names that identify no one."""
    return entry


@dataclass(frozen=True)
class Download:
    """A file to download, or with ``listing`` a folder with a ``SHA256SUMS.txt`` that lists its files."""

    url: str
    """Address of the file or folder."""
    name: str = ""
    """Name of the downloaded file; empty to use the last part of the address."""
    checksum: str = ""
    """``sha256:...`` or ``md5:...`` of the file or listing; empty if the publisher gives none. Then the first download
    is recorded, and later downloads must match it (trust on first use)."""
    listing: bool = False
    """True if the address is a folder with a listing."""
    only: tuple[str, ...] = ()
    """With ``listing``: the files, and folders (``folder/``), to download; empty for all."""


@dataclass(frozen=True)
class Dataset:
    """A collection of ECG recordings: where its files are, how they are read, its labels and default policies.

    Example:
        >>> dataset = clocs.DATASETS.get("chapman")
        >>> dataset.licence
        'CC BY 4.0'
        >>> sorted(dataset.classes)
        ['AFIB', 'GSVT', 'SB', 'SR']
        >>> dataset.frame_policies["evaluation"].leads
        ('II', 'V2', 'aVL', 'aVR')
    """

    name: str
    """Name in the registry."""
    title: str
    """Title in one line."""
    licence: str
    """Licence of the data."""
    citation: str
    """Publication to cite; empty if there is none."""
    homepage: str
    """Address of the publisher's page; empty if there is none."""
    entries: Callable[[Source, Any], Iterator[Entry]]
    """Function ``(source, options)`` that lists every recording in a fixed order, without reading signals."""
    load: Callable[[Source, Entry, Any], Recording] = load_entry
    """Function ``(source, entry, options)`` that reads one recording."""
    redact: Callable[[Entry, Any], Entry] = no_redaction
    """Function ``(entry, options)`` that removes identities from an entry before the quarantine list names it."""
    options: type[Options] = Options
    """Class of the dataset's options."""
    needs_source: bool = True
    """False if the recordings do not come from files."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of each class, as the paper groups them. Frames with a label of no class are not instances."""
    tasks: Mapping[str, Task] = field(default_factory=dict)
    """Tasks by name, such as ``super``. Other datasets may use the same name."""
    splits: Mapping[str, PublishedSplit] = field(default_factory=dict)
    """Published splits by name, such as ``folds``."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Description of each class."""
    limitations: tuple[str, ...] = ()
    """Limitations of classifiers that are trained on these labels, one sentence each."""
    frame_policies: Mapping[str, FramePolicy] = field(default_factory=dict)
    """Frame policies by name: ``evaluation`` and, for pre-training, ``segments``."""
    split: SplitPolicy = SplitPolicy()
    """Default fractions of a split."""
    gate: GatePolicy = GatePolicy()
    """Default quality checks."""
    calibrated: bool = True
    """False if leads have no common scale in mV, such as if each lead was scaled separately. Then an ingest measures
    lead order and amplitude but does not judge them."""
    downloads: tuple[Download, ...] = ()
    """Files of the publisher; empty if the dataset cannot be downloaded."""
    expected: Mapping[str, int] = field(default_factory=dict)
    """Expected counts of the complete published dataset."""
    records_per_shard: int = 512
    """Maximum number of recordings in a shard."""
    incremental: bool = False
    """True if files may be added anywhere in the source. Then an ingest reads only new files."""

    def parse_options(self, values: Mapping[str, Any]) -> Options:
        """Validate options.

        Args:
            values: Options by name, as values or as text from the command line.

        Returns:
            The options as an instance of the dataset's options class.

        Raises:
            ConfigError: An option is unknown or invalid. The message lists all errors.
        """
        return validate_model(self.options, values, f"dataset '{self.name}'")

    def describe_options(self) -> dict[str, dict[str, Any]]:
        """Return the default, as JSON, and the meaning of each option."""
        return {
            name: {
                "default": to_jsonable_python(option.get_default(call_default_factory=True)),
                "meaning": " ".join((option.description or "").replace("``", "'").split()),
            }
            for name, option in self.options.model_fields.items()
        }

    def metadata(self, options: Options | None = None) -> dict[str, Any]:
        """Return the metadata of the dataset that a store keeps, as JSON.

        Args:
            options: Options of the ingest, which may replace the classes and add tasks.

        Returns:
            Name, title, licence, citation, homepage, classes, tasks, frame policies and split policy.
        """
        classes = self.classes if options is None else options.custom_classes or self.classes
        tasks = self.tasks if options is None else {**self.tasks, **options.custom_tasks}
        return {
            "name": self.name,
            "title": self.title,
            "licence": self.licence,
            "citation": self.citation,
            "homepage": self.homepage,
            "classes": {name: list(labels) for name, labels in classes.items()},
            "tasks": {name: task.model_dump(mode="json") for name, task in tasks.items()},
            "frame_policies": {name: policy.model_dump(mode="json") for name, policy in self.frame_policies.items()},
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
        "mimic-iv-ecg": "clocs.datasets.mimic_iv_ecg:MIMIC_IV_ECG",
        "code15": "clocs.datasets.code15:CODE15",
        "code-test": "clocs.datasets.code_test:CODE_TEST",
        "samitrop": "clocs.datasets.samitrop:SAMITROP",
        "sph": "clocs.datasets.sph:SPH",
        "echonext": "clocs.datasets.echonext:ECHONEXT",
        "ludb": "clocs.datasets.ludb:LUDB",
        "physionet2021": "clocs.datasets.physionet2021:PHYSIONET2021",
        "ecg-arrhythmia": "clocs.datasets.ecg_arrhythmia:ECG_ARRHYTHMIA",
        "mitdb": "clocs.datasets.mitdb:MITDB",
        "physionet2011": "clocs.datasets.physionet2011:PHYSIONET2011",
        "folder": "clocs.datasets.folder:FOLDER",
        "synthetic": "clocs.datasets.synthetic:SYNTHETIC",
    },
)
