"""Which frames of a store an encoder is judged on."""

from __future__ import annotations

from typing import Any, Literal

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store

FrameChoice = Literal["encoder", "paper"]
"""``encoder``: as long, as fast and normalised as those it was trained on. ``paper``: the dataset's own in the paper,
whatever the encoder's rate."""


def frames_for(input: dict[str, Any], store: Store, choice: FrameChoice) -> FramePolicy:
    """The policy to evaluate with; ``input`` is what an encoder's config.json says that it takes."""
    own = store.policy("evaluation")
    trained = FramePolicy.model_validate(input["policy"])
    if choice == "encoder" and trained.rate is not None:
        taken = {"samples": trained.samples, "rate": trained.rate, "normalisation": trained.normalisation}
        return FramePolicy.model_validate({**own.model_dump(), **taken, "segments": 1, "source_samples": None})
    if own.samples != trained.samples:
        raise ConfigError(f"this dataset's frames have {own.samples} samples, the encoder takes {trained.samples}")
    if choice == "encoder" and trained.model_copy(update={"excluded": own.excluded}) != own:
        raise ConfigError(
            "this encoder was trained on the frames of another dataset, whose policy leaves the sampling rate open; "
            "what it would take from this one is a guess. To evaluate as the paper does: --frames paper"
        )
    return own


def rate_mismatch(input: dict[str, Any], policy: FramePolicy) -> str | None:
    """A sentence, where frames are not at the encoder's rate."""
    if input["rate"] == policy.rate:
        return None
    told = {True: "no stated rate"}
    trained = told.get(input["rate"] is None, f"{input['rate']} Hz")
    taken = told.get(policy.rate is None, f"{policy.rate} Hz")
    return f"the encoder was trained at {trained}, these frames have {taken}"
