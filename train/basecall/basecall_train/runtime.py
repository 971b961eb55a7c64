"""ONNX Runtime on a processor core, which all of the training runs networks of ONNX by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np


def opened(network: Path | bytes, threads: int = 1):
    """Returns a session of a file or of a serialised graph. Several threads may run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    source = str(network) if isinstance(network, Path) else network
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def check(graph: bytes, inputs: Mapping[str, np.ndarray], scores: np.ndarray, most: float, name: str) -> None:
    """Raises an error if a graph gives other scores than the network that it was made of, by more than most."""
    difference = np.abs(opened(graph).run(["scores"], dict(inputs))[0] - scores).max()
    if not difference <= most:
        raise RuntimeError(f"{name}: the exported graph differs from the network by {difference:.2e}")
