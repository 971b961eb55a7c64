#!/usr/bin/env bash
# One would guess: get_aligned_pairs() passes over padding (P of CIGAR) without taking bases of the read, as the SAM specification has it (section 1.4.6: P
# consumes neither query nor reference), so that pairs behind padding are those of the same alignment without it.
# What happens: each padded column is given a place in the read of its own. All places behind it are too high by the padding's length, and the last lie
# past the read's end. query_alignment_length, get_reference_positions() and the count of bases by infer_query_length() are right. The documentation only says
# that the reference position is None there. pysam 0.24.1.
# Who is hurt: who finds mismatches, modified bases or qualities by pairs in padded alignments (assemblies' and those of many sequences at once): behind the
# first padding each position has another base's letter, call and quality, in silence, but for the last ones of a read.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysam==0.24.1
cat >try.py <<'PYTHON'
import random
import re

import pysam

random.seed(4)
header = pysam.AlignmentHeader.from_dict({"HD": {"VN": "1.6"}, "SQ": [{"SN": "c", "LN": 10000}]})


def by_specification(cigar, start):
    """(place in the read, position) of each aligned base."""
    place, position, pairs = 0, start, []
    for length, operation in re.findall(r"(\d+)([MIDNSHP=X])", cigar):
        for _ in range(int(length)):
            if operation in "M=X":
                pairs.append((place, position))
            place += operation in "MIS=X"
            position += operation in "MDN=X"
    return pairs


def record(cigar, start, bases):
    r = pysam.AlignedSegment(header)
    r.query_name, r.reference_id, r.reference_start, r.cigarstring, r.query_sequence = "read", 0, start, cigar, bases
    return r


one = record("4M2P4M", 10, "ACGTTGCA")
print("4M2P4M:", one.get_aligned_pairs())
print("bases by infer_query_length:", one.infer_query_length())
right = {False: 0, True: 0}
of = {False: 0, True: 0}
shifted = past = bases_behind = 0
for _ in range(1000):
    cigar, n = "", 0
    padded = random.random() < 0.5
    for k in range(random.randint(2, 8)):
        m = random.randint(1, 30)
        cigar, n = f"{cigar}{m}M", n + m
        gap = random.choice("IDP" if padded else "ID")
        g = random.randint(1, 3)
        cigar, n = f"{cigar}{g}{gap}", n + g * (gap == "I")
    cigar, n, padded = f"{cigar}5M", n + 5, "P" in cigar
    start = random.randint(0, 5000)
    got, want = record(cigar, start, "A" * n).get_aligned_pairs(matches_only=True), by_specification(cigar, start)
    of[padded] += 1
    right[padded] += got == want
    shifted += sum(g != w for g, w in zip(got, want))
    past += sum(g >= n for g, _ in got)
    bases_behind += len(by_specification(cigar[cigar.index("P") + 1:], 0)) if padded else 0
print(f"without padding: {right[False]} of {of[False]} alignments right")
print(f"with padding: {right[True]} of {of[True]} alignments right; of {bases_behind} aligned bases behind the first padding {shifted} have another place, {past} one past the read")
PYTHON
echo "pysam $(venv/bin/python -c 'import pysam; print(pysam.__version__)')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
4M2P4M: [(0, 10), (1, 11), (2, 12), (3, 13), (4, None), (5, None), (6, 14), (7, 15), (8, 16), (9, 17)]
bases by infer_query_length: 8
without padding: 599 of 599 alignments right
with padding: 0 of 401 alignments right; of 21280 aligned bases behind the first padding 21280 have another place, 1474 one past the read
EXPECTED
if ! diff expected seen; then
	echo "pysam behaves otherwise by now" >&2
	exit 1
fi
