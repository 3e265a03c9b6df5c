"""Networks on ONNX Runtime, without torch."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

# Set before ONNX Runtime is imported. Otherwise it sends telemetry and stores a machine id in the user's home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class OnnxNetwork:
    """Network of an ONNX file, from frames (N, C, S) and, for C > 1, a lead mask (N, C) to embeddings (N, E).

    It cannot be pickled. Several threads may call it concurrently.

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
            disabled_optimizers=["ConvBNFusion"],  # less precise, and hardly faster
        )
        self._inputs = [node.name for node in self._session.get_inputs()]

    def __call__(self, signals: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        inputs = dict(zip(self._inputs, (signals, lead_mask), strict=False))  # files for one lead take no mask
        embeddings: Floats = self._session.run(None, inputs)[0]
        return embeddings
