"""Writes mappy.tsv: what mappy (the official Python binding, 2.31) aligns the first
reads of the SARS-CoV-2 sample to, with extended CIGARs, for both presets.

    python mappy_golden.py NC_045512.2.fa SP1.fastq.gz > mappy.tsv
"""
import itertools
import sys

import mappy

EQX = 0x4000000
ref, fastq = sys.argv[1:]
print("preset", "read", "contig", "start", "end", "strand", "query_start", "query_end", "mapq", "nm", "cigar", sep="\t")
for preset in "map-ont", "lr:hq":
    aligner = mappy.Aligner(ref, preset=preset, extra_flags=EQX)
    for name, seq, _ in itertools.islice(mappy.fastx_read(fastq), 40):
        for h in aligner.map(seq, name=name):
            if h.is_primary:
                print(preset, name, h.ctg, h.r_st, h.r_en, h.strand, h.q_st, h.q_en, h.mapq, h.NM, h.cigar_str, sep="\t")
