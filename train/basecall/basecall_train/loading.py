"""Batches made ahead of the steps that learn from them."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import torch

from .store import Batch, Sampler


class Loader:
    """Makes batches of coming steps while the network learns. Which these are does not depend on how many are made at a time."""

    def __init__(self, sampler: Sampler, processes: int = 0) -> None:
        """processes: how many make batches side by side, as a GPU needs; 0: a thread of this one, which two cores are served by.

        Processes are forked at once: before there is anything on a GPU, which a forked process must not share.
        """
        self._sampler, self._processes = sampler, processes
        self._pool: Executor
        if processes:
            self._pool = ProcessPoolExecutor(
                processes, multiprocessing.get_context("fork"), initializer=_adopt, initargs=(sampler,)
            )
            self._pool.submit(int).result()  # makes all of them
        else:
            self._pool = ThreadPoolExecutor(1)

    def batches(self, step: int) -> Iterator[Batch]:
        """Yields the batches of this step and all that follow."""
        ahead: deque[Future] = deque()
        try:
            while True:
                while len(ahead) < self._processes + 2:  # the one to learn from, and one for the process that makes them
                    ahead.append(self._begin(step + len(ahead)))
                made = ahead.popleft().result()
                step += 1
                if self._processes:
                    current, targets, *others = made
                    made = Batch(torch.from_numpy(current), torch.from_numpy(targets), *others)
                yield made
        finally:
            for one in ahead:
                one.cancel()

    def _begin(self, step: int) -> Future:
        return self._pool.submit(_make, step) if self._processes else self._pool.submit(self._sampler.batch, step)

    def close(self) -> None:
        """Ends what it has begun."""
        self._pool.shutdown(cancel_futures=True)


_mine: Sampler | None = None
"""Of a process that makes batches; a pool can't give its processes anything else."""


def _adopt(sampler: Sampler) -> None:
    global _mine
    _mine = sampler
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer ends them once it has saved what it learned


def _make(step: int) -> tuple[np.ndarray, ...]:
    """Returns a batch as arrays, which pass between processes by their bytes; tensors would need an open file each."""
    made = _mine.batch(step)
    return made.signal.numpy(), made.targets.numpy(), made.bases, made.sources
