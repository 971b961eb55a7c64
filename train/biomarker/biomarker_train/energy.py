"""What training costs: seconds, seconds of processor time, and joules where the machine counts them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Cost:
    """What the training of a network cost. Joules are None where nothing counts them; the reason is beside them."""

    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Of all processes that trained it."""
    processor_joules: float | None = None
    """Of all processors of the machine, whatever else ran on them."""
    gpu_joules: float | None = None
    """Of the GPUs that it was trained on."""
    no_processor_joules: str = ""
    no_gpu_joules: str = ""
    devices: str = ""
    """What it was trained on."""

    def __add__(self, other: Cost) -> Cost:
        """Both costs. A sum of which one part isn't known isn't known."""

        def both(a: float | None, b: float | None) -> float | None:
            return None if a is None or b is None else a + b

        return Cost(
            self.seconds + other.seconds,
            self.processor_seconds + other.processor_seconds,
            both(self.processor_joules, other.processor_joules),
            both(self.gpu_joules, other.gpu_joules),
            self.no_processor_joules or other.no_processor_joules,
            self.no_gpu_joules or other.no_gpu_joules,
            "; ".join(dict.fromkeys(part for cost in (self, other) for part in cost.devices.split("; ") if part)),
        )


class Meter:
    """Measures the cost from its making on."""

    def __init__(self, devices: Sequence[torch.device], powercap: Path = POWERCAP) -> None:
        """devices: of all processes."""
        self._begun, self._processor = time.monotonic(), time.process_time()
        self._rapl, self._nvml = _Rapl(powercap), _Nvml([device for device in devices if device.type == "cuda"])

    def tick(self) -> None:
        """Reads the processors' counters, which start again at 0 after some minutes: call it more often."""
        self._rapl.tick()

    def cost(self) -> Cost:
        """The cost until now."""
        self.tick()
        gpu = self._nvml.joules()
        return Cost(
            time.monotonic() - self._begun, time.process_time() - self._processor,
            self._rapl.joules, gpu, self._rapl.missing, self._nvml.missing,
        )  # fmt: skip


class _Rapl:
    """The counters of processor packages (Intel's running average power limit, which AMD's drivers have too)."""

    def __init__(self, powercap: Path) -> None:
        self.joules: float | None = None
        self.missing = ""
        self._zones: list[tuple[Path, int]] = []
        self._last: list[int] = []
        try:
            for zone in sorted(powercap.glob("intel-rapl:*")):
                if (zone / "name").read_text().startswith("package"):
                    self._zones.append((zone / "energy_uj", int((zone / "max_energy_range_uj").read_text())))
            if not self._zones:
                self.missing = f"{powercap} has no counter of a processor"
                return
            self._last = self._read()
            self.joules = 0.0
        except (OSError, ValueError) as fault:
            self.missing = _cannot(fault)

    def _read(self) -> list[int]:
        return [int(path.read_text()) for path, _ in self._zones]

    def tick(self) -> None:
        if self.joules is None:
            return
        try:
            now = self._read()
        except (OSError, ValueError) as fault:
            self.joules, self.missing = None, _cannot(fault)
            return
        for (_, span), before, after in zip(self._zones, self._last, now, strict=True):
            self.joules += (after - before if after >= before else after - before + span) / 1e6
        self._last = now


class _Nvml:
    """The counters of GPUs, by NVIDIA's management library."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self.missing = ""
        self._begun: list[int] | None = None
        if not devices:
            self.missing = "no GPU was used"
            return
        try:
            import pynvml
        except ImportError:
            self.missing = "the Python package nvidia-ml-py is not installed"
            return
        self._library = pynvml
        try:
            pynvml.nvmlInit()
            # PyTorch counts the GPUs that it may see, NVML all there are: the identifier is common to both.
            names = [f"GPU-{torch.cuda.get_device_properties(device).uuid}" for device in devices]
            self._handles = [pynvml.nvmlDeviceGetHandleByUUID(name) for name in names]
            self._begun = self._read()
        except (pynvml.NVMLError, AttributeError) as fault:  # a PyTorch before 2.4 doesn't say the identifier
            self.missing = f"NVML: {fault}"

    def _read(self) -> list[int]:
        return [self._library.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in self._handles]

    def joules(self) -> float | None:
        if self._begun is None:
            return None
        try:
            return (sum(self._read()) - sum(self._begun)) / 1e3
        except self._library.NVMLError as fault:
            self.missing = f"NVML: {fault}"
            return None


def _cannot(fault: Exception) -> str:
    if isinstance(fault, OSError):
        return f"{fault.filename} can't be read: {fault.strerror}"
    return f"a counter can't be read: {fault}"
