"""Layer 3: pre-training methods, one file each."""

from clocs.methods.byol import BYOL
from clocs.methods.cmlc import CMLC
from clocs.methods.cmsc import CMSC
from clocs.methods.cmsmlc import CMSMLC
from clocs.methods.contrast import ContrastiveMethod, PatientContrast
from clocs.methods.cpc import CPC
from clocs.methods.jepa import JEPA
from clocs.methods.mae import MAE
from clocs.methods.masked import MaskedMethod
from clocs.methods.method import METHODS, Batch, Method, Outputs, build_method, changed_method, parse_method
from clocs.methods.mtssl import MTSSL
from clocs.methods.simclr import SimCLR
from clocs.methods.supervised import Supervised
from clocs.methods.vicreg import VICReg

register = METHODS.register

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
    "changed_method",
    "parse_method",
    "register",
]
