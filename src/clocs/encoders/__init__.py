"""Encoders, one file each: modules from frames (N, C, S) to embeddings (N, E)."""

from clocs.encoders.cnn import CNN
from clocs.encoders.encoder import ENCODERS, Encoder, build_encoder, register
from clocs.encoders.lead_and_joint import LeadAndJointEncoder
from clocs.encoders.patch_transformer import PatchTransformer
from clocs.encoders.pca import PCAEncoder
from clocs.encoders.resnet import ResNet
from clocs.encoders.s4d import S4D
from clocs.encoders.wrapped import wrap

__all__ = [
    "CNN",
    "ENCODERS",
    "S4D",
    "Encoder",
    "LeadAndJointEncoder",
    "PCAEncoder",
    "PatchTransformer",
    "ResNet",
    "build_encoder",
    "register",
    "wrap",
]
