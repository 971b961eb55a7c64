"""Write FAST5 files of every kind with h5py and ONT's plugin, and print what h5py
reads in FAST5 files.

    python oracle.py write POD5 DIR    every variant, from the reads of a POD5 file
    python oracle.py golden POD5       the files and lines beside this script
    python oracle.py read FILE...      a line for each read, "--" after each file
    python oracle.py recording POD5 DIR    a whole recording, packed with VBZ and with gzip

Needs the Python packages h5py, vbz-h5py-plugin, pod5 and numpy.
"""

import datetime
import hashlib
import os
import sys

import h5py
import numpy as np
import vbz_h5py_plugin  # noqa: F401 registers the filter

HERE = os.path.dirname(os.path.abspath(__file__))
VBZ = 32020

REASONS = {
    "unknown": 0, "partial": 1, "mux_change": 2, "unblock_mux_change": 3, "data_service_unblock_mux_change": 4, "signal_positive": 5,
    "signal_negative": 6, "api_request": 7, "device_data_error": 8, "analysis_config_change": 9, "paused": 10,
}

FILTERS = {
    "none": {},
    "gzip": dict(compression="gzip", compression_opts=1),
    "gzip_shuffle": dict(compression="gzip", compression_opts=9, shuffle=True),
    "gzip_shuffle_fletcher": dict(compression="gzip", shuffle=True, fletcher32=True),
    "fletcher": dict(fletcher32=True),
    "vbz0": dict(compression=VBZ, compression_opts=(0, 2, 1, 1)),
    "vbz1": dict(compression=VBZ, compression_opts=(1, 2, 1, 1)),
    "vbz0_defaults": dict(compression=VBZ, compression_opts=(0, 2, 1)),
    "vbz0_level5": dict(compression=VBZ, compression_opts=(0, 2, 1, 5)),
    "vbz0_nodelta": dict(compression=VBZ, compression_opts=(0, 2, 0, 1)),
    "vbz0_nozstd": dict(compression=VBZ, compression_opts=(0, 2, 1, 0)),
    "vbz0_4bytes": dict(compression=VBZ, compression_opts=(0, 4, 1, 1)),
    "vbz0_1byte": dict(compression=VBZ, compression_opts=(0, 1, 1, 1)),
    "vbz1_1byte": dict(compression=VBZ, compression_opts=(1, 1, 1, 1)),
    "vbz1_1byte_nodelta": dict(compression=VBZ, compression_opts=(1, 1, 0, 1)),
    "vbz1_nodelta": dict(compression=VBZ, compression_opts=(1, 2, 0, 1)),
    "shuffle_vbz0_1byte": dict(compression=VBZ, compression_opts=(0, 1, 1, 1), shuffle=True),
}


def reads_of(path, samples=None, even=True):
    """The reads of a POD5 file, as dictionaries. Some filters take pairs of samples: even leaves an odd one out."""
    import pod5

    out = []
    with pod5.Reader(path) as r:
        for rd in r.reads():
            info = rd.run_info
            signal = rd.signal[:samples]
            if even and len(signal) % 2:
                signal = signal[:-1]
            out.append(dict(
                id=str(rd.read_id), run_id=info.acquisition_id, pore_type=rd.pore.pore_type, tracking=dict(info.tracking_id),
                context=dict(info.context_tags), channel=rd.pore.channel, mux=rd.pore.well, number=rd.read_number, start=rd.start_sample,
                median=rd.median_before, reason=rd.end_reason.name, offset=rd.calibration.offset, scale=rd.calibration.scale,
                levels=info.adc_max - info.adc_min + 1, rate=info.sample_rate, signal=np.asarray(signal, dtype="<i2"),
            ))
            out[-1]["tracking"].setdefault("run_id", info.acquisition_id)
            # Where the tags were lost on the way to POD5, as MinKNOW has them.
            for name, value in dict(
                flow_cell_id=info.flow_cell_id, sample_id=info.sample_id, device_id=info.sequencer_position,
                exp_start_time=info.acquisition_start_time.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            ).items():
                out[-1]["tracking"].setdefault(name, value)
            for name, value in dict(
                sample_frequency=str(info.sample_rate), sequencing_kit=info.sequencing_kit.lower(), flowcell_type=info.flow_cell_product_code.lower(),
            ).items():
                out[-1]["context"].setdefault(name, value)
    return out


