"""Clusters of patients who share a signal, which a split keeps together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.store.duplicates import duplicate_groups, shared_lead_groups
from clocs.store.near_duplicates import near_duplicate_groups
from clocs.store.reader import StoreReader

Ints = npt.NDArray[np.int64]


def patient_clusters(store: StoreReader) -> Ints:
    """Return a cluster of each patient, (patients,). Patients with identical signals share a cluster."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    patient, num_patients = store.patient_codes()
    groups = [*duplicate_groups(store), *reexported_groups(store)]
    pairs = [(patient[group[0]], patient[member]) for group in groups for member in group[1:]]
    if not pairs:
        return np.arange(num_patients)
    left, right = np.array(pairs).T
    graph = coo_array((np.ones(len(pairs), np.int8), (left, right)), shape=(num_patients, num_patients))
    return np.asarray(connected_components(graph, directed=False)[1]).astype(np.int64)


def reexported_groups(store: StoreReader) -> list[Ints]:
    """Return groups of recordings of the same ECG in different formats, leads or steps."""
    several = _has_several_kinds(store)
    return [*near_duplicate_groups(store), *shared_lead_groups(store)] if several else []


def _has_several_kinds(store: StoreReader) -> bool:
    """Return whether files differ in format, leads or gains. Within one kind, the same ECG is the same signal."""
    import pyarrow.compute as pc

    if len(pc.unique(store.table(["format"]).column(0))) > 1:
        return True
    kinds: set[tuple[Any, Any]] = set()
    for number, info in enumerate(store.shards):
        if info.leads is not None and info.gain is not None:
            kinds.add((info.leads, (info.gain,) * len(info.leads)))
        else:
            leads, gains = (store.shard(number).column(name).to_pylist() for name in ("leads", "gain"))
            kinds.update((tuple(lead), tuple(gain)) for lead, gain in zip(leads, gains, strict=True))
        if len(kinds) > 1:
            return True
    return False
