"""Augmentations that remove leads."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability, uniform
from clocs.core.errors import ConfigError

NumLeads = Annotated[int, Field(ge=1)]


@AUGMENTATIONS.register("lead_dropout")
class LeadDropout(Augmentation):
    """Set each lead to zero with a probability, but never all leads of a frame.

    If all leads of a frame would be dropped, one that has a signal is kept. A frame of one lead stays unchanged.

    Args:
        probability: Probability that a lead is dropped.

    Example:
        >>> import torch
        >>> made = LeadDropout(probability=0.3)(torch.ones(8, 12, 500))
        >>> bool(made.any(-1).any(-1).all())
        True
    """

    drops_leads = True

    def __init__(self, probability: Probability = 0.3) -> None:
        super().__init__(probability)
        self.check_options()

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Draw for each lead whether it is dropped."""
        drawn = uniform(signals, (*signals.shape[:2], 1), generator)
        dropped = drawn < self.probability
        present = signals.any(-1, keepdim=True)
        kept = drawn.masked_fill(~present, -1).argmax(1, keepdim=True)
        return torch.where(dropped.scatter(1, kept, value=False), 0, signals)

    def apply_randomly(self, signals: Tensor, generator: Generator) -> Tensor:
        """Drop leads. The probability applies to each lead, not to the frame."""
        return self.apply(signals, generator)


@AUGMENTATIONS.register("random_leads")
class RandomLeads(Augmentation):
    """Keep a random subset of the leads of each frame and set the others to zero.

    First the size of the subset is drawn uniformly, then the leads. Leads without a signal are chosen last. So a frame
    never loses all its leads, and a frame of one lead stays unchanged.

    Args:
        min_leads: Smallest number of leads that are kept; all leads where a frame has fewer.
        max_leads: Largest number of leads that are kept; None for all leads of a frame.
        probability: Probability that a frame is augmented.

    Example:
        >>> import torch
        >>> made = RandomLeads(min_leads=2, max_leads=4)(torch.ones(8, 12, 500))
        >>> counts = made.any(-1).sum(1)
        >>> bool((counts >= 2).all() and (counts <= 4).all())
        True
    """

    drops_leads = True

    def __init__(
        self, min_leads: NumLeads = 1, max_leads: NumLeads | None = None, probability: Probability = 1.0
    ) -> None:
        super().__init__(probability)
        self.min_leads, self.max_leads = min_leads, max_leads
        self.check_options()
        if max_leads is not None and max_leads < min_leads:
            raise ConfigError(f"RandomLeads: max_leads must be at least min_leads, {min_leads}, not {max_leads}")

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Draw the number of leads of each frame, then the leads."""
        leads = signals.shape[1]
        max_leads = leads if self.max_leads is None else min(self.max_leads, leads)
        min_leads = min(self.min_leads, max_leads)
        sizes = min_leads + (uniform(signals, (len(signals), 1, 1), generator) * (max_leads - min_leads + 1)).floor()
        drawn = uniform(signals, (*signals.shape[:2], 1), generator)
        present = signals.any(-1, keepdim=True)
        ranks = drawn.masked_fill(~present, -1).argsort(1, descending=True).argsort(1)
        return torch.where(ranks < sizes, signals, 0)
