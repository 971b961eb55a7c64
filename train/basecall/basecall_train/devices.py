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


def fastest(device: torch.device) -> torch.dtype:
    """Returns the type of inner values with which a device trains fastest. Without AVX-512, bfloat16 is twelve times slower."""
    if device.type == "cuda":
        return torch.float16
    return torch.bfloat16 if torch.backends.cpu.get_cpu_capability().startswith("AVX512") else torch.float32


def autocast(device: torch.device, precision: torch.dtype) -> torch.autocast:
    """Returns the context in which networks on a device have inner values of a type."""
    wanted = precision != torch.float32
    return torch.autocast(device.type, dtype=precision if wanted else None, cache_enabled=False, enabled=wanted)


class LossScale:
    """The factor by which a loss is enlarged so that its gradients are not too small for float16, whose least number is 6e-8
    (Micikevicius et al. 2018, arXiv:1710.03740, section 3.2). Other types need none."""

    PATIENCE = 500
    """Steps without a gradient too large after which the factor is doubled."""
    MOST = 2.0**24

    def __init__(self, precision: torch.dtype) -> None:
        self._needed = precision == torch.float16
        self.factor = 2.0**15 if self._needed else 1.0
        self._good = 0

    def settle(self, finite: bool) -> bool:
        """Learns whether all gradients of a step were finite. Returns whether it was the factor that was too large."""
        if not self._needed:
            return False
        self._good = self._good + 1 if finite else 0
        if not finite:
            self.factor /= 2
        elif self._good % self.PATIENCE == 0:
            self.factor = min(2 * self.factor, self.MOST)
        return not finite and self.factor >= 1

    def state_dict(self) -> dict:
        """Returns what :meth:`load_state_dict` needs to go on exactly."""
        return {"factor": self.factor, "good": self._good}

    def load_state_dict(self, state: dict) -> None:
        """Restores the scale, of a run in another precision nothing."""
        if self._needed and state["factor"] > 1:
            self.factor, self._good = state["factor"], state["good"]


class Workers:
    """Devices that work on the pieces of a batch side by side, each with the network's weights.

    The first device has the network itself, the others have copies. A piece's device depends on its place alone, and results come
    in the order of the pieces: sums over them do not depend on which device was first.
    """

    def __init__(
        self, network: nn.Module, devices: Sequence[torch.device], threads: int, precision: torch.dtype | None = None
    ) -> None:
        """threads: pieces that are worked on at a time on processor cores. precision: of inner values; None: the fastest."""
        self.devices = list(devices)
        self.precision = precision or fastest(devices[0])
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
