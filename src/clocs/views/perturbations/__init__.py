"""Perturbations of ECG frames: those of the paper's appendix B, MT-SSL's (appendix C), and some of our own."""

from clocs.views.perturbations.perturbation import (
    PERTURBATIONS,
    Perturbation,
    parse_perturbations,
    perturb,
)

__all__ = ["PERTURBATIONS", "Perturbation", "parse_perturbations", "perturb"]
