"""Record what ONT's library has on disk while it writes a POD5 file.

    python generate.py RECORDING.pod5

Writes x.pod5 with small record batches and copies, before it is closed, the three
files that there are then; they only grow until then, so stages.tsv, their lengths
after each read, says what was there at any time. Needs the Python package pod5.
"""

import dataclasses
import glob
import os
import shutil
import sys
import tempfile
import uuid

import lib_pod5
import numpy as np
import pod5

HERE = os.path.dirname(os.path.abspath(__file__))
READS = 23


class SmallBatches(lib_pod5.FileWriterOptions):
    def __init__(self):
        super().__init__()
        self.signal_table_batch_size = 4
        self.read_table_batch_size = 5
        self.max_signal_chunk_size = 40


def main(recording):
    with pod5.Reader(recording) as r:
        base = next(r.reads()).to_read()
    reasons = list(pod5.EndReasonEnum)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "x.pod5")
        options, pod5.writer.p5b.FileWriterOptions = pod5.writer.p5b.FileWriterOptions, SmallBatches
        w = pod5.Writer(path)
        pod5.writer.p5b.FileWriterOptions = options

        def part(suffix):
            return glob.glob(os.path.join(work, ".*" + suffix))[0]

        stages = []
        for i in range(READS):
            w.add_read(pod5.Read(
                read_id=uuid.UUID(int=i + 1),
                pore=pod5.Pore(channel=1 + i, well=1 + i % 4, pore_type="type-%d" % (i // 9)),
                calibration=pod5.Calibration(offset=float(i % 7), scale=0.25),
                read_number=i,
                start_sample=100 * i,
                median_before=200.0,
                end_reason=pod5.EndReason(reasons[i % len(reasons)], i % 2 == 1),
                run_info=dataclasses.replace(base.run_info, acquisition_id="run-%d" % (i // 15)),
                signal=np.arange(i, i + 10 * i, dtype=np.int16),
            ))
            stages.append([os.path.getsize(p) for p in (path, part(".tmp-reads"), part(".tmp-run-info"))])
        print("identifier", os.path.basename(part(".tmp-reads")))
        for suffix, name in ((".tmp-reads", "reads.part"), (".tmp-run-info", "runs.part")):
            shutil.copy(part(suffix), os.path.join(HERE, name))
        shutil.copy(path, os.path.join(HERE, "signal.part"))
        w.close()
        shutil.copy(path, os.path.join(HERE, "finished.pod5"))
    with open(os.path.join(HERE, "stages.tsv"), "w") as out:
        print("#reads_added", "signal.part", "reads.part", "runs.part", sep="\t", file=out)
        for i, sizes in enumerate(stages):
            print(i + 1, *sizes, sep="\t", file=out)


if __name__ == "__main__":
    main(sys.argv[1])
