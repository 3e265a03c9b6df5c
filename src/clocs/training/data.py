"""Training data of a run: stores with their splits and frames, batches, and the order of batches."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash
from clocs.core.options import validate_model
from clocs.core.run_identity import non_default_values
from clocs.core.seeds import derived_seed
from clocs.methods import METHODS, Method, PatientContrast, Supervised
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS, canonical_lead
from clocs.store.duplicates import Keys
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.batches import Batches, BatchSource, policy_for_views
from clocs.training.block_sampler import BlockSampler
from clocs.training.config import PretrainConfig
from clocs.training.frame_dataset import FrameDataset
from clocs.training.labels import no_classes_message, sample_items, sample_patients
from clocs.training.sampler import AlternatingSampler, PatientSampler, RepeatedSampler, Sampler, ShuffledSampler
from clocs.training.seen_recordings import seen_keys
from clocs.training.shard_schedule import ShardSchedule
from clocs.training.store_overlap import refuse_shared_recordings


@dataclass(frozen=True)
class TrainingStore:
    """A store to train on, with its split and frame policy."""

    store: Store
    """The store."""
    split: Split
    """Its split into training, validation and test patients."""
    policy: FramePolicy
    """Frame policy by which frames are cut."""

    @property
    def hashes(self) -> dict[str, str]:
        """Return the hashes of store and split."""
        return {"store_sha256": self.store.sha256, "split_sha256": self.split.sha256}

    @property
    def origin(self) -> dict[str, str]:
        """Return the hashes of store, split and frame policy, which determine the frames of a run."""
        return {**self.hashes, "policy_sha256": content_hash(non_default_values(self.policy))}

    @property
    def name(self) -> str:
        """Return the name of the dataset."""
        return str(self.store.manifest.dataset["name"])


class LoopData(Protocol):
    """Data that the training loop reads."""

    @property
    def train(self) -> BatchSource:
        """Batches of the training part."""
        ...

    @property
    def validation(self) -> BatchSource:
        """Batches of the validation part."""
        ...

    @property
    def sampler(self) -> Sampler:
        """Items of each training batch."""
        ...

    @property
    def validation_sampler(self) -> Sampler | None:
        """Items of each validation batch; None for a random order."""
        ...


@dataclass
class TrainingData:
    """Training and validation data of a run."""

    train: Batches
    """Batches of the training part."""
    validation: Batches
    """Batches of the validation part."""
    sampler: Sampler
    """Items of each training batch."""
    validation_sampler: BlockSampler | None = None
    """Items of each validation batch, in an order that reads few shards at a time; None for a random order."""

    def schedule(
        self, rank: int, num_ranks: int, ranks_on_machine: int, batch_workers: int = 0
    ) -> ShardSchedule | None:
        """Return the schedule of a rank's shards; None if no store is in a bucket, or if items come in random order."""
        sampler, stores = self.sampler, [dataset.store for dataset in self.train.datasets]
        if not isinstance(sampler, BlockSampler) or not any(store.open_shards.is_bounded for store in stores):
            return None
        if batch_workers:
            raise ConfigError(
                f"batch_workers={batch_workers}: with shuffle=blocks, a rank reads its lanes of a store in a bucket by "
                "itself. Set batch_workers=0."
            )
        share = sampler.lanes // num_ranks
        lanes = range(rank * share, (rank + 1) * share)
        return ShardSchedule(stores, sampler, self.validation_sampler, lanes, ranks_on_machine)


def open_training_stores(config: PretrainConfig) -> tuple[TrainingStore, ...]:
    """Open the config's store and its extra stores, with frames of the same length and sampling rate.

    Raises:
        ConfigError: The config does not fit the stores.
        LeakError: Stores share recordings or patients.
    """
    name = config.method["name"]
    if config.extra_stores and METHODS.get(name).needs_labels:
        raise ConfigError(
            f"extra_stores: {name} needs labels, and the labels of several stores differ. Train on one store."
        )
    if config.alternate_stores and (not config.extra_stores or config.instances_per_patient):
        raise ConfigError("alternate_stores=true needs extra_stores, and instances_per_patient=0")
    first = open_training_store(config)
    if METHODS.get(name).needs_labels and not first.store.manifest.dataset["classes"]:
        raise ConfigError(f"{name} needs labels, but {no_classes_message(first.store)}")
    parts = (first, *(_open_extra_store(first, config, folder) for folder in config.extra_stores))
    if config.extra_stores:
        refuse_shared_recordings([part.store for part in parts])
    return parts


def open_training_store(config: PretrainConfig) -> TrainingStore:
    """Open the config's store, with the method's frame policy and the config's changes to it."""
    store = open_store(config.store)
    changes = {**config.frames, **({"leads": config.leads} if config.leads else {})}
    own = store.frame_policy(METHODS.get(config.method["name"]).frame_policy)
    policy = validate_model(FramePolicy, {**own.model_dump(), **changes}, "frames")
    if changes.get("leads"):
        policy = policy.model_copy(update={"leads": _leads(store, policy.leads)})
    return TrainingStore(store, store.split(config.split), policy)