def put_text(attrs, name, value, kind):
    if kind == "vlen":
        attrs[name] = value
    elif kind == "nullpad":
        attrs[name] = np.bytes_(value.encode())
    elif kind == "space":
        tid = h5py.h5t.C_S1.copy()
        tid.set_size(max(len(value.encode()) + 3, 1))
        tid.set_strpad(h5py.h5t.STR_SPACEPAD)
        a = h5py.h5a.create(attrs._id, name.encode(), tid, h5py.h5s.create(h5py.h5s.SCALAR))
        a.write(np.array(value.encode().ljust(tid.get_size()), dtype="S%d" % tid.get_size()), mtype=tid)
    else:
        tid = h5py.h5t.C_S1.copy()
        tid.set_size(len(value.encode()) + 1)
        a = h5py.h5a.create(attrs._id, name.encode(), tid, h5py.h5s.create(h5py.h5s.SCALAR))
        a.write(np.array(value.encode(), dtype="S%d" % tid.get_size()), mtype=tid)


def put_raw(raw, rd, text, number=np.int32, later=False):
    a = raw.attrs
    a.create("start_time", rd["start"], dtype=np.uint64)
    a.create("duration", len(rd["signal"]), dtype=np.uint32)
    a.create("read_number", rd["number"], dtype=number)
    a.create("start_mux", rd["mux"], dtype=np.uint8)
    put_text(a, "read_id", rd["id"], text)
    a.create("median_before", rd["median"], dtype=np.float64)
    if later:
        a.create("end_reason", REASONS[rd["reason"]], dtype=h5py.enum_dtype(REASONS, basetype="u1"))
        a.create("num_minknow_events", 1234, dtype=np.uint64)
        a.create("tracked_scaling_scale", 1.5, dtype=np.float32)
        a.create("tracked_scaling_shift", -2.25, dtype=np.float32)
        a.create("predicted_scaling_scale", 0.5, dtype=np.float32)
        a.create("predicted_scaling_shift", 0.125, dtype=np.float32)
        a.create("num_reads_since_mux_change", 7, dtype=np.uint32)
        a.create("time_since_mux_change", 3.5, dtype=np.float32)


def put_around(group, rd, text):
    c = group.create_group("channel_id").attrs
    c.create("digitisation", rd["levels"], dtype=np.float64)
    c.create("offset", rd["offset"], dtype=np.float64)
    c.create("range", np.float64(np.float32(rd["scale"])) * rd["levels"], dtype=np.float64)
    c.create("sampling_rate", rd["rate"], dtype=np.float64)
    put_text(c, "channel_number", str(rd["channel"]), text)
    for name, tags in ("tracking_id", rd["tracking"]), ("context_tags", rd["context"]):
        g = group.create_group(name)
        for k, v in tags.items():
            put_text(g.attrs, k, v, text)


def put_signal(raw, rd, chunks=None, maxshape=None, dtype="<i2", **filters):
    signal = rd["signal"].astype(dtype)
    if chunks is None and (filters or maxshape is not None):
        chunks = len(signal)
    raw.create_dataset("Signal", data=signal, chunks=(min(chunks, len(signal)),) if chunks else None,
                       maxshape=maxshape, **filters)


def write_multi(path, reads, text="null", later=False, share=False, libver="earliest", userblock=0, track_order=False, **signal):
    """A multi-read file. share links the descriptions of the run, as MinKNOW does."""
    with h5py.File(path, "w", libver=libver, userblock_size=userblock, track_order=track_order) as f:
        put_text(f.attrs, "file_type", "multi-read", text)
        put_text(f.attrs, "file_version", "2.3" if later else "2.0", text)
        first = None
        for rd in reads:
            g = f.create_group("read_" + rd["id"], track_order=track_order)
            put_text(g.attrs, "run_id", rd["run_id"], text)
            if later:
                put_text(g.attrs, "pore_type", rd["pore_type"], text)
            raw = g.create_group("Raw")
            put_raw(raw, rd, text, later=later)
            put_signal(raw, rd, **signal)
            put_around(g, rd, text)
            if share and first is not None and share == "soft":
                del g["tracking_id"], g["context_tags"]
                g["tracking_id"] = h5py.SoftLink("/" + first.name.strip("/") + "/tracking_id")
                g["context_tags"] = h5py.SoftLink("/" + first.name.strip("/") + "/./context_tags")
            elif share and first is not None:
                del g["tracking_id"], g["context_tags"]
                g["tracking_id"], g["context_tags"] = first["tracking_id"], first["context_tags"]
            first = first or g


