"""MAE: a masked autoencoder, which reconstructs the masked patches of a frame from the visible ones."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.encoders import Encoder
from clocs.losses.full_precision import full_precision
from clocs.methods.masked import MaskedMethod, TokenPredictor, frames
from clocs.methods.method import METHODS, Augmentations, Batch, Outputs

EPSILON = 1e-6
"""Added to the variance of a patch, so that a flat one can be normalized."""


@METHODS.register("mae")
class MAE(MaskedMethod):
    """Masked autoencoder (He et al., 2022) over patches of time, of one lead or several.

    A random subset of the patches stays visible, and the encoder computes only these. A light decoder takes their
    tokens and a mask token for each masked patch, and predicts the samples of the masked patches in all leads. The loss
    is the mean squared error on masked patches. Missing leads do not count, and all frames have the same weight.

    Args:
        encoder: An encoder of patches, such as ``PatchTransformer(head="none")``.
        augmentations: Applied to each frame.
        mask_ratio: Fraction of the patches that is masked; 0.75 in the paper.
        decoder_width: Dimension of the decoder's blocks.
        decoder_depth: Number of the decoder's blocks; 8 in the paper, for a much larger encoder.
        num_heads: Heads of the decoder's attention.
        normalize_patches: Whether targets have mean 0 and variance 1 in each patch and lead, as the paper recommends.

    Raises:
        ConfigError: The encoder has no patches, or ``decoder_width`` is not divisible by ``num_heads``.

    Example:
        >>> import torch
        >>> from clocs.encoders import PatchTransformer
        >>> method = MAE(PatchTransformer(in_channels=12, embedding_dim=96, head="none"))
        >>> draws = torch.Generator().manual_seed(0)
        >>> views = method.views(torch.randn(4, 1, 12, 500), draws)
        >>> batch = {"views": views, **method.draw_masks(views, draws)}
        >>> batch["keep"].shape, method(batch).shape
        (torch.Size([4, 5]), torch.Size([4, 15, 12, 25]))
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        mask_ratio: Annotated[float, Field(gt=0, lt=1)] = 0.75,
        decoder_width: Annotated[int, Field(gt=0)] = 64,
        decoder_depth: Annotated[int, Field(gt=0)] = 2,
        num_heads: Annotated[int, Field(gt=0)] = 4,
        normalize_patches: bool = True,
    ) -> None:
        super().__init__(encoder, augmentations)
        assert encoder.patch_size is not None
        self.mask_ratio, self.decoder_width, self.decoder_depth = mask_ratio, decoder_width, decoder_depth
        self.num_heads, self.normalize_patches = num_heads, normalize_patches
        self.patch_size = encoder.patch_size
        out_dim = encoder.in_channels * encoder.patch_size
        self.decoder = TokenPredictor(self.token_dim, out_dim, decoder_width, decoder_depth, num_heads)

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Draw the patches that stay visible.

        Args:
            views: Views (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            Positions in ascending order: ``keep`` (B, K), visible patches, and ``masked`` (B, T - K), the others.

        Raises:
            ConfigError: A frame has fewer than two patches.
        """
        count = self.encoder.num_tokens(views.shape[-1])
        if count < 2:
            raise ConfigError(f"MAE needs two patches or more, and a frame of {views.shape[-1]} samples has {count}")
        num_masked = min(max(round(self.mask_ratio * count), 1), count - 1)
        order = torch.rand((len(views), count), generator=generator).argsort(dim=1, stable=True)
        masked, keep = order[:, :num_masked], order[:, num_masked:]
        return {"keep": keep.sort(dim=1).values, "masked": masked.sort(dim=1).values}

    def forward(self, batch: Batch) -> Tensor:
        """Return the predicted samples of the masked patches.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Samples (B, T - K, C, patch_size).
        """
        predictions: Tensor = self.decoder(self.context(batch), batch["keep"], batch["masked"])
        return predictions.view(*predictions.shape[:2], self.encoder.in_channels, self.patch_size)

    def targets(self, batch: Batch) -> Tensor:
        """Return the samples to predict, normalized if configured.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Samples (B, T - K, C, patch_size).
        """
        signals = self.encoder.masked(*frames(batch))
        count = self.encoder.num_tokens(signals.shape[-1])
        whole = signals[:, :, : count * self.patch_size]
        patches = whole.reshape(*whole.shape[:2], count, self.patch_size).transpose(1, 2)
        index = batch["masked"][:, :, None, None].expand(-1, -1, *patches.shape[2:])
        patches = full_precision(patches.gather(1, index))
        if not self.normalize_patches:
            return patches
        variance, mean = torch.var_mean(patches, dim=3, correction=0, keepdim=True)
        return (patches - mean) / (variance + EPSILON).sqrt()

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean over frames of the squared error on masked patches of the present leads.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, Tensor)
        errors = (full_precision(outputs) - self.targets(batch)).square().mean(dim=(1, 3))
        _, lead_mask = frames(batch)
        if lead_mask is None:
            return errors.mean()
        present = lead_mask.to(errors.dtype)
        return ((errors * present).sum(1) / present.sum(1).clamp_min(1)).mean()
