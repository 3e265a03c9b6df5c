"""Augmentations of ECG frames: those of the paper's appendix B, MT-SSL's (appendix C), and some of our own.

Each is a callable ``augment(signals, generator=None)`` on (N, C, S) and can be used alone.
"""

from clocs.augmentations.amplitude import FlipAmplitude, Scaling
from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, register, uniform
from clocs.augmentations.compose import Compose, changed_augmentations, describe_augmentations, parse_augmentations
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
    "changed_augmentations",
    "describe_augmentations",
    "parse_augmentations",
    "register",
    "uniform",
]
