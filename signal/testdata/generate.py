"""Make the test data of the signal packages with the formats' own libraries.

    python generate.py fixtures DATA   small files, from three reads of a real recording
    python generate.py many DATA       a POD5 file of 1,010 tiny reads: several record batches
    python generate.py golden DATA     what ONT's and the SLOW5 authors' readers see in larger files

DATA is a folder of recordings (lambda-r9/reads.pod5 for the fixtures). Needs the
Python packages pod5, pyslow5 (built with zstd) and numpy. The reads are from the
phage lambda run of genomicsITER/NanoDJ, cut to a few thousand samples.
"""

import dataclasses
import gzip
import hashlib
import os
import sys
import uuid

import numpy as np
import pod5
import pyslow5

HERE = os.path.dirname(os.path.abspath(__file__))

GOLDEN = [
    "formats/writer_v0.pod5",
    "formats/writer_v3.pod5",
    "formats/rna004.pod5",
    "formats/read5/test.pod5",
    "formats/read5/test.blow5",
    "formats/blow5/aux_array_exp_lossless.blow5",
    "formats/blow5/one_fast5_exp_1_lossless.blow5",
    "formats/blow5/two_rg_exp_default_gzip.blow5",
    "formats/mixed-pod5/degenerate_overtrim.pod5",
    "formats/mixed-pod5/degenerate_trimming_bomb.pod5",
    "formats/mixed-pod5/rna002_70bps_rna002_70bps-FLO_MINSP6-SQK_RNA002-3000.pod5",
    "formats/broken-pod5/z2.pod5",
    "formats/broken-pod5/aux_field_wrong_type.pod5",
    "formats/broken-pod5/primary_field_wrong_type.pod5",
    "r10/can_reads.pod5",
    "r10/hg002-5khz.pod5",
    "r10/hg002-5khz-one.blow5",
    "r10/na12878-4khz.blow5",
    "sarscov2-r9/reads.blow5",
    "ecoli-r9/reads.pod5",
    "lambda-r9/reads.pod5",
]


def digest(samples):
    return hashlib.sha256(np.asarray(samples).astype("<i2").tobytes()).hexdigest()[:16]


def f32(x):
    return "%.9g" % np.float32(x)


def pod5_rows(path):
    with pod5.Reader(path) as r:
        for rd in r.reads():
            yield (
                str(rd.read_id), rd.run_info.acquisition_id[:12], rd.run_info.sample_rate,
                rd.pore.channel, rd.pore.well, rd.read_number, rd.start_sample, rd.num_samples,
                digest(rd.signal), f32(rd.calibration.offset), f32(rd.calibration.scale),
                f32(rd.median_before), rd.end_reason.name, int(rd.end_reason.forced), rd.num_minknow_events,
            )


def blow5_rows(path):
    s = pyslow5.Open(path, "r")
    names = s.get_aux_names() or []
    labels = s.get_aux_enum_labels("end_reason") if "end_reason" in names else []
    for rd in s.seq_reads(aux="all" if names else None):
        reason = rd.get("end_reason")
        reason = labels[reason] if reason is not None and reason < len(labels) else "unknown"
        yield (
            rd["read_id"], s.get_all_headers(rd["read_group"])["run_id"][:12], int(rd["sampling_rate"]),
            int(rd.get("channel_number") or 0), rd.get("start_mux") or 0, rd.get("read_number") or 0,
            rd.get("start_time") or 0, rd["len_raw_signal"], digest(rd["signal"]),
            f32(rd["offset"]), f32(rd["range"] / rd["digitisation"]),
            f32(rd["median_before"] if rd.get("median_before") is not None else float("nan")),
            reason, "-", rd.get("num_minknow_events") or 0,
        )


# Rows kept for each file; the count of all is kept too.
MOST = 40


def golden(data):
    with open(os.path.join(HERE, "golden.tsv"), "w") as out:
        print("#file id run rate channel well number start samples sha256 offset scale median_before end_reason forced events".replace(" ", "\t"), file=out)
        for name in GOLDEN:
            path = os.path.join(data, name)
            rows = pod5_rows(path) if name.endswith(".pod5") else blow5_rows(path)
            n = 0
            for row in rows:
                n += 1
                if n <= MOST:
                    print(name, *row, sep="\t", file=out)
            print(name, "reads", n, sep="\t", file=out)


