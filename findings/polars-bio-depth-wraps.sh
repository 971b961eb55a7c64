#!/usr/bin/env bash
# One would guess: the depth that polars-bio computes of a BAM file "like samtools depth" is that depth, or stops at a
# largest number, or is refused where it doesn't fit.
# What happens: depths are handed out as signed numbers of 16 bits, and one that doesn't fit is cut to its lowest 16 bits:
# 32,768 reads are a depth of -32,768, 65,536 are 0, and 65,541 are 5. In blocks and by position, densely and sparsely, in
# silence. samtools depth and a count of the rows that polars-bio itself reads are right. polars-bio 0.36.2, pysam 0.24.1
# (samtools 1.24).
# Who is hurt: amplicons of viruses, plasmids and mitochondria: runs that go on until the rarest amplicon has enough reads
# have the commonest at hundreds of thousands. A filter for a least depth drops exactly these, a mask hides them, means and
# ratios of copies are off, and where the cut number is a usual one, as 5 or 200, no check of its sign shows it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check polars-bio==0.36.2 polars==1.44.2 pysam==0.24.1
cat >try.py <<'PYTHON'
import polars as pl
import polars_bio as pb
import pysam

amplicons = {"amplicon1": 200, "amplicon2": 32767, "amplicon3": 32768, "amplicon4": 65536, "amplicon5": 65541}
bases = "ACGTTGCAAGTC"
header = pysam.AlignmentHeader.from_dict(
    {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": name, "LN": 100} for name in amplicons]}
)
with pysam.AlignmentFile("reads.bam", "wb", header=header) as out:
    for i, n in enumerate(amplicons.values()):
        read = pysam.AlignedSegment(header)
        read.query_name, read.reference_id, read.reference_start, read.flag = "read", i, 20, 0
        read.mapping_quality, read.cigarstring, read.query_sequence = 60, f"{len(bases)}M", bases
        read.query_qualities = pysam.qualitystring_to_array("I" * len(bases))
        for _ in range(n):
            out.write(read)
pysam.index("reads.bam")


def depths(**options):
    covered = pb.depth("reads.bam", output_type="polars.DataFrame", **options).filter(pl.col("coverage") != 0)
    return {name: covered.filter(pl.col("contig") == name)["coverage"].to_list() for name in amplicons}


def one(values):
    """What all places of an amplicon with a depth have, or "none"."""
    return ",".join(str(v) for v in sorted(set(values))) or "none"


samtools = {name: [] for name in amplicons}
for line in pysam.depth("-d", "0", "reads.bam").splitlines():
    name, _, n = line.split("\t")
    samtools[name].append(int(n))
rows = dict(pb.read_bam("reads.bam").group_by("chrom").len().rows())
blocks, sparse, places = depths(), depths(dense_mode="disable"), depths(per_base=True)
for name in amplicons:
    print(f"{name}: samtools {one(samtools[name])}, polars-bio's rows {rows[name]}, its depth {one(blocks[name])}, sparsely {one(sparse[name])}, by position {one(places[name])}")
wanted = pb.depth("reads.bam", output_type="polars.DataFrame").filter(pl.col("coverage") >= 20)["contig"].to_list()
print(f"with a depth of at least 20: {', '.join(wanted)}")
PYTHON
echo "polars-bio $(venv/bin/python -c 'from importlib.metadata import version; print(version("polars-bio"))')"
venv/bin/python try.py 2>/dev/null | tee seen
cat >expected <<'EXPECTED'
amplicon1: samtools 200, polars-bio's rows 200, its depth 200, sparsely 200, by position 200
amplicon2: samtools 32767, polars-bio's rows 32767, its depth 32767, sparsely 32767, by position 32767
amplicon3: samtools 32768, polars-bio's rows 32768, its depth -32768, sparsely -32768, by position -32768
amplicon4: samtools 65536, polars-bio's rows 65536, its depth none, sparsely none, by position none
amplicon5: samtools 65541, polars-bio's rows 65541, its depth 5, sparsely 5, by position 5
with a depth of at least 20: amplicon1, amplicon2
EXPECTED
if ! diff expected seen; then
	echo "polars-bio behaves otherwise by now" >&2
	exit 1
fi
