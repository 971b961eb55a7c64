"""Print what the formats' own packages read in files, a line for each read.

    python official.py all FILE       everything that the format has
    python official.py common FILE    what POD5 and BLOW5 both have, alike for both
    python official.py convert FAST5  a line for each read of the POD5 file that ONT's converter makes of it, as common

Several such pairs may follow each other; a line "--" ends what is printed for each.

Needs the Python packages pod5, pyslow5 and numpy.
"""

import dataclasses
import hashlib
import os
import pathlib
import sys
import tempfile

import numpy as np


def digest(samples):
    return "%d %s" % (len(samples), hashlib.sha256(np.asarray(samples, dtype="<i2").tobytes()).hexdigest())


def f32(x):
    return "%.9g" % np.float32(float("nan") if x is None else x)


def pod5_lines(path, everything):
    import pod5

    with pod5.Reader(path) as r:
        for rd in r.reads():
            if everything:
                read = rd.to_read()
                signal, read.signal = read.signal, None
                yield "%r %r %s" % (read, dataclasses.asdict(rd.run_info), digest(signal))
                continue
            yield " ".join(map(str, (
                rd.read_id, rd.run_info.acquisition_id, rd.run_info.sample_rate, rd.run_info.flow_cell_id, rd.run_info.sample_id,
                rd.pore.channel, rd.pore.well, rd.read_number, rd.start_sample, digest(rd.signal),
                f32(rd.calibration.offset), f32(rd.calibration.scale), f32(rd.median_before), rd.end_reason.name,
            )))


def blow5_lines(path, everything):
    import pyslow5

    s = pyslow5.Open(path, "r")
    names = s.get_aux_names() or []
    labels = s.get_aux_enum_labels("end_reason") if "end_reason" in names else []
    for rd in s.seq_reads(aux="all" if names else None):
        header = s.get_all_headers(rd["read_group"])
        if everything:
            rd["signal"] = digest(rd["signal"])
            del rd["read_group"]  # a number in the file; the header is what it means
            yield repr((sorted(rd.items()), sorted(header.items())))
            continue
        reason = rd.get("end_reason")
        yield " ".join(map(str, (
            rd["read_id"], header["run_id"], int(rd["sampling_rate"]), header.get("flow_cell_id") or "", header.get("sample_id") or "",
            rd["channel_number"], rd["start_mux"], rd["read_number"], rd["start_time"], digest(rd["signal"]),
            f32(rd["offset"]), f32(rd["range"] / rd["digitisation"]), f32(rd["median_before"]),
            labels[reason] if reason is not None and reason < len(labels) else "unknown",
        )))


def converted_lines(path):
    from pod5.tools.pod5_convert_from_fast5 import convert_from_fast5

    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "converted.pod5")
        with open(os.devnull, "w") as nowhere:  # its progress
            out, sys.stdout = sys.stdout, nowhere
            try:
                convert_from_fast5([pathlib.Path(path)], pathlib.Path(to), threads=1, strict=True)
            finally:
                sys.stdout = out
        yield from pod5_lines(to, False)


if __name__ == "__main__":
    for mode, path in zip(sys.argv[1::2], sys.argv[2::2]):
        if mode == "convert":
            lines = converted_lines(path)
        elif path.endswith(".pod5"):
            lines = pod5_lines(path, mode == "all")
        else:
            lines = blow5_lines(path, mode == "all")
        for line in lines:
            print(line)
        print("--")
