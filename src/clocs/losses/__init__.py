"""Losses. Each is an ``nn.Module`` that can be used without the rest of the package."""

from clocs.losses.byol import BYOLLoss
from clocs.losses.classification import ClassificationLoss
from clocs.losses.cpc import CPCLoss
from clocs.losses.decorrelation import DecorrelationLoss
from clocs.losses.info_nce import InfoNCELoss
from clocs.losses.loss import LOSSES, Loss, register
from clocs.losses.multi_task import MultiTaskLoss
from clocs.losses.patient_nce import PatientNCELoss
from clocs.losses.vicreg import VICRegLoss

__all__ = [
    "LOSSES",
    "BYOLLoss",
    "CPCLoss",
    "ClassificationLoss",
    "DecorrelationLoss",
    "InfoNCELoss",
    "Loss",
    "MultiTaskLoss",
    "PatientNCELoss",
    "VICRegLoss",
    "register",
]
