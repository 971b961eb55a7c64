from pathlib import Path

import numpy as np
import pytest

from basecall_train.signal import normalise, read_recording


def test_normalised_signal_does_not_depend_on_the_calibration():
    raw = np.random.default_rng(0).normal(500, 60, 1000)
    assert np.allclose(normalise(raw, 0), normalise(raw * 0.17 - 40, 0), atol=1e-4)
    assert abs(np.median(normalise(raw, 0))) < 1e-6
    assert normalise(raw, 0).std() == pytest.approx(1, abs=0.1)


def test_normalised_signal_is_clipped():
    raw = np.append(np.random.default_rng(0).normal(500, 60, 1000), 5000)
    assert normalise(raw, 5).max() == 5
    assert normalise(raw, 0).max() > 50


def test_constant_signal_is_refused():
    with pytest.raises(ValueError, match="zero"):
        normalise(np.full(100, 7, np.int16), 5)


def test_reads_come_in_file_order(world):
    reads = list(read_recording(world.folder / "reads.blow5"))
    assert [read.id for read in reads] == list(world.reads)[:6]
    assert all(len(read.raw) == 7200 for read in reads)


def _real(name: str) -> Path:
    root = next(p for p in Path(__file__).parents if (p / "go.mod").is_file() or p.parent == p)
    folder = root.parent / "shared" / "data" / name
    if not folder.is_dir():
        pytest.skip("real recordings are not here")
    return folder


def test_the_same_reads_from_both_formats():
    folder = _real("ecoli-r9")
    pod5 = {read.id: read.raw for read in read_recording(folder / "reads.pod5")}
    blow5 = {read.id: read.raw for read in read_recording(folder / "reads.blow5")}
    assert pod5.keys() == blow5.keys() and len(pod5) == 57
    assert all((pod5[name] == blow5[name]).all() for name in pod5)


@pytest.mark.parametrize("name, fault", [("absent.blow5", FileNotFoundError), ("genome.fa", ValueError)])
def test_what_is_not_a_recording_is_named(world, name, fault):
    with pytest.raises(fault, match=name):
        list(read_recording(world.folder / name))


def test_reads_of_a_fast5():
    reads = {read.id: read for read in read_recording(_real("formats/fast5") / "multi_read_test.fast5")}
    assert len(reads) == 5 and sum(len(read.raw) for read in reads.values()) == 593_639
    read = reads["00087eac-80d1-4328-b755-24f4b192c7d0"]
    assert len(read.raw) == 73_731 and read.offset == -254
    # MinKNOW's own figure of the open pore before the read, in picoamperes, is of the same scale.
    assert 60 < (np.median(read.raw) + read.offset) * read.unit < 120


def test_a_fast5_of_vbz_compressed_reads(tmp_path):
    import h5py
    import vbz_h5py_plugin  # noqa: F401 - its import registers the filter with HDF5

    signal = np.random.default_rng(5).normal(500, 60, 5000).astype(np.int16)
    with h5py.File(tmp_path / "one.fast5", "w") as out:
        raw = out.create_group("read_a/Raw")
        raw.attrs["read_id"] = np.bytes_("a")
        raw.create_dataset("Signal", data=signal, chunks=True, compression=32020, compression_opts=(0, 2, 1, 1))
        out.create_group("read_a/channel_id").attrs.update({"range": 1400.0, "digitisation": 8192.0, "offset": 6.0})
    (read,) = read_recording(tmp_path / "one.fast5")
    assert (read.raw == signal).all()


def test_a_single_read_fast5_is_refused():
    file = next(_real("formats/fast5").glob("read_*.fast5"))
    with pytest.raises(ValueError, match="multi-read"):
        list(read_recording(file))
