"""Loss of CLOCS: views of an instance attract each other, and so do instances of a patient (equations 1-4)."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from clocs.losses.cosine import log_sums, units
from clocs.losses.loss import LOSSES, Loss

OffDiagonals = Literal["both", "equal", "one_triangle", "none"]
Pairs = Literal["all", "last"]


@LOSSES.register("patient_nce")
class PatientNCELoss(Loss):
    """Patient-specific noise-contrastive loss of CLOCS (equations 1-4).

    For two views, let s be the (B, B) cosine similarities divided by ``temperature``. The loss is the mean of
    -log softmax(s) over the diagonal, plus its mean over the other cells of one patient (0 without such cells), along
    rows (first view to second) and along columns (second to first). It is averaged over all unordered pairs of views.
    A zero vector has similarity 0 to all others and no gradient. Half types are computed, and returned, in float32.

    Time grows with the square of B and of V. Memory does not: only ``block`` rows of similarities are in memory.

    Args:
        temperature: Softmax temperature.
        off_diagonals: How pairs of different instances of one patient are weighted. ``both``: as in the paper, by a
            mean of their own, with the same weight as the mean over the diagonal. ``equal``: by one mean over all
            positive cells. ``one_triangle``: as in the released code, rows use the cells i < k and columns the cells
            i > k. ``none``: only the diagonal is used; patients are ignored.
        view_pairs: Pairs of views. ``all``: as in the paper. ``last``: as in the released code, only the last pair.
        block: Rows of similarities per block; None for as many as fit into 16 MB.

    Example:
        >>> import torch
        >>> loss = PatientNCELoss(temperature=0.1)
        >>> loss(torch.randn(8, 2, 128), patients=torch.arange(8) // 2).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        off_diagonals: OffDiagonals = "both",
        view_pairs: Pairs = "all",
        block: Annotated[int, Field(ge=1)] | None = None,
    ) -> None:
        super().__init__()
        self.temperature, self.off_diagonals, self.view_pairs, self.block = (
            temperature,
            off_diagonals,
            view_pairs,
            block,
        )
        self.check_options()

    def forward(self, embeddings: Tensor, patients: Tensor | None = None) -> Tensor:
        """Compute the loss.

        Args:
            embeddings: (B, V, E) floats: V views, 2 or more, of B instances.
            patients: (B,) int64, the patient of each instance; None if all patients differ.

        Returns:
            A scalar.

        Raises:
            ValueError: The shapes are wrong.
        """
        if embeddings.ndim != 3 or embeddings.shape[0] < 1 or embeddings.shape[1] < 2:
            raise ValueError(f"Expected embeddings of shape (B, V, E) with V >= 2 views, got {tuple(embeddings.shape)}")
        if patients is not None and patients.shape != embeddings.shape[:1]:
            raise ValueError(f"Expected patients of shape ({len(embeddings)},), got {tuple(patients.shape)}")
        with torch.autocast(embeddings.device.type, enabled=False):
            views = units(embeddings).transpose(0, 1)
            positives, weights = _positives(views, patients, self.off_diagonals)
            chosen = list(combinations(range(len(views)), 2))
            first, second = map(list, zip(*(chosen[-1:] if self.view_pairs == "last" else chosen), strict=True))
            rows, columns = log_sums(views[first], views[second], self.temperature, block=self.block)
            return ((rows + columns) @ weights - positives[first, second] * (2 / self.temperature)).mean()


def _positives(views: Tensor, patients: Tensor | None, off_diagonals: OffDiagonals) -> tuple[Tensor, Tensor]:
    """Return the numerators and the weights of the denominators.

    The numerators (V, V) are the mean cosines of the positive cells of two views: the mean over the diagonal plus the
    mean over other cells of one patient, or a single mean for ``equal``. The weight (B,) of an instance's
    log-denominator is its share in these means.

    The cells of a patient sum to the product of the patient's sums, so no (B, B) matrix is needed. Both triangles
    together are all its cells, so "one_triangle" has the same numerators; only the weights differ: along rows and
    along columns, an instance then counts only the later instances of its patient.
    """
    batch = views.shape[1]
    diagonal = _gram(views) / batch
    if patients is None or off_diagonals == "none":
        return diagonal, views.new_full((batch,), 1 / batch)
    _, group, sizes = torch.unique(patients, return_inverse=True, return_counts=True)
    others = sizes[group] - 1
    repeated = views * (others > 0).unsqueeze(-1)  # patients seen once would only add rounding errors
    sums = torch.zeros_like(repeated[:, : len(sizes)]).index_add(1, group, repeated)
    pairs = _gram(sums) - _gram(repeated)
    if off_diagonals == "equal":
        cells = batch + others.sum()
        return (_gram(views) + pairs) / cells, (1 + others).to(views.dtype) / cells
    counts = others if off_diagonals == "both" else _later(group, sizes)
    return diagonal + pairs / others.sum().clamp_min(1), 1 / batch + counts.to(views.dtype) / counts.sum().clamp_min(1)


def _gram(views: Tensor) -> Tensor:
    """Sum the dot products of the N vectors of each two views: (V, N, E) -> (V, V)."""
    flat = views.flatten(1)
    return flat @ flat.T


def _later(group: Tensor, sizes: Tensor) -> Tensor:
    """Count the instances of the same group that follow in the batch: (B,)."""
    position = group.argsort(stable=True).argsort()
    return sizes.cumsum(0)[group] - 1 - position
