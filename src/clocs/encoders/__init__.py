"""Layer 3: one encoder each, (N, C, S) to (N, E)."""

from clocs.encoders.encoder import ENCODERS, EncoderKind, build_encoder

__all__ = ["ENCODERS", "EncoderKind", "build_encoder"]
