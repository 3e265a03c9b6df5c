"""Augmentations of ECG frames: those of the paper (appendix B), of MT-SSL (appendix C) and others.

Each is a callable ``augment(signals, generator=None)`` on frames (N, C, S) and can be used alone.
"""

from clocs.augmentations.amplitude import FlipAmplitude, Scaling
from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, register
from clocs.augmentations.compose import Compose
from clocs.augmentations.leads import LeadDropout, RandomLeads
from clocs.augmentations.masks import Mask, SpecAugmentFrequency, SpecAugmentTime
from clocs.augmentations.noise import BaselineWander, GaussianNoise
from clocs.augmentations.time import FlipTime, Permutation, TimeWarping

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "BaselineWander",
    "Compose",
    "FlipAmplitude",
    "FlipTime",
    "GaussianNoise",
    "LeadDropout",
    "Mask",
    "Permutation",
    "RandomLeads",
    "Scaling",
    "SpecAugmentFrequency",
    "SpecAugmentTime",
    "TimeWarping",
    "register",
]
