"""The frame policy that an encoder is evaluated with."""

from __future__ import annotations

from typing import Any, Literal

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store
from clocs.training.encoder_folder import in_channels

FrameChoice = Literal["encoder", "paper"]
"""``encoder``: length, sampling rate and normalization of training; raw steps are scaled to the amplitude of a typical
lead if the encoder takes millivolt. ``paper``: the dataset's own frames in the paper, at any sampling rate."""


def frame_policy_for(about: dict[str, Any], store: Store, choice: FrameChoice) -> FramePolicy:
    """Return the frame policy to evaluate an encoder with.

    Args:
        about: Content of the encoder's config.json.
        store: The store to evaluate on.
        choice: Frames of training (``encoder``) or of the paper (``paper``).

    Raises:
        ConfigError: The dataset has no frames that the encoder takes.
    """
    input = about["input"]
    own, trained = store.frame_policy("evaluation"), FramePolicy.model_validate(input["policy"])
    if in_channels(about) > 1:  # a lead a channel, instead of the leads of the dataset's policy
        leads = {"leads": tuple(input["leads"]), "allow_missing_leads": trained.allow_missing_leads}
        own = own.model_copy(update=leads)
    if choice == "encoder" and trained.sampling_rate is not None:
        unknown_gain = trained.normalization == "none" and (input.get("unit", "mV"), _units(store)) == ("mV", {"adu"})
        normalization = "typical" if unknown_gain else trained.normalization
        changes: dict[str, Any] = {
            "num_samples": trained.num_samples,
            "sampling_rate": trained.sampling_rate,
            "normalization": normalization,
            "normalization_scope": trained.normalization_scope,
            "unnamed_lead": trained.unnamed_lead,
        }
        if not own.leads:  # the dataset has no leads of its own: use those of the encoder
            available = store.leads()
            changes["leads"] = [lead for lead in input.get("leads", ()) if lead in available]
        return FramePolicy.model_validate(
            {**own.model_dump(), **changes, "num_segments": 1, "num_source_samples": None}
        )
    if own.num_samples != trained.num_samples:
        raise ConfigError(
            f"Frames of this dataset have {own.num_samples} samples, the encoder takes {trained.num_samples}. Use an "
            "encoder that was trained on frames of this length."
        )
    if choice == "encoder" and trained.model_copy(update={"excluded_leads": own.excluded_leads}) != own:
        raise ConfigError(
            "This encoder was trained on another dataset, with a frame policy that has no sampling rate. To evaluate "
            "on this dataset's frames, as the paper does: --frames paper."
        )
    return own


def frame_mismatches(input: dict[str, Any], policy: FramePolicy, store: Store) -> list[str]:
    """Return a sentence for each difference between frames and those of training.

    Args:
        input: Section ``input`` of the encoder's config.
        policy: Frame policy of the evaluation.
        store: Store of the evaluation.
    """
    notes = []
    if input["sampling_rate"] != policy.sampling_rate:
        trained, evaluated = (
            f"{rate:g} Hz" if rate else "no stated rate" for rate in (input["sampling_rate"], policy.sampling_rate)
        )
        notes.append(f"the encoder was trained at {trained}, these frames have {evaluated}")
    if "unit" in input and policy.normalization != "minmax" and _units(store) != {input["unit"]}:
        units = ", ".join(sorted(_units(store)))
        scaled = ", scaled to the amplitude of a typical lead" if policy.normalization == "typical" else ""
        notes.append(f"the encoder was trained on amplitudes in {input['unit']}, these frames have {units}{scaled}")
    return notes


def _units(store: Store) -> set[str]:
    return {str(shard.unit) for shard in store.shards}
