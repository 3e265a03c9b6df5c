"""MAE: its masks, its targets and its loss against loops."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

import clocs.methods.mae
import clocs.methods.masked
from clocs.core.errors import ConfigError
from clocs.encoders import PatchTransformer
from clocs.methods import MAE, Batch
from tests.methods.test_masked import predicted

B, LEADS, PATCH, TOKENS = 3, 2, 10, 8


def made(**options: Any) -> MAE:
    torch.manual_seed(0)
    encoder = PatchTransformer(LEADS, 8, patch_size=PATCH, width=8, depth=1, num_heads=2, head="none")
    return MAE(encoder, **{"decoder_width": 6, "decoder_depth": 1, "num_heads": 3, **options}).double()


def batch_for(method: MAE, seed: int = 0) -> Batch:
    """Return frames of eight patches and three more samples."""
    draws = torch.Generator().manual_seed(seed)
    signals = torch.randn((B, 1, LEADS, TOKENS * PATCH + 3), generator=draws, dtype=torch.float64)
    views = method.views(signals, draws)
    return {"views": views, **method.draw_masks(views, draws)}


def literal_loss(method: MAE, tokens: Tensor, batch: Batch, normalized: bool, present: Tensor) -> float:
    """Compute the mean over frames of the mean over masked patches, present leads and samples."""
    total = 0.0
    for n in range(B):
        masked = [t for t in range(TOKENS) if t not in batch["keep"][n].tolist()]
        rows = predicted(method.decoder, tokens[n], batch["keep"][n], torch.tensor(masked), heads=3)
        errors = []
        for t, row in zip(masked, rows, strict=True):
            for lead in range(LEADS):
                if not present[n, lead]:
                    continue
                patch = batch["views"][n, 0, lead, t * PATCH : (t + 1) * PATCH].tolist()
                if normalized:
                    mean = sum(patch) / PATCH
                    variance = sum((x - mean) ** 2 for x in patch) / PATCH
                    patch = [(x - mean) / (variance + 1e-6) ** 0.5 for x in patch]
                errors += [(row[lead * PATCH + k] - patch[k]) ** 2 for k in range(PATCH)]
        total += sum(errors) / len(errors)
    return total / B


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("missing", [False, True])
def test_the_loss_equals_the_loops(normalized: bool, missing: bool) -> None:
    method = made(normalize_patches=normalized)
    batch = batch_for(method)
    present = torch.ones(B, LEADS, dtype=torch.bool)
    if missing:
        present[1, 0] = False
        batch["lead_mask"] = present.unsqueeze(1)
    tokens = method.encoder.tokens(batch["views"][:, 0], present, batch["keep"])
    expected = literal_loss(method, tokens, batch, normalized, present)
    assert float(method.training_step(batch, 0).detach()) == pytest.approx(expected, rel=1e-10)


def test_the_encoder_sees_visible_patches_only() -> None:
    method = made()
    batch = batch_for(method)
    other = batch["views"].clone()
    for n, masked in enumerate(batch["masked"].tolist()):
        for t in masked:
            other[n, :, :, t * PATCH : (t + 1) * PATCH] = torch.nan
    assert torch.equal(method(batch), method({**batch, "views": other}))


@pytest.mark.parametrize(("ratio", "masked"), [(0.75, 6), (0.5, 4), (0.3, 2), (0.01, 1), (0.99, 7)])
def test_masks_cover_every_patch_once(ratio: float, masked: int) -> None:
    batch = batch_for(made(mask_ratio=ratio))
    assert batch["masked"].shape == (B, masked)
    assert batch["keep"].shape == (B, TOKENS - masked)
    for keep, hidden in zip(batch["keep"].tolist(), batch["masked"].tolist(), strict=True):
        assert sorted(keep + hidden) == list(range(TOKENS))
        assert (keep, hidden) == (sorted(keep), sorted(hidden))


def test_masks_depend_only_on_the_generator() -> None:
    method = made()
    views = torch.randn(B, 1, LEADS, TOKENS * PATCH)
    one, again, other = (
        method.draw_masks(given, torch.Generator().manual_seed(seed))
        for given, seed in ((views, 1), (views + 1, 1), (views, 2))
    )
    torch.manual_seed(5)
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    assert not torch.equal(one["keep"], other["keep"])


def test_every_patch_is_masked_as_often() -> None:
    keep = made().draw_masks(torch.zeros(4000, 1, LEADS, TOKENS * PATCH), torch.Generator().manual_seed(0))["keep"]
    counts = torch.bincount(keep.flatten(), minlength=TOKENS)
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_a_flat_patch_has_finite_targets_and_a_frame_without_leads_no_error() -> None:
    method = made()
    batch = batch_for(method)
    batch["views"] = torch.zeros_like(batch["views"])
    assert torch.equal(method.targets(batch), torch.zeros(B, 6, LEADS, PATCH, dtype=torch.float64))
    batch["lead_mask"] = torch.zeros(B, 1, LEADS, dtype=torch.bool)
    assert float(method.training_step(batch, 0).detach()) == 0


def test_a_frame_of_one_patch_is_refused() -> None:
    with pytest.raises(ConfigError, match="MAE needs two patches or more, and a frame of 19 samples has 1"):
        made().draw_masks(torch.zeros(B, 1, LEADS, 19), torch.Generator())


def test_some_steps_lower_the_loss() -> None:
    method = made(mask_ratio=0.5)
    time = torch.arange(TOKENS * PATCH, dtype=torch.float64)
    phase = torch.linspace(0, 6, B, dtype=torch.float64).view(B, 1, 1, 1)
    views = torch.sin(time / 4 + phase).expand(B, 1, LEADS, -1)
    batch = {"views": views, **method.draw_masks(views, torch.Generator().manual_seed(0))}
    optimizer = torch.optim.Adam(method.parameters(), 1e-2)
    losses = []
    for step in range(60):
        loss = method.training_step(batch, step)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def beats(generator: torch.Generator) -> Tensor:
    """Draw 32 frames of one lead, each with beats of another period and phase."""
    period = 30 + 40 * torch.rand((32, 1, 1), generator=generator)
    phase = (torch.arange(240) - period * torch.rand((32, 1, 1), generator=generator)) % period
    return (torch.exp(-(((phase - 8) / 2) ** 2)) + 0.3 * torch.exp(-(((phase - 20) / 5) ** 2))).unsqueeze(1)


def test_new_frames_are_soon_predicted_better_than_by_their_mean() -> None:
    """The loss stays above 0.95 of that of the mean if attention starts uniform, and falls below 0.75 otherwise."""
    torch.manual_seed(0)
    encoder = PatchTransformer(1, 48, patch_size=5, width=48, depth=2, head="none")
    method = MAE(encoder, mask_ratio=0.5, decoder_width=32, decoder_depth=1)
    optimizer, draws = torch.optim.AdamW(method.parameters(), 3e-3), torch.Generator().manual_seed(0)
    ratios = []
    for step in range(100):
        views = beats(draws)
        batch = {"views": views, **method.draw_masks(views, draws)}
        loss = method.training_step(batch, step)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        ratios.append(float(loss.detach()) / float(method.targets(batch).square().mean()))
    assert sum(ratios[-10:]) / 10 < 0.85


@pytest.mark.parametrize("module", [clocs.methods.mae, clocs.methods.masked])
def test_the_examples_are_right(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
