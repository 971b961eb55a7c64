"""Reading recordings and normalising their current."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution per median absolute deviation."""


@dataclass(frozen=True)
class Read:
    """One recorded read: its id and its samples as the converter's integers; (raw + offset) * unit is in picoamperes."""

    id: str
    raw: np.ndarray
    offset: float = 0.0
    unit: float = 1.0


def read_recording(path: Path) -> Iterator[Read]:
    """Yields the reads of a BLOW5/SLOW5, POD5 or multi-read FAST5 file in file order, in FAST5 by id."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such recording")
    if suffix in (".blow5", ".slow5"):
        import pyslow5

        recording = pyslow5.Open(str(path), "r")
        try:
            for record in recording.seq_reads():
                unit = record["range"] / record["digitisation"] if record["digitisation"] else 1.0
                yield Read(record["read_id"], record["signal"], record["offset"], unit)
        finally:
            recording.close()
    elif suffix == ".pod5":
        import pod5

        with pod5.Reader(path) as recording:
            for record in recording.reads():
                yield Read(str(record.read_id), record.signal, record.calibration.offset, record.calibration.scale)
    elif suffix == ".fast5":
        yield from _read_fast5(path)
    else:
        raise ValueError(f"{path}: recordings are .blow5, .slow5, .pod5 or .fast5 files")


def _read_fast5(path: Path) -> Iterator[Read]:
    import h5py
    import vbz_h5py_plugin  # noqa: F401 - its import registers the decompression of such signal with HDF5

    with h5py.File(path) as recording:
        for name, group in recording.items():
            if "Raw/Signal" not in group or "channel_id" not in group:
                raise ValueError(f"{path}: {name} is no read of a multi-read FAST5 (pore signal convert makes POD5 of any)")
            channel = group["channel_id"].attrs
            unit = channel["range"] / channel["digitisation"]
            yield Read(group["Raw"].attrs["read_id"].decode(), group["Raw/Signal"][:], float(channel["offset"]), float(unit))


def normalise(raw: np.ndarray, clip: float) -> np.ndarray:
    """Returns (raw - median) / (1.4826 MAD) as float32, limited to ±clip (0: unlimited).

    The calibration to picoamperes is affine and therefore cancels out. A signal without any spread has nothing to call
    and is refused.
    """
    current = raw.astype(np.float32)
    median = np.median(current)
    spread = MAD_TO_SIGMA * np.median(np.abs(current - median))
    if spread == 0:
        raise ValueError("signal has a median absolute deviation of zero")
    scaled = (current - median) / np.float32(spread)
    return np.clip(scaled, -clip, clip) if clip > 0 else scaled