def _open_extra_store(first: TrainingStore, config: PretrainConfig, folder: Path) -> TrainingStore:
    """Open an extra store, with the frames of the first store and its own leads."""
    if first.policy.sampling_rate is None:
        raise ConfigError(
            "extra_stores: the frames of the first store have no sampling rate. Set frames.sampling_rate."
        )
    store = open_store(folder)
    own = store.frame_policy("evaluation")
    leads = _leads(store, config.leads) if config.leads else own.leads
    policy = first.policy.model_copy(update={"leads": leads, "excluded_leads": own.excluded_leads})
    return TrainingStore(store, store.split(config.split), policy)


def _leads(store: Store, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return leads as the store spells them, and refuse leads that no recording has."""
    available = store.leads()
    leads = tuple(lead if lead in available else canonical_lead(lead) for lead in names)
    if len(set(leads)) < len(leads):
        raise ConfigError(f"leads: a lead is named twice: {', '.join(leads)}")
    absent = [f"'{lead}'" for lead in leads if lead not in available]
    if absent:
        known = [lead for lead in STANDARD_LEADS if lead in available] + sorted(available.difference(STANDARD_LEADS))
        raise ConfigError(
            f"leads: no recording of {store.folder} has {', '.join(absent)}. Available: {', '.join(known) or 'none'}."
        )
    return leads


def describe_stores(parts: tuple[TrainingStore, ...]) -> dict[str, Any]:
    """Return hashes and frame policy of the first store, and those of the others under ``extra_stores``."""
    more = [{**part.hashes, "policy": part.policy.model_dump(mode="json")} for part in parts[1:]]
    described: dict[str, Any] = {**parts[0].hashes, "policy": parts[0].policy.model_dump(mode="json")}
    return {**described, "extra_stores": more} if more else described


def seen_keys_of_stores(parts: tuple[TrainingStore, ...]) -> Keys:
    """Return the keys of the training and validation recordings of all stores."""
    return np.unique(np.concatenate([seen_keys(part.store, part.split) for part in parts]))


def build_training_data(config: PretrainConfig, method: Method, parts: tuple[TrainingStore, ...]) -> TrainingData:
    """Return training and validation batches, and the order of training items.

    Raises:
        ConfigError: The method cannot train on these stores.
    """
    train_records, validation_records = _records(config, parts)
    datasets = _datasets(method, parts, train_records)
    train = Batches(datasets, [part.policy for part in parts], method, config.seed)
    _refuse_channels(method, parts, datasets)
    _refuse_views(config, method, parts, train)
    validation_parts = parts
    if takes_all_leads(method):  # both parts need the same leads, also where each has other common leads
        pairs = zip(parts, datasets, strict=True)
        validation_parts = tuple(replace(part, policy=_with_leads(part.policy, data)) for part, data in pairs)
    validation_datasets = _datasets(method, validation_parts, validation_records)
    validation = Batches(validation_datasets, [part.policy for part in parts], method, config.seed)
    _warn_about_single_patient(config, method, validation)
    if method.needs_labels:
        _refuse_labels(method, parts[0].store, {"training": datasets[0], "validation": validation_datasets[0]})
    return TrainingData(train, validation, _sampler(config, train), _validation_sampler(config, validation))


def takes_all_leads(method: Method) -> bool:
    """Return whether a frame has all its leads, as views or as channels of the encoder."""
    return method.leads_as_views or method.encoder.in_channels > 1


def _records(config: PretrainConfig, parts: tuple[TrainingStore, ...]) -> tuple[list[Any], list[Any]]:
    """Return masks of the training and of the validation recordings of each store."""
    train = [part.split.mask("train") for part in parts]
    if config.patient_fraction < 1:
        train = [
            sample_patients(part.store, records, config.patient_fraction, derived_seed(config.seed, "patients"))
            for part, records in zip(parts, train, strict=True)
        ]
    if config.label_fraction < 1 and config.label_unit == "patients":
        train = [sample_patients(parts[0].store, train[0], config.label_fraction, config.seed)]
    validation = [part.split.mask("validation") for part in parts]
    for part, masks in zip(parts, zip(train, validation, strict=True), strict=True):
        empty = [name for name, mask in zip(("training", "validation"), masks, strict=True) if not mask.any()]
        if empty:
            raise ConfigError(
                f"split '{part.split.name}' of {part.store.folder} has no patients in its {empty[0]} part"
            )
    return train, validation


def _sampler(config: PretrainConfig, train: Batches) -> Sampler:
    """Return the sampler of the training items."""
    sampler: Sampler
    if config.label_fraction < 1 and config.label_unit == "frames":
        chosen = sample_items(len(train), config.label_fraction, config.seed)
        sampler = ShuffledSampler(len(train), config.batch_size, config.seed, chosen)
    elif config.alternate_stores and len(train.datasets) > 1:
        sampler = AlternatingSampler(train.sizes, config.batch_size, config.seed)
    elif config.instances_per_patient:
        patients = train.patients(np.arange(len(train)))
        sampler = PatientSampler(patients, config.batch_size, config.instances_per_patient, config.seed)
    elif config.shuffle == "blocks":
        sampler = _block_sampler(config, train, config.seed)
    else:
        sampler = ShuffledSampler(len(train), config.batch_size, config.seed)
    return RepeatedSampler(sampler, config.passes_per_epoch) if config.passes_per_epoch > 1 else sampler


def _validation_sampler(config: PretrainConfig, validation: Batches) -> BlockSampler | None:
    """Return the sampler of the validation items with ``shuffle=blocks``. A single short batch needs none."""
    if config.shuffle != "blocks" or len(validation) < config.batch_size:
        return None
    return _block_sampler(config, validation, derived_seed(config.seed, "validation"))


def _block_sampler(config: PretrainConfig, batches: Batches, seed: int) -> BlockSampler:
    sizes = np.concatenate([dataset.frames.items_per_shard() for dataset in batches.datasets]).tolist()
    return BlockSampler(sizes, config.batch_size, seed, lanes=config.shuffle_lanes, window=config.shuffle_window)


def _datasets(method: Method, parts: tuple[TrainingStore, ...], records: list[Any]) -> list[FrameDataset]:
    datasets = []
    for part, chosen in zip(parts, records, strict=True):
        policy = policy_for_views(part.policy, method)
        datasets.append(FrameDataset(part.store, policy=policy, records=chosen, all_leads=takes_all_leads(method)))
    return datasets


def _with_leads(policy: FramePolicy, dataset: FrameDataset) -> FramePolicy:
    """Return the policy with the leads of a dataset."""
    return policy.model_copy(update={"leads": dataset.leads})


def _refuse_channels(method: Method, parts: tuple[TrainingStore, ...], datasets: list[FrameDataset]) -> None:
    """Refuse frames with another number of leads than an encoder of several leads takes."""
    channels = method.encoder.in_channels
    if channels == 1:
        return
    for part, dataset in zip(parts, datasets, strict=True):
        if len(dataset.leads) != channels:
            raise ConfigError(
                f"encoder.in_channels={channels}, but frames of {part.store.folder} have {len(dataset.leads)} lead(s): "
                f"{', '.join(dataset.leads)}. Name the leads, as in leads=I,II,V1, or change encoder.in_channels."
            )


def _warn_about_single_patient(config: PretrainConfig, method: Method, validation: Batches) -> None:
    """Warn that the validation loss of a single patient has no meaning."""
    if isinstance(method, PatientContrast) and len(np.unique(validation.patients(np.arange(len(validation))))) < 2:
        warnings.warn(
            f"The validation part has one patient, but {config.method['name']} compares patients, so the choice of the "
            "best epoch is random. Use a split with more validation patients.",
            stacklevel=2,
        )


def _refuse_labels(method: Method, store: Store, parts: dict[str, FrameDataset]) -> None:
    """Refuse labels that the loss cannot take, before training begins."""
    if not isinstance(method, Supervised) or method.multi_label:
        return
    for part, dataset in parts.items():
        invalid = np.flatnonzero(dataset.frames.targets(np.arange(len(dataset))).sum(1) != 1)
        if len(invalid):
            record = store.table(["record_id"]).column(0)[int(dataset.locate(invalid[:1])[0][0])]
            raise ConfigError(
                f"{len(invalid)} of {len(dataset)} instances of the {part} part of {store.folder} do not have exactly "
                f"one class, such as those of '{record}'. Set method.multi_label=true, or give the store classes of "
                "which each recording has exactly one."
            )


def _refuse_views(config: PretrainConfig, method: Method, parts: tuple[TrainingStore, ...], train: Batches) -> None:
    """Refuse views that the loss cannot compare, before training begins."""
    name, firsts = config.method["name"], np.cumsum([0, *train.sizes])[:-1]
    counts = [train.make(np.array([first], np.int64), 0, "train", 0, 0)["views"].shape[1] for first in firsts]
    for part, dataset, views in zip(parts, train.datasets, counts, strict=True):
        supported = method.unsupported_frames(part.policy.num_segments, views)
        if supported is not None:
            raise ConfigError(
                f"{name} takes {supported}, but an instance of {part.store.folder} has {views} view(s): "
                f"{part.policy.num_segments} segment(s) a frame, lead(s) {', '.join(dataset.leads)}. "
                "Change frames.num_segments or leads, or use another method."
            )
    if len(set(counts)) > 1:
        described = ", ".join(f"{count} in {part.store.folder}" for part, count in zip(parts, counts, strict=True))
        raise ConfigError(
            f"extra_stores: instances need the same number of views in all stores, but {name} makes {described}. "
            "Set leads that all stores have, or for CMSMLC method.view_choice=random_pair."
        )
