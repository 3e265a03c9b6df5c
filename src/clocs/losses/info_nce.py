"""Loss of SimCLR: two views of one instance attract each other, other instances repel."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from clocs.losses.cosine import log_sums, units
from clocs.losses.loss import LOSSES, Loss

Form = Literal["two_view", "nt_xent"]


@LOSSES.register("info_nce")
class InfoNCELoss(Loss):
    """InfoNCE of two views, on cosine similarities.

    A zero vector has similarity 0 to all others and no gradient. Half types are computed, and returned, in float32.

    Args:
        temperature: Softmax temperature.
        form: ``two_view`` (our reading of the CLOCS paper): each instance is found among the B of the other view. The
            loss is the mean over instances, with both directions added as in equation 4. It equals
            ``PatientNCELoss`` when all patients differ. ``nt_xent`` (Chen et al., 2020): each of the 2B views is
            found among the other 2B - 1, and the loss is the mean over all 2B.

    Example:
        >>> import torch
        >>> loss = InfoNCELoss(temperature=0.1)
        >>> loss(torch.randn(8, 2, 128)).shape
        torch.Size([])
    """

    def __init__(self, temperature: Annotated[float, Field(gt=0)] = 0.1, form: Form = "two_view") -> None:
        super().__init__()
        self.temperature, self.form = temperature, form
        self.check_options()

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            embeddings: (B, 2, E) floats: two views of B instances.

        Returns:
            A scalar.

        Raises:
            ValueError: The shape is wrong.
        """
        if embeddings.ndim != 3 or embeddings.shape[0] < 1 or embeddings.shape[1] != 2:
            raise ValueError(f"Expected embeddings of shape (B, 2, E), two views, got {tuple(embeddings.shape)}")
        with torch.autocast(embeddings.device.type, enabled=False):
            first, second = units(embeddings).unsqueeze(0).unbind(2)
            positives = (first * second).sum(-1) / self.temperature
            if self.form == "nt_xent":
                both = torch.cat([first, second], 1)
                rows, _ = log_sums(both, both, self.temperature, exclude_diagonal=True)
                return rows.mean() - positives.mean()
            rows, columns = log_sums(first, second, self.temperature)
            return (rows + columns - 2 * positives).mean()
