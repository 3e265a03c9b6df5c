"""Networks run by ONNX Runtime. Needs no torch."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

# Before ONNX Runtime is loaded: else it reports about the machine, and keeps an id for it in the user's home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class OnnxNetwork:
    """The network of an ONNX file: (N, C, S) frames and, for C > 1, their (N, C) lead mask to (N, E) embeddings.

    A network does not pickle. Several threads may call it at once.

    Args:
        raw: The bytes of the file.
        num_threads: Threads that share the work of one call.
    """

    package = "onnxruntime"

    def __init__(self, raw: bytes, num_threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
        self._session: Any = onnxruntime.InferenceSession(
            raw,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["ConvBNFusion"],  # several times as far from torch, and hardly quicker
        )
        self._inputs = [given.name for given in self._session.get_inputs()]

    def __call__(self, signals: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        given = {"signals": signals, "lead_mask": lead_mask}
        found: Floats = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        return found
