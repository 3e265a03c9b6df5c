"""Which frames of a store an encoder is judged on."""

from __future__ import annotations

from typing import Any, Literal

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store
from clocs.training.encoder_folder import in_channels

FrameChoice = Literal["encoder", "paper"]
"""``encoder``: as long, as fast and normalised as those it was trained on; raw steps are brought to the amplitude of an
ordinary lead where it takes millivolt. ``paper``: the dataset's own in the paper,
whatever the encoder's rate."""


def frame_policy_for(about: dict[str, Any], store: Store, choice: FrameChoice) -> FramePolicy:
    """Return the frame policy to evaluate an encoder with.

    Args:
        about: The encoder's config.
        store: The store to evaluate on.
        choice: Frames as in training, or as in the paper.

    Raises:
        ConfigError: The dataset has no such frames.
    """
    policy = _policy(about["input"], store, choice)
    if in_channels(about) == 1:
        return policy
    trained = FramePolicy.model_validate(about["input"]["policy"])
    leads = tuple(about["input"]["leads"])  # one a channel, whatever leads the dataset's policy names
    return policy.model_copy(update={"leads": leads, "allow_missing_leads": trained.allow_missing_leads})


def _policy(input: dict[str, Any], store: Store, choice: FrameChoice) -> FramePolicy:
    """Return the policy without regard to the leads of an encoder that takes several at once."""
    own = store.frame_policy("evaluation")
    trained = FramePolicy.model_validate(input["policy"])
    if choice == "encoder" and trained.sampling_rate is not None:
        unknown_gain = trained.normalization == "none" and (input.get("unit", "mV"), _units(store)) == ("mV", {"adu"})
        normalization = "typical" if unknown_gain else trained.normalization
        taken: dict[str, Any] = {
            "num_samples": trained.num_samples,
            "sampling_rate": trained.sampling_rate,
            "normalization": normalization,
            "normalization_scope": trained.normalization_scope,
            "unnamed_lead": trained.unnamed_lead,
        }
        if not own.leads:  # of a dataset without a choice of its own, those that the encoder knows, if it has any
            there = store.leads()
            taken["leads"] = [lead for lead in input.get("leads", ()) if lead in there]
        return FramePolicy.model_validate({**own.model_dump(), **taken, "num_segments": 1, "num_source_samples": None})
    if own.num_samples != trained.num_samples:
        raise ConfigError(
            f"this dataset's frames have {own.num_samples} samples, the encoder takes {trained.num_samples}"
        )
    if choice == "encoder" and trained.model_copy(update={"excluded_leads": own.excluded_leads}) != own:
        raise ConfigError(
            "this encoder was trained on the frames of another dataset, whose policy leaves the sampling rate open; "
            "what it would take from this one is a guess. To evaluate as the paper does: --frames paper"
        )
    return own


def frame_mismatches(input: dict[str, Any], policy: FramePolicy, store: Store) -> list[str]:
    """A sentence for each way in which frames are not what the encoder was trained on."""
    found = []
    if input["sampling_rate"] != policy.sampling_rate:
        trained, taken = (
            f"{sampling_rate:g} Hz" if sampling_rate else "no stated rate"
            for sampling_rate in (input["sampling_rate"], policy.sampling_rate)
        )
        found.append(f"the encoder was trained at {trained}, these frames have {taken}")
    if "unit" in input and policy.normalization != "minmax" and _units(store) != {input["unit"]}:
        there = ", ".join(sorted(_units(store)))
        scaled = ", scaled to the amplitude of an ordinary lead" if policy.normalization == "typical" else ""
        found.append(f"the encoder was trained on amplitudes in {input['unit']}, these frames have {there}{scaled}")
    return found


def _units(store: Store) -> set[str]:
    return {str(shard.unit) for shard in store.manifest.shards}
