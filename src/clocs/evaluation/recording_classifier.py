"""Linear classifiers of whole recordings, for each set of leads that a store has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.embedders import Embedder, Mask
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.linear_probe import LinearProbe, fit_probe
from clocs.evaluation.benchmark.recording_features import RecordingFeatures, recording_features, select_leads
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.inference.classifier import LinearWeights
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import LEAD_SETS, available_leads
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets

Bools = npt.NDArray[np.bool_]
LeadNames = tuple[str, ...]


class LeadSubset(Embedder):
    """An embedder of several leads at once, with all but some leads masked.

    Args:
        embedder: The embedder.
        leads: Leads that are not masked.
    """

    def __init__(self, embedder: Embedder, leads: Sequence[str]) -> None:
        identity = {"embedder": embedder.identity, "only_leads": list(leads)}
        super().__init__(embedder.name, embedder.policy, identity=identity, all_leads=True, pooling=embedder.pooling)
        self._embedder, self._kept = embedder, np.isin(embedder.policy.leads, list(leads))

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        return self._embedder.embed(frames * self._kept[:, None], lead_mask & self._kept)


def features_by_lead_set(
    embedder: Embedder,
    store: Store,
    *,
    allow_missing_leads: bool,
    leads: Sequence[str] = (),
    sets: Sequence[LeadNames] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> dict[LeadNames, RecordingFeatures]:
    """Compute the features of recordings for each set of leads that a classifier is fitted for.

    These are the leads that most recordings of the store have and, if they are among these, all twelve leads, the six
    limb leads, lead I and lead II.

    Args:
        embedder: The embedder.
        store: The store.
        allow_missing_leads: Whether an embedder of several leads at once may lack some.
        leads: Use only these leads. Empty: all that most recordings have.
        sets: Sets of leads, of which those are used that the recordings have. None: those described above.
        cache: Folder of cached features; None: nothing is saved.

    Returns:
        Features by leads, the largest set first.

    Raises:
        ConfigError: The store lacks leads that the embedder needs.
    """
    if not embedder.all_leads:
        found = recording_features(embedder, store, cache=cache)["embedding"]
        used = _usable(sets, found.leads) if sets is not None else lead_sets_of(choose_leads(found.leads, leads))
        return {leads: select_leads(found, leads, num_statistics=len(embedder.pooling)) for leads in used}
    needed = embedder.policy.leads
    common = common_leads(store, embedder.policy)
    chosen = choose_leads(common, leads)
    present = tuple(lead for lead in needed if lead in chosen)
    if not present or (present != needed and not allow_missing_leads):
        raise ConfigError(
            f"{store.folder} has {', '.join(common)}; the encoder takes {', '.join(needed)} at once. Use another "
            "encoder."
        )
    used = _usable(sets, present) if sets is not None else lead_sets_of(present) if allow_missing_leads else (needed,)
    return {leads: recording_features(_only(embedder, leads), store, cache=cache)["embedding"] for leads in used}


def _only(embedder: Embedder, leads: Sequence[str]) -> Embedder:
    """Return an embedder of several leads at once that uses these leads; itself if they are all, to share its cache."""
    return embedder if set(leads) == set(embedder.policy.leads) else LeadSubset(embedder, leads)


def _usable(sets: Sequence[LeadNames], present: Sequence[str]) -> tuple[LeadNames, ...]:
    """Return the sets of leads that are all present."""
    return tuple(leads for leads in sets if set(leads) <= set(present))


def common_leads(store: Store, policy: FramePolicy) -> LeadNames:
    """Return the leads that most recordings of a store have, and those that follow from them.

    Args:
        store: The store.
        policy: Any policy of frames; its leads are ignored.
    """
    return available_leads(Frames(store, policy.model_copy(update={"leads": ()}), all_leads=True).leads)


def choose_leads(present: Sequence[str], leads: Sequence[str]) -> LeadNames:
    """Return the leads that are chosen of those that are present. No choice: all of them.

    Raises:
        ConfigError: A chosen lead is not present.
    """
    if absent := [lead for lead in leads if lead not in present]:
        raise ConfigError(f"Most recordings lack {', '.join(absent)}; they have {', '.join(present)}. Choose of these.")
    return tuple(lead for lead in present if not leads or lead in leads)


def mask_leads(embedder: Embedder, leads: Sequence[str], allow_missing_leads: bool) -> Embedder:
    """Return an embedder of several leads at once that uses only some of them.

    Raises:
        ConfigError: The embedder does not take these leads, or was not trained on frames that lack leads.
    """
    needed = embedder.policy.leads
    if not set(leads) <= set(needed) or not (allow_missing_leads or set(leads) == set(needed)):
        raise ConfigError(
            f"Leads {', '.join(leads)}: the encoder takes {', '.join(needed)} at once"
            f"{', and some may be missing' if allow_missing_leads else ', all of them'}. Choose other leads."
        )
    return _only(embedder, leads)


def allows_missing_leads(described: Mapping[str, Any]) -> bool:
    """Return whether an encoder was trained on frames that lack leads. ``described`` is the ``input`` of its config."""
    return bool(described.get("lead_dropout") or described["policy"].get("allow_missing_leads"))


def lead_sets_of(leads: Sequence[str]) -> tuple[LeadNames, ...]:
    """Return the sets of leads to fit a classifier for: these leads, and the common sets that are a part of them.

    Example:
        >>> lead_sets_of(("II", "I", "V5"))
        (('I', 'II', 'V5'), ('I',), ('II',))
    """
    own = tuple(lead for lead in available_leads(tuple(leads)) if lead in leads)
    return own, *(leads for leads in LEAD_SETS if set(leads) < set(own))


def fit_recordings(
    features: RecordingFeatures, targets: TaskTargets, *, train: Bools, validation: Bools
) -> tuple[LinearWeights, LinearProbe]:
    """Fit a linear classifier on features of recordings, regularized by validation recordings.

    Args:
        features: Features of all recordings of the store.
        targets: Targets of the task.
        train: Labelled recordings to fit on, a mask (N,).
        validation: Recordings that select the regularization, a mask (N,).

    Returns:
        The weights on features that are not standardized, rounded to what a file stores; and the fitted model.

    Raises:
        ConfigError: The task is a regression.
    """
    if targets.task.kind == "regression":
        raise ConfigError(f"Task '{targets.name}' has numbers, not classes. Choose a task with classes.")
    standardization = Standardization.fit(features.values[train])
    fitted = fit_probe(
        standardization.transform(features.values),
        targets.truth,
        kind=targets.task.kind,
        train=train,
        validation=validation,
    )
    weight = fitted.weight.astype(np.float64) * standardization.scale
    bias = fitted.bias - weight @ standardization.mean
    return LinearWeights.rounded(weight, bias), fitted


def recordings_of(features: RecordingFeatures, targets: TaskTargets, part: Bools) -> Bools:
    """Return the recordings of a part that take part in a task and have all features, a mask (N,)."""
    return part & targets.included & ~np.isnan(features.values).any(axis=1)


def recording_outputs(
    store: Store, targets: TaskTargets, records: Bools, values: npt.NDArray[np.floating]
) -> ModelOutputs:
    """Return class probabilities of recordings with their labels and patients.

    Args:
        store: The store.
        targets: Targets of the task.
        records: The recordings, a mask (N,).
        values: Probabilities of these recordings, (rows, K).
    """
    rows = np.flatnonzero(records)
    patients = store.patient_codes()[0][rows]
    return ModelOutputs(np.asarray(values, np.float32), targets.truth[rows], rows, patients, targets.classes)
