"""Write the reads of a POD5 file to another one with ONT's library, at a reader's pace.

    python write_pod5.py IN.pod5 OUT.pod5

Each line on standard input is a number of reads to write, and is answered with how
many were written in all. When the input ends, the rest is written and the file is
finished. Record batches are small, so that what is written can be seen soon.
"""

import sys

import lib_pod5
import pod5


class SmallBatches(lib_pod5.FileWriterOptions):
    def __init__(self):
        super().__init__()
        self.signal_table_batch_size = 2
        self.read_table_batch_size = 4


def main(source, path):
    pod5.writer.p5b.FileWriterOptions = SmallBatches
    with pod5.Reader(source) as reader, pod5.Writer(path) as writer:
        reads = (record.to_read() for record in reader.reads())
        written = 0
        for line in sys.stdin:
            for _, read in zip(range(int(line)), reads):
                writer.add_read(read)
                written += 1
            print(written, flush=True)
        for read in reads:
            writer.add_read(read)


if __name__ == "__main__":
    main(*sys.argv[1:])
