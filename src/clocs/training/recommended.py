"""What we recommend beyond the paper, chosen by validation patients alone (docs/results/search.md).

The paper's positive pairs, each of which weighs as much as any other, with a small residual network in place of its
own, plain millivolt, and augmented views: an instance gives two, of two segments and of two leads drawn at random.
Several stores take turns; afterwards the embedding becomes principal components (``clocs.evaluation.principal``).
"""

from __future__ import annotations

from typing import Any, Final

AUGMENTATIONS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "scaling", "low": 0.7, "high": 1.4},
    {"name": "gaussian_noise", "sigma": 0.02},
    {"name": "baseline_wander", "amplitude": 0.1},
    {"name": "mask", "width": 0.2},
)

RECOMMENDED: Final[dict[str, Any]] = {
    "method": {
        "name": "cmsmlc",
        "off_diagonals": "alike",
        "view_choice": "random_pair",
        "augmentations": AUGMENTATIONS,
    },
    "encoder": {"name": "resnet"},
    "frames": {"normalization": "none"},
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "warmup_steps": 200,
    "max_steps": 9_000,
    "max_epochs": 400,
    "patience": 400,
    "precision": "bf16-mixed",
}
"""Keys of a pre-training's config. The length is for about 20,000 patients."""
