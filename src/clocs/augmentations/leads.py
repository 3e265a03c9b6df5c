"""Augmentations of leads."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability, uniform


@AUGMENTATIONS.register("lead_dropout")
class LeadDropout(Augmentation):
    """Set leads to zero, each by chance and never all leads of a frame.

    Where all leads of a frame would be dropped, one that has a signal is kept. A frame of one lead stays unchanged.

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

    def apply_by_chance(self, signals: Tensor, generator: Generator) -> Tensor:
        """Drop leads: the probability is each lead's, not the frame's."""
        return self.apply(signals, generator)