def write_single(path, rd, text="null", libver="earliest", later=False, **signal):
    with h5py.File(path, "w", libver=libver) as f:
        f.attrs.create("file_version", 0.6, dtype=np.float64)
        raw = f.create_group("Raw/Reads/Read_%d" % rd["number"])
        put_raw(raw, rd, text, later=later)
        put_signal(raw, rd, **signal)
        put_around(f.create_group("UniqueGlobalKey"), rd, text)


def many(reads, n):
    """n reads of a few samples, with ids of their own."""
    out = []
    for i in range(n):
        rd = dict(reads[i % len(reads)])
        rd["id"] = "00000000-0000-4000-8000-%012d" % (i * 7919 % 1000000)
        rd["number"], rd["signal"] = i, rd["signal"][i % 50 * 10 : i % 50 * 10 + 20 + 2 * (i % 9)]
        rd["reason"] = list(REASONS)[i % 11]
        out.append(rd)
    return out


def write_all(pod, to):
    reads = reads_of(pod)
    path = lambda name: os.path.join(to, name + ".fast5")  # noqa: E731
    for libver in "earliest", "latest":
        for name, filters in FILTERS.items():
            write_multi(path("multi_%s_%s" % (libver, name)), reads, libver=libver, **filters)
        for chunk in 100, 1000:
            for growing in False, True:
                for name in "gzip", "vbz0", "none":
                    write_multi(path("chunks%d_%s_%s_%s" % (chunk, "growing" if growing else "fixed", libver, name)), reads, libver=libver,
                                chunks=chunk, maxshape=(None,) if growing else None, **FILTERS[name])
        # Chunks of two samples: thousands of them, so that indexes have levels and pages.
        write_multi(path("chunks2_fixed_%s" % libver), reads, libver=libver, chunks=2)
        write_multi(path("chunks2_growing_%s" % libver), reads, libver=libver, chunks=2, maxshape=(None,))
        write_multi(path("chunks2_growing_%s_gzip" % libver), reads, libver=libver, chunks=2, maxshape=(None,), compression="gzip")
        for text in "null", "nullpad", "vlen", "space":
            write_multi(path("text_%s_%s" % (text, libver)), reads, libver=libver, text=text, later=True)
        write_multi(path("shared_%s" % libver), reads, libver=libver, share=True, later=True)
        write_multi(path("soft_%s" % libver), reads, libver=libver, share="soft")
        write_multi(path("ordered_%s" % libver), reads, libver=libver, track_order=True, later=True)
        write_multi(path("userblock_%s" % libver), reads, libver=libver, userblock=1024)
        write_multi(path("many_%s" % libver), many(reads, 1500), libver=libver, share=True, later=True)
        write_multi(path("manyvlen_%s" % libver), many(reads, 40), libver=libver, text="vlen", later=True, **FILTERS["vbz0"])
        tagged = [dict(rd, tracking=dict(rd["tracking"], **{"tag_%03d" % i: "value %d" % (i * i) for i in range(300)})) for rd in reads]
        write_multi(path("manytags_%s" % libver), tagged, libver=libver, share=True)
        write_multi(path("manytags_vlen_%s" % libver), tagged, libver=libver, text="vlen")
        long = [dict(rd, tracking=dict(rd["tracking"], long="x" * 60000)) for rd in reads]
        write_multi(path("longtag_%s" % libver), long, libver=libver, share=True)
        for dtype in ">i2", "<i4", "<i8", ">i4":
            write_multi(path("type_%s_%s" % (dtype.replace("<", "little_").replace(">", "big_"), libver)), reads, libver=libver, dtype=dtype,
                        compression="gzip", shuffle=True)
        for name in "none", "gzip", "vbz0":
            write_single(path("single_%s_%s" % (libver, name)), reads[0], libver=libver, **FILTERS[name])
        write_single(path("single_later_%s" % libver), reads[1], libver=libver, later=True, text="vlen")
        with h5py.File(path("committed_%s" % libver), "w", libver=libver) as f:
            committed(f, reads[0])
        write_multi(path("odd_%s" % libver), reads, libver=libver, later=True)
        with h5py.File(path("odd_%s" % libver), "a", libver=libver) as f:
            for g in f.values():
                odd(f, g)
                odd(f, g["Raw"])
    write_multi(path("v110"), reads, libver=("v110", "v110"), share=True, compression="gzip", chunks=100)
    write_multi(path("v108"), reads, libver=("v108", "v108"), share=True, compression="gzip", chunks=100)
    write_multi(path("no_reads"), [])


