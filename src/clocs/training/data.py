"""What a run trains on: the stores, their splits and frames, and the order of batches."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ConfigError, LeakError
from clocs.core.files import content_hash
from clocs.core.options import validate_model
from clocs.core.run_identity import changed_values
from clocs.core.seeds import derived_seed
from clocs.methods import METHODS, Method, PatientContrast, Supervised
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS, canonical_lead
from clocs.store.duplicates import Ints, Keys, lead_keys, patient_keys, signal_keys
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.batches import Batches, policy_for_views
from clocs.training.config import PretrainConfig
from clocs.training.frame_dataset import FrameDataset
from clocs.training.labels import no_classes_message, sample_items, sample_patients
from clocs.training.sampler import AlternatingSampler, PatientSampler, RepeatedSampler, Sampler, ShuffledSampler
from clocs.training.seen_recordings import seen_keys


@dataclass(frozen=True)
class TrainingStore:
    """One store, with its split and the frames that are cut from it."""

    store: Store
    split: Split
    policy: FramePolicy

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of store and split."""
        return {"store_sha256": self.store.sha256, "split_sha256": self.split.sha256}

    @property
    def origin(self) -> dict[str, str]:
        """Hashes of all that decides which frames a run sees: store, split and frame policy."""
        return {**self.hashes, "policy_sha256": content_hash(changed_values(self.policy))}

    @property
    def name(self) -> str:
        """The dataset's."""
        return str(self.store.manifest.dataset["name"])


@dataclass
class TrainingData:
    """The two parts a loop draws from."""

    train: Batches
    validation: Batches
    sampler: Sampler


def open_training_stores(config: PretrainConfig) -> tuple[TrainingStore, ...]:
    """Return the config's store, then those trained on together with it, whose frames are as long and as fast."""
    name = config.method["name"]
    if config.extra_stores and METHODS.get(name).needs_labels:
        raise ConfigError(f"more_stores: {name} needs labels, and those of several stores are not the same")
    if config.alternate_stores and (not config.extra_stores or config.instances_per_patient):
        raise ConfigError("take_turns: stores take turns where there are more_stores, and without same_patient")
    first = open_training_store(config)
    if METHODS.get(name).needs_labels and not first.store.manifest.dataset["classes"]:
        raise ConfigError(f"{name} needs labels, but {no_classes_message(first.store)}")
    parts = (first, *(_as_first(first, config, folder) for folder in config.extra_stores))
    if config.extra_stores:
        _refuse_overlap(parts)
    return parts


def _refuse_overlap(parts: tuple[TrainingStore, ...]) -> None:
    """A recording or a patient of two stores would be taken for two, and might train as well as validate."""
    for alike in zip(*(_known(part.store) for part in parts), strict=True):
        for one, other in itertools.combinations(alike, 2):
            shared = np.intersect1d(one.keys[one.keys > 0], other.keys)
            if len(shared):
                names = " and ".join(f"'{known.holder(shared[0])}'" for known in (one, other))
                raise LeakError(
                    f"more_stores: {len(shared)} {one.what} are in {one.store.folder} as well as in "
                    f"{other.store.folder}, such as those of {names}. Ingest them into one store, whose split keeps "
                    "them together"
                )


@dataclass(frozen=True)
class _Known:
    """By what recordings of a store are known elsewhere: their numbers, and a key each."""

    what: str
    store: Store
    records: Ints
    keys: Keys

    def holder(self, key: np.uint64) -> str:
        """The first recording with this key."""
        return str(self.store.table(["record_id"]).column(0)[int(self.records[np.argmax(self.keys == key)])])


def _known(store: Store) -> Iterator[_Known]:
    """Single leads come last, since all samples are read for them: they tell an ECG with other leads beside them."""
    every = np.arange(len(store))
    yield _Known("signals", store, every, signal_keys(store))
    yield _Known("patients", store, every, patient_keys(store))
    yield _Known("leads", store, *lead_keys(store, np.ones(len(store), bool), all_leads=True))


def open_training_store(config: PretrainConfig) -> TrainingStore:
    """Return the config's store with the frame policy that the method takes, and the config's changes to it."""
    store = open_store(config.store)
    changes = {**config.frames, **({"leads": config.leads} if config.leads else {})}
    own = store.frame_policy(METHODS.get(config.method["name"]).frame_policy)
    policy = validate_model(FramePolicy, {**own.model_dump(), **changes}, "frames")
    if changes.get("leads"):
        policy = policy.model_copy(update={"leads": _leads(store, policy.leads)})
    return TrainingStore(store, store.split(config.split), policy)


