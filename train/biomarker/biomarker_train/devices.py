"""Where networks are trained: processor cores, or one or several GPUs."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def chosen(text: str, processes: int = 1) -> list[torch.device]:
    """Returns a device for each process, as ``auto``, ``cpu``, ``cuda`` (all GPUs) or ``cuda:0,1`` name them.

    processes: how many share each batch on processor cores. Each GPU has one.
    """
    gpus = torch.cuda.device_count()
    kind, _, numbers = text.partition(":")
    if processes < 1:
        raise ValueError(f"--processes {processes}: want 1 or more")
    if text == "cpu" or (text == "auto" and not gpus):
        return [torch.device("cpu")] * processes
    if text != "auto" and kind != "cuda":
        raise ValueError(f"--devices {text!r} is none of auto, cpu, cuda, cuda:0,1")
    if not gpus:
        raise ValueError(f"--devices {text!r}: PyTorch sees no GPU here; take --devices cpu")
    if processes > 1:
        raise ValueError(f"--processes {processes} is for processor cores: each GPU has one, and --devices says which GPUs")
    try:
        indices = [int(n) for n in numbers.split(",")] if numbers else list(range(gpus))
    except ValueError:
        raise ValueError(f"--devices {text!r} is none of auto, cpu, cuda, cuda:0,1") from None
    if not all(0 <= n < gpus for n in indices):
        raise ValueError(f"--devices {text!r}: there are {gpus} GPUs, counted from 0")
    if len(set(indices)) < len(indices):
        raise ValueError(f"--devices {text!r} names a GPU twice")
    return [torch.device("cuda", n) for n in indices]


def fastest(device: torch.device) -> str:
    """Returns the precision of inner values that a device is given if none is asked for.

    On a processor it is single precision, so that the same tables make the same bytes.
    """
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"


def kind(device: torch.device) -> str:
    """Returns what the report calls a device: CPU or GPU."""
    return "GPU" if device.type == "cuda" else "CPU"


def name(device: torch.device) -> str:
    """Returns what the maker calls a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Returns the context in which a network has inner values of a precision. Its weights and their updates stay float32."""
    wanted = precision != "fp32"
    return torch.autocast(device.type, dtype=PRECISIONS[precision] if wanted else None, enabled=wanted)
