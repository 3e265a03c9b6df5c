"""Loss of contrastive predictive coding: a predicted token is found among other tokens."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from clocs.losses.cosine import log_sums
from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss

Negatives = Literal["all", "instances", "times"]


@LOSSES.register("cpc")
class CPCLoss(Loss):
    """InfoNCE of predicted tokens (van den Oord, Li and Vinyals, 2018; equation 4).

    The score of a token is its dot product with the prediction, the log-bilinear model of equation 3. The loss is
    -log softmax of the predicted token's score among all candidates, averaged over all predictions. Half types are
    computed, and returned, in float32.

    Args:
        negatives: Candidates beside the predicted token. ``instances``: the predicted tokens of the same position
            and step in all other instances. ``times``: all other tokens of the same instance.
            ``all``: both. As in the paper, negatives come from all sequences of a batch, including the own one.

    Example:
        >>> import torch
        >>> predictions, tokens = torch.randn(8, 1, 2, 32), torch.randn(8, 10, 32)
        >>> targets = torch.tensor([[[6, 7]]]).expand(8, 1, 2)
        >>> CPCLoss()(predictions, tokens, targets).shape
        torch.Size([])
    """

    def __init__(self, negatives: Negatives = "all") -> None:
        super().__init__()
        self.negatives = negatives
        self.check_options()

    def forward(self, predictions: Tensor, tokens: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            predictions: (B, P, K, D) floats: predictions of K steps from P positions of B instances.
            tokens: (B, T, D) floats.
            targets: (B, P, K) int64: index of the token that each prediction is about.

        Returns:
            A scalar.

        Raises:
            ValueError: The shapes are wrong.
        """
        shape, expected = tuple(predictions.shape), (*targets.shape, tokens.shape[-1])
        if tokens.ndim != 3 or shape != expected or len(shape) != 4 or shape[0] != len(tokens) or 0 in shape:
            shapes = f"{shape}, {tuple(tokens.shape)} and {tuple(targets.shape)}"
            raise ValueError(f"Expected predictions (B, P, K, D), tokens (B, T, D), targets (B, P, K), got {shapes}")
        with torch.autocast(predictions.device.type, enabled=False):
            predicted, values = full_precision(predictions).flatten(1, 2), full_precision(tokens)
            index = targets.flatten(1)
            true = values.gather(1, index.unsqueeze(2).expand(-1, -1, values.shape[2]))
            sums = []
            if self.negatives != "times":
                rows, _ = log_sums(predicted.transpose(0, 1), true.transpose(0, 1), 1.0)
                sums.append(rows.T)
            if self.negatives != "instances":
                scores = predicted @ values.mT
                if self.negatives == "all":  # the predicted token is among the instances already
                    scores = scores.scatter(2, index.unsqueeze(2), -torch.inf)
                sums.append(scores.logsumexp(2))
            denominators = sums[0] if len(sums) == 1 else torch.logaddexp(*sums)
            return (denominators - (predicted * true).sum(2)).mean()
