"""Training in this process, or in several that share each batch.

Problem: GPUs of one machine are to train one network, and the result is to be that of one process.

Strategy: a process for each device has the whole network and data, and knows the whole batch; it computes the gradients of its
share of the rows, and the processes add theirs (gloo on processor cores, NCCL on GPUs). What the loss is divided by, and which
inner values are dropped, is decided for the whole batch in each.

Consequences: weights differ from those of one process in their last bits alone, as sums are made in another order. This process
trains nothing then: it hands out jobs, and sees when one of the others dies, for which NCCL itself would wait.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from torch import distributed

from . import devices as devices_
from .energy import Cost
from .member import Job, Place, train_member

log = logging.getLogger("biomarker_train")

GRACE = 5.0
"""Seconds in which a process that others complain of is seen to be dead, and in which processes may end."""


def one_thread() -> None:
    """The same sums whatever the machine; all matrices are too small to gain from more."""
    import threadpoolctl

    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1)


class Processes:
    """Trains networks on devices, with a process for each if there are several. Use it in a ``with`` statement."""

    def __init__(self, devices: Sequence[torch.device] = (torch.device("cpu"),), precision: str | None = None) -> None:
        """precision: of inner values, fp32 or bf16; None: the fastest of the device."""
        self.devices = list(devices)
        self.precision = precision or devices_.fastest(devices[0])
        self.kind = devices_.kind(devices[0])
        self.processor_seconds = 0.0
        """Of the other processes."""
        self._members: list[torch.multiprocessing.Process] = []
        self._ends: list[Connection] = []
        self._folder: str | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_) -> None:
        self._stop()

    @property
    def describes(self) -> str:
        """Devices and precision, for the report."""
        n = len(self.devices)
        many = "" if n == 1 else f", {n} processes" if self.kind == "CPU" else f", {n} GPUs"
        return f"{devices_.name(self.devices[0])}{many}, {self.precision}"

    @property
    def title(self) -> str:
        """What the report calls networks that were trained here: CPU (fp32) or GPU (bf16)."""
        return f"{self.kind} ({self.precision})"

    @property
    def suffix(self) -> str:
        """Of the names of what lies in the work folder: nothing for single precision on processor cores."""
        return "" if self.title == "CPU (fp32)" else f"-{self.kind.lower()}-{self.precision}"

    def train(self, job: Job) -> tuple[dict[str, torch.Tensor], Cost]:
        """Returns a network's weights and what they cost."""
        if len(self.devices) == 1:
            weights, cost = train_member(job, Place(self.devices, self.precision))
            return weights, replace(cost, devices=self.describes)
        if not self._members:
            self._start()
        try:
            text = pickle.dumps(job)  # Connection.send would put tensors into shared memory, of which containers have little
            for end in self._ends:
                end.send_bytes(text)
        except OSError:
            raise self._died() from None
        return self._wait()

    def _wait(self) -> tuple[dict[str, torch.Tensor], Cost]:
        n = len(self.devices)
        answers: list = [None] * n
        while None in answers:
            ready = wait([*self._ends, *(member.sentinel for member in self._members)])
            for rank, end in enumerate(self._ends):
                if end not in ready:
                    continue
                try:
                    answers[rank] = pickle.loads(end.recv_bytes())
                except (OSError, EOFError):
                    raise self._died() from None
                if isinstance(answers[rank], str):
                    raise self._died(f"training process {rank + 1} of {n}: {answers[rank]}")
            if not all(member.is_alive() for member in self._members):
                raise self._died()
        weights, cost = answers[0]
        others = sum(other.processor_seconds for _, other in answers[1:])
        cost = replace(cost, processor_seconds=cost.processor_seconds + others, devices=self.describes)
        self.processor_seconds += cost.processor_seconds
        return weights, cost

    def _died(self, otherwise: str = "a training process ended") -> RuntimeError:
        """Ends all processes. Returns what to say: which one died, or what a process said if none has."""
        ending = wait([member.sentinel for member in self._members], GRACE)
        for member in self._members:
            if member.sentinel in ending:
                member.join(GRACE)  # its pipes are closed before it can be asked how it ended
        dead = [(rank, member.exitcode) for rank, member in enumerate(self._members) if member.exitcode]
        self._stop()
        if dead:
            rank, code = dead[0]
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            otherwise = f"training process {rank + 1} of {len(self.devices)} {how}"
            return RuntimeError(f"{otherwise}; all were stopped: run the command again, it goes on from what was saved")
        return RuntimeError(f"{otherwise}; all were stopped")

    def _start(self) -> None:
        context = torch.multiprocessing.get_context("spawn")
        self._folder = tempfile.mkdtemp(prefix="biomarker-train-")
        for rank in range(len(self.devices)):
            mine, its = context.Pipe()
            place = Place(self.devices, self.precision, rank)
            member = context.Process(
                target=_work, args=(place, str(Path(self._folder) / "meet"), its, log.getEffectiveLevel()), daemon=True
            )
            member.start()
            its.close()
            self._members.append(member)
            self._ends.append(mine)

    def _stop(self) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            member.join(GRACE)
            if member.is_alive():
                member.kill()
                member.join()
        for end in self._ends:
            end.close()
        self._members, self._ends = [], []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _work(place: Place, meet: str, end: Connection, level: int) -> None:
    """What one of several processes does: jobs, until nobody sends any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        one_thread()
        if place.device.type == "cuda":
            torch.cuda.set_device(place.device)
        elif sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all processes are on this machine
        backend = "nccl" if place.device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, init_method=f"file://{meet}", rank=place.rank, world_size=len(place.devices))
        while True:
            try:
                job = pickle.loads(end.recv_bytes())
            except EOFError:
                return
            end.send_bytes(pickle.dumps(train_member(job, place)))
    except Exception as fault:  # the other side says it in one line
        text = str(fault).strip().splitlines()
        end.send_bytes(pickle.dumps(text[0] if text else type(fault).__name__))
        with contextlib.suppress(EOFError):
            end.recv_bytes()  # stays, so that no other process complains that this one is gone
