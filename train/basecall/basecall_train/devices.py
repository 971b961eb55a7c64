"""Where a network is trained: processor cores, or one or several GPUs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import nn

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def chosen(text: str) -> list[torch.device]:
    """Returns the devices that ``auto``, ``cpu``, ``cuda`` (all GPUs) or ``cuda:0,1`` name."""
    gpus = torch.cuda.device_count()
    kind, _, numbers = text.partition(":")
    if text == "cpu" or (text == "auto" and not gpus):
        return [torch.device("cpu")]
    if text != "auto" and kind != "cuda":
        raise ValueError(f"device {text!r} is none of auto, cpu, cuda, cuda:0,1")
    if not gpus:
        raise ValueError(f"device {text!r}: PyTorch sees no GPU here")
    try:
        indices = [int(n) for n in numbers.split(",")] if numbers else list(range(gpus))
    except ValueError:
        raise ValueError(f"device {text!r} is none of auto, cpu, cuda, cuda:0,1") from None
    if not all(0 <= n < gpus for n in indices):
        raise ValueError(f"device {text!r}: there are {gpus} GPUs, counted from 0")
    return [torch.device("cuda", n) for n in indices]


def fast_bfloat16(device: torch.device) -> bool:
    """Says whether a device multiplies 16-bit numbers faster than 32-bit ones. Without AVX-512 that is twelve times slower."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


class Workers:
    """Devices that work on the pieces of a batch side by side, each with the network's weights.

    The first device has the network itself, the others have copies. A piece's device depends on its place alone, and results come
    in the order of the pieces: what is summed over them does not depend on who was first.
    """

    def __init__(self, network: nn.Module, devices: Sequence[torch.device], threads: int, half: bool | None = None) -> None:
        """threads: pieces that are worked on at a time on processor cores. half: bfloat16 in the network; None: where fast."""
        self.devices = list(devices)
        self.half = fast_bfloat16(devices[0]) if half is None else half
        self._networks = [network.to(devices[0]), *(copy.deepcopy(network).to(device) for device in devices[1:])]
        # GPUs have their own parallelism: a thread each keeps them busy.
        self._pool = ThreadPoolExecutor(
            max(threads, len(devices)) if devices[0].type == "cpu" else len(devices),
            initializer=torch.set_num_threads,
            initargs=(1,),
        )

    def map(self, function: Callable[[nn.Module, torch.device, Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        """Returns function(network, device, piece) of all pieces, in their order."""
        places = [i % len(self.devices) for i in range(len(pieces))]
        return list(self._pool.map(lambda at, piece: function(self._networks[at], self.devices[at], piece), places, pieces))

    def spread(self, function: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor, parts: int) -> torch.Tensor:
        """Returns function of a tensor that is worked on in so many parts along its first axis."""
        if tensor.is_cuda:
            return function(tensor)
        return torch.cat(list(self._pool.map(function, tensor.chunk(parts))))

    def synchronise(self) -> None:
        """Gives the copies the weights of the network."""
        with torch.no_grad():
            source = list(self._networks[0].parameters())
            for other in self._networks[1:]:
                for mine, its in zip(other.parameters(), source, strict=True):
                    mine.copy_(its)