def odd(f, o):
    """Attributes of types that no reader of signal needs."""
    o.attrs["half"] = np.float16(1.5)
    o.attrs["long"] = np.longdouble(1.5)
    o.attrs["yes"] = True
    o.attrs["numbers"] = np.arange(5)
    o.attrs["words"] = np.array(["a", "bc"], dtype=h5py.string_dtype())
    o.attrs["none"] = h5py.Empty("S1")
    o.attrs["pair"] = np.array((1, 2.5), dtype=[("a", "<i4"), ("b", "<f8")])
    o.attrs["bytes"] = np.void(b"1234")
    o.attrs["object"] = f["/"].ref
    o.attrs["complex"] = np.complex64(1 + 2j)
    o.attrs["grid"] = np.zeros((2, 3), dtype=">u2")


def committed(f, rd):
    """Types that attributes and a dataset share, and signal that lies in the header."""
    f["reason"] = np.dtype(h5py.enum_dtype(REASONS, basetype="u1"))
    f["level"] = np.dtype("<i2")
    g = f.create_group("read_" + rd["id"])
    raw = g.create_group("Raw")
    put_raw(raw, rd, "null")
    raw.attrs.create("end_reason", REASONS["mux_change"], dtype=f["reason"])
    signal = rd["signal"][:500]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    d = h5py.h5d.create(raw.id, b"Signal", f["level"].id, h5py.h5s.create_simple((500,)), plist)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(signal))
    put_around(g, rd, "null")


def write_golden(pod):
    """Small files, so that tests need no Python, and what h5py sees in them."""
    reads = reads_of(pod, 600)
    at = lambda name: os.path.join(HERE, name + ".fast5")  # noqa: E731
    write_multi(at("multi_vbz"), reads, share=True, later=True, **FILTERS["vbz0"])
    write_multi(at("multi_gzip"), reads, share=True, chunks=200, **FILTERS["gzip"])
    short = [dict(rd, signal=rd["signal"][:300]) for rd in reads]
    write_multi(at("multi_latest"), short, text="vlen", share=True, later=True, libver="latest", chunks=20, maxshape=(None,), **FILTERS["gzip_shuffle_fletcher"])
    write_multi(at("multi_fixed"), short[:1], libver="latest", chunks=20, compression=VBZ, compression_opts=(1, 2, 1, 1))
    few = {k: v for k, v in list(reads[0]["tracking"].items())[:6]}
    few.update(run_id=reads[0]["run_id"], asic_temp="27.088305")
    many_reads = [dict(rd, tracking=few) for rd in many(reads, 12)]
    write_multi(at("multi_dense"), many_reads, share=True, libver="latest")
    write_single(at("single"), reads[0])
    # As small as can be: where fuzzing begins.
    tiny = [dict(reads[0], signal=reads[0]["signal"][:40], tracking={"run_id": reads[0]["run_id"]}, context={"sample_frequency": "4000"})]
    write_multi(at("tiny_vbz"), tiny, **FILTERS["vbz0"])
    write_multi(at("tiny_gzip"), tiny, later=True, text="vlen", chunks=10, **FILTERS["gzip_shuffle_fletcher"])
    write_multi(at("tiny_growing"), tiny, libver="latest", chunks=2, maxshape=(None,), **FILTERS["vbz0"])
    write_multi(at("tiny_fixed"), tiny, libver="latest", chunks=10, **FILTERS["gzip"])
    write_multi(at("tiny_dense"), [dict(tiny[0], tracking=dict(tiny[0]["tracking"], **{"t%d" % i: str(i) for i in range(12)}))], libver="latest", share=True)
    write_single(at("tiny_single"), tiny[0], text="nullpad")
    names = ["multi_vbz", "multi_gzip", "multi_latest", "multi_fixed", "multi_dense", "single", "tiny_vbz", "tiny_gzip", "tiny_growing", "tiny_fixed", "tiny_dense", "tiny_single"]
    with open(os.path.join(HERE, "golden.tsv"), "w") as f:
        for name in names:
            for line in lines(at(name)):
                f.write("%s\t%s\n" % (name, line))
    # The same reads whole, beside those of the other formats.
    whole = reads_of(pod, even=False)
    beside = lambda name: os.path.join(HERE, "..", "..", "testdata", "three_" + name + ".fast5")  # noqa: E731
    write_multi(beside("vbz"), whole, share=True, later=True, **FILTERS["vbz0"])
    write_multi(beside("gzip"), whole, later=True, libver="latest", chunks=1000, **FILTERS["gzip_shuffle"])
    # What is refused.
    with h5py.File(at("bulk"), "w") as f:
        f.create_group("Raw/Channel_1").create_dataset("Signal", data=np.arange(10, dtype="<i2"))
        f.create_group("IntermediateData/Channel_1")
        f.create_group("UniqueGlobalKey/tracking_id")
    with h5py.File(at("other"), "w") as f:
        f["temperature"] = [20.5, 21]
    write_multi(at("lzf"), [dict(short[0], tracking=few, context={})], compression="lzf")


