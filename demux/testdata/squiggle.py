#!/usr/bin/env python3
"""squiggle.py MODEL READS.pod5 KIT OUT.pod5: reads with known barcodes as signal.

What a kit puts before a molecule (adapter, flanks, barcode) is turned into current by a
table of 6-mer levels (MODEL: kmer, mean, standard deviation), with a random number of
samples per base, scaled to the read's own level and spread; behind it comes a stretch of
a real read. The reads and their barcodes go to standard output.
Needs pod5 and numpy.
"""
import random
import sys
import tomllib
import uuid
from pathlib import Path

import numpy as np
import pod5

table = tomllib.loads((Path(__file__).parent.parent / "kits.toml").read_text())
model = {}
for line in open(sys.argv[1]):
    v = line.split()
    if len(v) >= 3 and len(v[0]) == 6 and set(v[0]) <= set("ACGT"):
        model[v[0]] = float(v[1]), float(v[2])
levels = np.array([m for m, _ in model.values()])
middle, spread = np.median(levels), 1.4826 * np.median(np.abs(levels - np.median(levels)))
kit = next(k for k in table["kit"] if sys.argv[3] in k["names"])
rng, noise = random.Random(1), np.random.default_rng(1)


def squiggle(sequence, level, deviation):
    out = []
    for i in range(len(sequence) - 5):
        mean, sd = model[sequence[i:i + 6]]
        n = 3 + int(rng.expovariate(1 / 6))
        out += list(noise.normal((mean - middle) / spread * deviation + level, sd / spread * deviation, n))
    return np.array(out)


with pod5.Reader(sys.argv[2]) as reader, pod5.Writer(sys.argv[4]) as writer:
    for n, record in enumerate(reader.reads()):
        if record.sample_count < 12000:
            continue
        real = record.signal[4000:10000].astype(float)
        level = np.median(real)
        deviation = 1.4826 * np.median(np.abs(real - level))
        i = kit["first_index"] + n % (kit["last_index"] - kit["first_index"] + 1)
        name = kit.get("replace", {}).get(str(i), kit["barcode1_pattern"].replace("%02i", f"{i:02d}"))
        barcode = table["sequences"][name]
        front = "TTCGTTCAGTTACGTATTGCT" + kit["mask1_front"] + barcode + kit["mask1_rear"]
        signal = np.concatenate([squiggle("CCTGTAC" + front + "ACGTA", level, deviation), real])
        read = record.to_read()
        read.signal = np.clip(np.round(signal), -4096, 4095).astype(np.int16)
        read.read_id = uuid.uuid5(uuid.NAMESPACE_URL, f"barcode{i:02d}-{n}")
        print(read.read_id, f"barcode{i:02d}", sep="\t")
        writer.add_read(read)