def fixtures(data):
    with pod5.Reader(os.path.join(data, "lambda-r9/reads.pod5")) as r:
        reads = []
        for rd in r.reads():
            read = rd.to_read()
            n = [4001, 2500, 9][len(reads)]
            read.signal = read.signal[1000:1000 + n]
            if len(reads) == 1:
                read.end_reason = pod5.EndReason(pod5.EndReasonEnum.UNBLOCK_MUX_CHANGE, True)
            else:
                read.end_reason = pod5.EndReason(pod5.EndReasonEnum.SIGNAL_POSITIVE, False)
            reads.append(read)
            if len(reads) == 3:
                break
    for name, kind in (("vbz", pod5.writer.SignalType.VbzSignal), ("uncompressed", pod5.writer.SignalType.UncompressedSignal)):
        path = os.path.join(HERE, "three_%s.pod5" % name)
        if os.path.exists(path):
            os.remove(path)
        with pod5.Writer(path, signal_compression_type=kind) as w:
            w.add_reads(reads)

    labels = ["unknown", "partial", "mux_change", "unblock_mux_change", "signal_positive", "signal_negative"]
    for name, rec, sig in (
        ("none_none", "none", "none"),
        ("zlib_svb", "zlib", "svb_zd"),
        ("zstd_svb", "zstd", "svb_zd"),
        ("zlib_none", "zlib", "none"),
        ("none_exzd", "none", "ex_zd"),
        ("zstd_exzd", "zstd", "ex_zd"),
    ):
        path = os.path.join(HERE, "three_%s.blow5" % name)
        if os.path.exists(path):
            os.remove(path)
        s = pyslow5.Open(path, "w", rec_press=rec, sig_press=sig)
        ri = reads[0].run_info
        for group in (0, 1):
            header = s.get_empty_header()
            header.update(dict(ri.tracking_id))
            header.update(dict(ri.context_tags))
            header["run_id"] = ri.acquisition_id if group == 0 else "second-run"
            header["exp_start_time"] = ri.acquisition_start_time.strftime("%Y-%m-%dT%H:%M:%SZ")
            header["sequencing_kit"] = ri.sequencing_kit
            header = {k: v for k, v in header.items() if v}
            s.write_header(header, read_group=group, end_reason_labels=labels)
        for i, read in enumerate(reads):
            record, aux = s.get_empty_record(aux=True)
            record.update(
                read_id=str(read.read_id), read_group=i % 2, digitisation=4096.0,
                offset=float(read.calibration.offset), range=float(read.calibration.scale) * 4096.0,
                sampling_rate=float(ri.sample_rate), len_raw_signal=len(read.signal), signal=read.signal,
            )
            aux.update(
                channel_number=str(read.pore.channel), median_before=float(read.median_before),
                read_number=read.read_number, start_mux=read.pore.well, start_time=read.start_sample,
                end_reason=3 if i == 1 else 4,
            )
            if s.write_record(record, aux) != 0:
                sys.exit("writing %s failed" % path)
        s.close()

    s = np.asarray(reads[0].signal, dtype="<i2")
    s.tofile(os.path.join(HERE, "../vbz/testdata/official.samples"))
    np.asarray(pod5.signal_tools.vbz_compress_signal(s)).tofile(os.path.join(HERE, "../vbz/testdata/official.vbz"))


def many(data):
    """Every value follows from the read's number, so that a test knows them all; pore
    types, runs and end reasons appear late, so that dictionaries grow in the file."""
    with pod5.Reader(os.path.join(data, "lambda-r9/reads.pod5")) as r:
        base = next(r.reads()).to_read()
    reasons = list(pod5.EndReasonEnum)
    path = os.path.join(HERE, "many.pod5")
    with pod5.Writer(path) as w:
        for i in range(1010):
            w.add_read(pod5.Read(
                read_id=uuid.UUID(int=i + 1),
                pore=pod5.Pore(channel=1 + i % 512, well=1 + i % 4, pore_type="type-%d" % (i // 600)),
                calibration=pod5.Calibration(offset=float(i % 7), scale=0.25),
                read_number=i,
                start_sample=100 * i,
                median_before=200.0,
                end_reason=pod5.EndReason(reasons[i * len(reasons) // 1010], i % 2 == 1),
                run_info=dataclasses.replace(base.run_info, acquisition_id="run-%d" % (i // 700)),
                signal=np.arange(i, i + i % 5 + 1, dtype=np.int16),
            ))
    with open(path, "rb") as f, gzip.GzipFile(path + ".gz", "wb", 9, mtime=0) as g:
        g.write(f.read())
    os.remove(path)


if __name__ == "__main__":
    {"fixtures": fixtures, "many": many, "golden": golden}[sys.argv[1]](sys.argv[2])
