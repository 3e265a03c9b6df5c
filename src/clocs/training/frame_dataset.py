"""Frames of a store as a PyTorch dataset."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from clocs.core.errors import ConfigError, UnitError
from clocs.signals.framing import FramePolicy, Normalization
from clocs.signals.leads import STANDARD_LEADS, canonical_lead
from clocs.store.frames import Frames
from clocs.store.reader import StoreLike, StoreReader
from clocs.store.splits import Split
from clocs.store.store import Store, open_store

Ints = npt.NDArray[np.int64]
Items = Sequence[int] | npt.NDArray[np.integer[Any]]


class FrameDataset(Dataset[dict[str, Tensor]]):
    """Frames of a store, cut by a frame policy, as a map-style PyTorch dataset.

    An item is a frame of one lead (C = 1) or, with ``all_leads``, of several leads. Nothing is drawn at random:
    shuffle with a sampler, and augment the batch. A batch is one vectorized gather from memory-mapped files.

    Pickling keeps only the folder, version, policy and recordings, so ``DataLoader`` workers may be forked or spawned.
    Datasets of several stores can be joined with ``torch.utils.data.ConcatDataset``: patients of different stores never
    share a number.

    Args:
        store: Open store, or its folder.
        split: Split, or the name of a saved one. Default: all recordings.
        part: Part of the split: ``train``, ``validation`` or ``test``.
        records: Mask over the store's recordings (N,) bool, applied on top of ``split``.
        policy: Frame policy, or the name of one of the store's policies. Excludes ``leads``, ``seconds``,
            ``sampling_rate``, ``views``, ``normalization``, ``normalization_scope``, ``allow_missing_leads`` and
            ``unnamed_lead``.
        leads: ``"12"``: items hold the twelve standard leads. Names of leads: items hold those leads, in this order.
            ``"each"``: every lead is an item. None: the same, or with ``all_leads`` the most common leads.
        seconds: Length of a view. Default: the frames of the store's policy ``evaluation``.
        sampling_rate: Hz of all frames; recordings at another rate are resampled when a batch is made. Default: the
            rate of the store, if it has one.
        views: Adjacent segments of a frame, V.
        all_leads: Whether an item holds all leads. Default: True if ``leads`` names leads.
        normalization: ``none``, ``minmax`` or ``typical``, see ``FramePolicy``. Default: ``none``.
        normalization_scope: Values that are normalized together: those of a ``lead`` (default) or of a ``frame``.
        allow_missing_leads: Whether frames may lack leads, which are then zero, and false in the mask. By default such
            frames are left out. A lead is missing if it is neither in the recording nor follows from others by
            Einthoven's and Goldberger's equations, if it has a gap, or if the policy excludes it.
        unnamed_lead: Lead whose position a lead without a name ("ECG") takes. By default recordings with no other lead
            are rejected if ``leads`` names some.
        disk_cache: Whether to keep prepared frames in a file of the store. It is written once for a policy, and
            saves time if frames are resampled and read many times.

    Attributes:
        frames: Frames behind the items.
        policy: Frame policy, with the leads spelled out where ``all_leads`` is true.
        leads: Leads of the items; with ``all_leads``, in the order of the channels.
        classes: Names of the classes, (K,).
        num_channels: Channels of a frame, C.
        num_samples: Samples of a view, S.

    Raises:
        ConfigError: Options contradict each other, or no frame is left.

    Example:
        >>> import torch, clocs
        >>> store = clocs.ingest("synthetic", None, "stores/synthetic", options={"num_records": 6, "leads": 12})
        >>> dataset = clocs.FrameDataset(store, leads="12", seconds=5, sampling_rate=100, views=2)
        >>> len(dataset), dataset.num_channels, dataset.num_samples
        (6, 12, 500)
        >>> batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=4)))
        >>> batch["signal"].shape, batch["patient"].shape
        (torch.Size([4, 2, 12, 500]), torch.Size([4]))
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        split: str | Split | None = None,
        part: str | None = None,
        records: npt.NDArray[np.bool_] | None = None,
        policy: FramePolicy | str | None = None,
        leads: str | Sequence[str] | None = None,
        seconds: float | None = None,
        sampling_rate: float | None = None,
        views: int | None = None,
        all_leads: bool | None = None,
        normalization: Normalization | None = None,
        normalization_scope: Literal["lead", "frame"] | None = None,
        allow_missing_leads: bool = False,
        unnamed_lead: str | None = None,
        disk_cache: bool = False,
    ) -> None:
        opened = open_store(store)
        options = {
            "leads": leads,
            "seconds": seconds,
            "sampling_rate": sampling_rate,
            "views": views,
            "normalization": normalization,
            "normalization_scope": normalization_scope,
            "allow_missing_leads": allow_missing_leads or None,
            "unnamed_lead": None if unnamed_lead is None else canonical_lead(unnamed_lead),
        }
        given = {name: value for name, value in options.items() if value is not None}
        if policy is None:
            policy, all_leads = _policy_of(opened, given, all_leads)
        elif given:
            raise ConfigError(f"policy= and {'=, '.join(given)}= exclude each other. Change the policy instead.")
        elif isinstance(policy, str):
            policy = opened.frame_policy(policy)
        chosen = _records(opened, split, part, records)
        self.frames = Frames(opened, policy, records=chosen, all_leads=bool(all_leads))
        if not len(self.frames):
            raise ConfigError(
                f"No recording of this part of {opened.folder} is long enough, or has the leads, for the frames "
                f"{policy.model_dump(exclude_defaults=True)}. Take shorter frames or other leads."
            )
        if disk_cache:
            self.frames = self.frames.cached()
        self.policy = self.frames.policy
        self.leads: tuple[str, ...] = tuple(self.frames.leads)
        self.classes: tuple[str, ...] = tuple(self.frames.classes)
        self.num_channels = len(self.leads) if self.frames.all_leads else 1
        self.num_samples = self.policy.num_samples

    @property
    def store(self) -> StoreReader:
        """Return the store behind the frames."""
        return self.frames.store

    @property
    def unit(self) -> str:
        """Return the unit of the signals before normalization: ``mV``, or ``adu`` if files have no gain.

        Raises:
            UnitError: The store mixes units.
        """
        units = {shard.unit for shard in self.store.shards}
        if len(units) != 1 or None in units:
            raise UnitError("A store that mixes millivolt and raw steps (adu) cannot be used. Make two stores of it.")
        return str(units.pop())

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, item: int) -> dict[str, Tensor]:
        """Return one item: the entries of ``batch``, without the batch dimension."""
        number = int(item) + len(self) if item < 0 else int(item)
        return {name: values[0] for name, values in self.batch([number]).items()}

    def __getitems__(self, items: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return several items, made by one gather. ``DataLoader`` calls this method and collates the items."""
        batch = self.batch(items)
        return [{name: values[index] for name, values in batch.items()} for index in range(len(items))]

    def batch(self, items: Items, *, targets: bool = True) -> dict[str, Tensor]:
        """Make the batch of some items by one vectorized gather.

        Args:
            items: Indices of the items, (B,).
            targets: Whether to include the labels.

        Returns:
            ``signal`` (B, V, C, S) float32, in the store's unit unless the policy normalizes; ``lead_mask`` (B, C)
            bool, false where a lead is missing; ``patient`` (B,) int64, see :func:`patient_numbers`;
            ``record`` (B,) int64, the recording's number in the store; ``item`` (B,) int64; and, with ``targets``,
            ``target`` (B, K) bool.
        """
        indices = np.asarray(items, np.int64).reshape(-1)
        signal = self.frames.views(indices)
        record = self.frames.recording_indices(indices)
        batch = {
            "signal": torch.from_numpy(np.ascontiguousarray(signal)),
            "lead_mask": torch.from_numpy(self.frames.lead_mask(indices)),
            "patient": torch.from_numpy(self._patient_numbers[record]),
            "record": torch.from_numpy(record),
            "item": torch.from_numpy(indices),
        }
        if targets:
            batch["target"] = torch.from_numpy(self.frames.targets(indices, record))
        return batch

    def patients(self, items: Items) -> Ints:
        """Return the patient number of each item.

        Args:
            items: Indices of the items, (B,).

        Returns:
            Patient numbers (B,), as in :meth:`batch`.
        """
        return self._patient_numbers[self.frames.recording_indices(items)]

    def locate(self, items: Items) -> tuple[Ints, Ints, npt.NDArray[np.str_]]:
        """Return recording, frame and lead of each item.

        Args:
            items: Indices of the items, (B,).

        Returns:
            Recording number in the store (B,), index of the frame within the recording (B,), and name of the lead
            (B,), which is empty with ``all_leads``.
        """
        return self.frames.locate(items)

    @functools.cached_property
    def _patient_numbers(self) -> Ints:
        return patient_numbers(self.store)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_patient_numbers"}


def patient_numbers(store: StoreReader) -> Ints:
    """Return a number of each recording's patient (N,) that is unique over stores.

    The upper 31 bits are a hash of the store, the lower 32 the patient's number in it. So patients of one store never
    collide and keep their order, which the last digits of a loss depend on. The hash is that of the store's first
    version, which stays the same if the store is moved, copied or extended.
    """
    upper = int(hashlib.sha256(store.manifest.first_sha256.encode()).hexdigest()[:8], 16) >> 1
    return store.patient_codes()[0] + (np.int64(upper) << np.int64(32))


def _records(
    store: Store, split: str | Split | None, part: str | None, records: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the recordings of a part of a split that are also in a mask; None for all recordings."""
    if (split is None) != (part is None):
        raise ConfigError("Pass split= and part= together, such as split='default', part='train'")
    if split is None or part is None:
        return records
    chosen = (store.split(split) if isinstance(split, str) else split).mask(part)
    return chosen if records is None else chosen & records


def _policy_of(store: Store, given: dict[str, Any], all_leads: bool | None) -> tuple[FramePolicy, bool]:
    """Return the frame policy that the options describe, and whether an item holds all leads."""
    named = store.frame_policy("evaluation") if "evaluation" in store.manifest.dataset["frame_policies"] else None
    renamed = {"views": "num_segments"}
    apart = ("leads", "seconds", "sampling_rate")
    changes = {renamed.get(name, name): value for name, value in given.items() if name not in apart}
    leads, together = _leads(given.get("leads"), all_leads)
    if leads is not None:
        changes["leads"] = leads
    if "seconds" in given:
        sampling_rate = given.get("sampling_rate") or _only_rate(store)
        excluded_leads = named.excluded_leads if named is not None else ()
        num_samples = max(1, round(given["seconds"] * sampling_rate))
        return FramePolicy(
            **{"excluded_leads": excluded_leads, **changes, "num_samples": num_samples, "sampling_rate": sampling_rate}
        ), together
    if "sampling_rate" in given or named is None:
        raise ConfigError("Pass seconds=, the length of a frame, or policy=")
    return FramePolicy.model_validate({**named.model_dump(), **changes}), together


def _leads(leads: str | Sequence[str] | None, all_leads: bool | None) -> tuple[tuple[str, ...] | None, bool]:
    """Return the policy's leads (None: not given, empty: every lead), and whether an item holds all of them."""
    if leads == "each" and all_leads:
        raise ConfigError("leads='each' makes an item of every lead; it excludes all_leads=True")
    if leads is None or leads == "each":
        return (None if leads is None else ()), bool(all_leads)
    names = STANDARD_LEADS if leads == "12" else (leads,) if isinstance(leads, str) else tuple(leads)
    return tuple(canonical_lead(name) for name in names), True if all_leads is None else all_leads


def _only_rate(store: Store) -> float:
    """Return the sampling rate that all recordings have."""
    rates = {
        float(sampling_rate)
        for number in range(len(store.shards))
        for sampling_rate in np.unique(store.shard(number).sampling_rate)
    }
    if len(rates) != 1:
        found = ", ".join(f"{sampling_rate:g}" for sampling_rate in sorted(rates))
        raise ConfigError(f"Recordings of {store.folder} have sampling rates of {found} Hz. Pass sampling_rate=.")
    return rates.pop()