def _as_first(first: TrainingStore, config: PretrainConfig, folder: Path) -> TrainingStore:
    """Frames as of the first store, of the leads that the paper takes from this one."""
    if first.policy.sampling_rate is None:
        raise ConfigError("more_stores: the first store's frames have no stated rate, so others cannot be cut alike")
    store = open_store(folder)
    own = store.frame_policy("evaluation")
    leads = _leads(store, config.leads) if config.leads else own.leads
    policy = first.policy.model_copy(update={"leads": leads, "excluded_leads": own.excluded_leads})
    return TrainingStore(store, store.split(config.split), policy)


def _leads(store: Store, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Leads as the store spells them; one that none of its recordings has, or gives, would be left out unsaid."""
    there = store.leads()
    named = tuple(lead if lead in there else canonical_lead(lead) for lead in wanted)
    if len(set(named)) < len(named):
        raise ConfigError(f"leads: one is named twice: {', '.join(named)}")
    absent = [f"'{lead}'" for lead in named if lead not in there]
    if absent:
        known = [lead for lead in STANDARD_LEADS if lead in there] + sorted(there.difference(STANDARD_LEADS))
        raise ConfigError(
            f"leads: no recording of {store.folder} has {', '.join(absent)}; there are {', '.join(known) or 'none'}"
        )
    return named


def describe_stores(parts: tuple[TrainingStore, ...]) -> dict[str, Any]:
    """Return hashes and frame policy of the first store, and of the others under ``extra_stores``."""
    more = [{**part.hashes, "policy": part.policy.model_dump(mode="json")} for part in parts[1:]]
    told: dict[str, Any] = {**parts[0].hashes, "policy": parts[0].policy.model_dump(mode="json")}
    return {**told, "extra_stores": more} if more else told


def seen_keys_of_stores(parts: tuple[TrainingStore, ...]) -> Keys:
    """Signals of all stores that train, or decide when to stop."""
    return np.unique(np.concatenate([seen_keys(part.store, part.split) for part in parts]))


def build_training_data(config: PretrainConfig, method: Method, parts: tuple[TrainingStore, ...]) -> TrainingData:
    """Return the batches of both parts of the split, and the order in which training takes them."""
    trained, validated = _records(config, parts)
    datasets = _datasets(method, parts, trained)
    train = Batches(datasets, [part.policy for part in parts], method, config.seed)
    _refuse_channels(method, parts, datasets)
    _refuse_views(config, method, parts, train)
    together = takes_all_leads(method)
    alike = tuple(replace(part, policy=_with_leads(part, data)) for part, data in zip(parts, datasets, strict=True))
    validating = _datasets(method, alike if together else parts, validated)
    validation = Batches(validating, [part.policy for part in parts], method, config.seed)
    _warn_of_one_patient(config, method, validation)
    if method.needs_labels:
        _refuse_labels(method, parts[0].store, {"training": datasets[0], "validation": validating[0]})
    return TrainingData(train, validation, _sampler(config, train))


def takes_all_leads(method: Method) -> bool:
    """Return whether a frame comes with all its leads: as views, or as channels of the encoder."""
    return method.leads_as_views or method.encoder.in_channels > 1


def _records(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> tuple[list[Any], list[Any]]:
    """Masks of the recordings that train and that validate, for each store."""
    trained = [part.split.mask("train") for part in parts]
    if config.patient_fraction < 1:
        trained = [
            sample_patients(part.store, records, config.patient_fraction, derived_seed(config.seed, "patients"))
            for part, records in zip(parts, trained, strict=True)
        ]
    if config.label_fraction < 1 and config.label_unit == "patients":
        trained = [sample_patients(parts[0].store, trained[0], config.label_fraction, config.seed)]
    validated = [part.split.mask("validation") for part in parts]
    for part, masks in zip(parts, zip(trained, validated, strict=True), strict=True):
        empty = [name for name, mask in zip(("training", "validation"), masks, strict=True) if not mask.any()]
        if empty:
            raise ConfigError(f"split '{part.split.name}' of {part.store.folder} has nobody in its {empty[0]} part")
    return trained, validated


def _sampler(config: PretrainConfig, train: Batches) -> Sampler:
    """The order in which training takes its items."""
    sampler: Sampler
    if config.label_fraction < 1 and config.label_unit == "frames":
        chosen = sample_items(len(train), config.label_fraction, config.seed)
        sampler = ShuffledSampler(len(train), config.batch_size, config.seed, chosen)
    elif config.alternate_stores and len(train.datasets) > 1:
        sampler = AlternatingSampler(train.sizes, config.batch_size, config.seed)
    elif config.instances_per_patient:
        patients = train.patients(np.arange(len(train)))
        sampler = PatientSampler(patients, config.batch_size, config.instances_per_patient, config.seed)
    else:
        sampler = ShuffledSampler(len(train), config.batch_size, config.seed)
    return RepeatedSampler(sampler, config.passes_per_epoch) if config.passes_per_epoch > 1 else sampler


def _datasets(method: Method, parts: tuple[TrainingStore, ...], records: list[Any]) -> list[FrameDataset]:
    made = []
    for part, chosen in zip(parts, records, strict=True):
        policy = policy_for_views(part.policy, method)
        made.append(FrameDataset(part.store, policy=policy, records=chosen, all_leads=takes_all_leads(method)))
    return made


def _with_leads(part: TrainingStore, dataset: FrameDataset) -> FramePolicy:
    """So that leads that come together are the same in both parts, whatever is the commonest in each."""
    return part.policy.model_copy(update={"leads": dataset.leads})


def _refuse_channels(method: Method, parts: tuple[TrainingStore, ...], datasets: list[FrameDataset]) -> None:
    """Refuse frames of another number of leads than an encoder of several leads takes."""
    channels = method.encoder.in_channels
    if channels == 1:
        return
    for part, dataset in zip(parts, datasets, strict=True):
        if len(dataset.leads) != channels:
            raise ConfigError(
                f"encoder.in_channels={channels}, but frames of {part.store.folder} have {len(dataset.leads)} lead(s): "
                f"{', '.join(dataset.leads)}. Name the leads, as in leads=I,II,V1, or change encoder.in_channels."
            )


def _warn_of_one_patient(config: PretrainConfig, method: Method, validation: Batches) -> None:
    """Warn where the validation loss means nothing, because it has one patient to compare with nobody."""
    if isinstance(method, PatientContrast) and len(np.unique(validation.patients(np.arange(len(validation))))) < 2:
        warnings.warn(
            f"the validation part has one patient, and {config.method['name']} tells patients apart: which epoch is "
            "kept as the best is left to chance. Take more patients, or a split with more of them there",
            stacklevel=2,
        )


def _refuse_labels(method: Method, store: Store, parts: dict[str, FrameDataset]) -> None:
    """Refuse labels that the loss cannot take before training, not at the first batch that has them."""
    if not isinstance(method, Supervised) or method.multi_label:
        return
    for part, dataset in parts.items():
        wrong = np.flatnonzero(dataset.frames.targets(np.arange(len(dataset))).sum(1) != 1)
        if len(wrong):
            record = store.table(["record_id"]).column(0)[int(dataset.locate(wrong[:1])[0][0])]
            raise ConfigError(
                f"{len(wrong)} of {len(dataset)} instances of the {part} part of {store.folder} do not have exactly "
                f"one class, such as those of '{record}'. Set method.multi_label=true, which takes none or several, or "
                "give the store classes of which each recording has one"
            )


def _refuse_views(config: PretrainConfig, method: Method, parts: tuple[TrainingStore, ...], train: Batches) -> None:
    """Refuse views that the loss cannot compare before training, not at its first step."""
    name, firsts = config.method["name"], np.cumsum([0, *train.sizes])[:-1]
    counts = [train.make(np.array([first], np.int64), 0, "train", 0, 0)["views"].shape[1] for first in firsts]
    for part, dataset, views in zip(parts, train.datasets, counts, strict=True):
        needed = method.unsupported_frames(part.policy.num_segments, views)
        if needed is not None:
            raise ConfigError(
                f"{name} takes {needed}, but an instance of {part.store.folder} has {views} view(s): "
                f"{part.policy.num_segments} segment(s) a frame, lead(s) {', '.join(dataset.leads)}. "
                "Change frames.segments or leads, or take another method."
            )
    if len(set(counts)) > 1:
        told = ", ".join(f"{count} in {part.store.folder}" for part, count in zip(parts, counts, strict=True))
        raise ConfigError(
            f"more_stores: instances must have as many views in every store, but {name} makes {told}. "
            "Name leads that all have; CMSMLC may draw a lead for each segment: method.view_choice=random_pair"
        )
