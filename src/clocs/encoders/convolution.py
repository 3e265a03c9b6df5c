"""Convolution with channels last in memory, which makes the following layers fast on a CPU."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import conv2d


def convolve(hidden: Tensor, convolution: nn.Conv1d) -> Tensor:
    """Apply a convolution: (N, C, L) -> (N, L', C'), with channels last in memory."""
    weight, (kernel,), (stride,) = convolution.weight, convolution.kernel_size, convolution.stride
    if hidden.shape[1] == 1:  # for one channel, a matrix product of windows is faster
        windows = hidden[:, 0].unfold(1, kernel, stride)
        return (windows.reshape(-1, kernel) @ weight[:, 0].T).view(*windows.shape[:2], -1)
    outputs = conv2d(hidden.unsqueeze(2), weight.unsqueeze(2), stride=(1, stride))
    return outputs.squeeze(2).transpose(1, 2).contiguous()
