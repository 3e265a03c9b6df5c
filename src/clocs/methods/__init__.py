"""Pre-training methods, one file each. A method is an ``nn.Module`` built from an encoder."""

from clocs.methods.byol import BYOL
from clocs.methods.cmlc import CMLC
from clocs.methods.cmsc import CMSC
from clocs.methods.cmsmlc import CMSMLC
from clocs.methods.contrast import ContrastiveMethod, PatientContrast
from clocs.methods.cpc import CPC
from clocs.methods.jepa import JEPA
from clocs.methods.mae import MAE
from clocs.methods.masked import MaskedMethod
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs, build_method, register
from clocs.methods.mtssl import MTSSL
from clocs.methods.simclr import SimCLR
from clocs.methods.supervised import Supervised
from clocs.methods.vicreg import VICReg

__all__ = [
    "BYOL",
    "CMLC",
    "CMSC",
    "CMSMLC",
    "CPC",
    "JEPA",
    "MAE",
    "METHODS",
    "MTSSL",
    "Augmentations",
    "Batch",
    "ContrastiveMethod",
    "MaskedMethod",
    "Method",
    "Outputs",
    "PatientContrast",
    "SimCLR",
    "Supervised",
    "VICReg",
    "build_method",
    "register",
]
