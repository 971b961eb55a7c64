"""The engine's program: calls with its normalisation, windows and beam search, and signal that it simulates."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import mappy
import numpy as np

from .calling import Call
from .manifest import Manifest


class Engine:
    """The program ``pore`` with a model whose qualities are not calibrated."""

    def __init__(self, pore: Path, model: Path) -> None:
        """pore: the program. model: the folder of a model, which stays as it is."""
        if not shutil.which(pore):
            raise FileNotFoundError(f"{pore}: no such program (make build makes bin/pore)")
        self._pore, self._model = pore, model
        self.seconds = 0.0
        """Processor time of the program so far."""

    def calls(self, recording: Path, reads: Sequence[str] = ()) -> Iterator[Call]:
        """Yields the calls of a recording's reads, or of some of them by id, without frames."""
        with tempfile.TemporaryDirectory() as work:
            raw = Path(work) / "model"
            raw.mkdir()
            manifest = Manifest.load(self._model / "manifest.toml")
            shutil.copy(self._model / manifest.file, raw)
            replace(manifest, half_file="", quality_scale=1.0, quality_bias=0.0, quality_curve=()).write(raw)
            fastq = Path(work) / "calls.fastq"
            chosen: list[str | Path] = []
            if reads:
                chosen = ["--reads", Path(work) / "reads.txt"]
                chosen[1].write_text("\n".join(reads) + "\n")
            before = _children()
            with fastq.open("wb") as out:
                _run(self._pore, "basecall", recording, "--model", raw, *chosen, recording, out=out)
            self.seconds += _children() - before
            for _, bases, qualities in mappy.fastx_read(str(fastq)):
                phred = np.frombuffer(qualities.encode(), np.uint8) - 33.0
                yield Call(bases, np.empty(0, np.int64), 1 - 10 ** (-phred / 10))


def simulated_run(pore: Path | None, reference: Path, flags: Sequence[str], folder: Path) -> Path:
    """Has ``pore simulate`` make the signal of a genome without variants, and returns the recording.

    flags: its other flags.
    """
    if not pore or not shutil.which(pore):
        raise FileNotFoundError(
            f"{pore or 'pore'}: no such program, and {reference.name} is to be simulated (--pore; make build makes bin/pore)"
        )
    _run(pore, "simulate", reference, "--ref", reference, "--variants", "none", *flags, "--out", folder)
    return folder / "reads.pod5"


def _run(pore: Path, command: str, about: Path, *arguments: str | Path, out: BinaryIO | int = subprocess.DEVNULL) -> None:
    """Runs a command of the program; an error says what it was about, and the program's last line."""
    done = subprocess.run([pore, command, *arguments], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{pore} {command} {about}: {done.stderr.strip().splitlines()[-1:]}")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