def text_of(v):
    if isinstance(v, bytes):
        return v.decode()
    if isinstance(v, (np.bytes_, str)):
        return v.decode() if isinstance(v, np.bytes_) else v
    return str(v)


def lines(path):
    with h5py.File(path, "r") as f:
        if "UniqueGlobalKey" in f and "Raw" in f:
            found = [(f["Raw/Reads"][k], f["Raw/Reads"][k], f["UniqueGlobalKey"]) for k in f["Raw/Reads"]]
        else:
            found = [(f[k], f[k]["Raw"], f[k]) for k in sorted(f) if k.startswith("read_")]
        for own, raw, around in found:
            c, a = around["channel_id"].attrs, raw.attrs
            reason = ""
            if "end_reason" in a:
                names = h5py.check_enum_dtype(a.get_id("end_reason").dtype)
                reason = {v: k for k, v in names.items()}[int(a["end_reason"])]
            tracking = sorted("%s=%s" % (k, text_of(v)) for k, v in around["tracking_id"].attrs.items())
            context = sorted("%s=%s" % (k, text_of(v)) for k, v in around["context_tags"].attrs.items()) if "context_tags" in around else []
            run_id = text_of(own.attrs["run_id"]) if "run_id" in own.attrs else text_of(around["tracking_id"].attrs["run_id"])
            signal = raw["Signal"][()]
            yield "\t".join([
                text_of(a["read_id"]), run_id, text_of(c["channel_number"]), str(a["start_mux"]), text_of(own.attrs.get("pore_type", "")),
                str(a["read_number"]), str(a["start_time"]), str(a["duration"]), reason,
                "%r" % float(c["digitisation"]), "%r" % float(c["offset"]), "%r" % float(c["range"]), "%r" % float(c["sampling_rate"]),
                "%r" % float(a["median_before"]), str(a.get("num_minknow_events", "")), str(len(signal)),
                hashlib.sha256(signal.astype("<i2").tobytes()).hexdigest()[:16],
                hashlib.sha256("\n".join(tracking).encode()).hexdigest()[:16], hashlib.sha256("\n".join(context).encode()).hexdigest()[:16],
            ])


def write_recording(pod, to):
    """A whole recording as MinKNOW would have written it, packed in two ways."""
    reads = reads_of(pod, even=False)
    for name in "vbz0", "gzip":
        write_multi(os.path.join(to, name + ".fast5"), reads, share=True, later=True, **FILTERS[name])


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_all(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "golden":
        write_golden(sys.argv[2])
    elif sys.argv[1] == "recording":
        write_recording(sys.argv[2], sys.argv[3])
    else:
        for p in sys.argv[2:]:
            for line in lines(p):
                print(line)
            print("--")
