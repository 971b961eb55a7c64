#!/usr/bin/env bash
# One would guess: digest of bioframe divides a genome where the enzyme cuts, as Biopython does, from which it takes the enzymes:
# "divide a genome into restriction fragments" (its documentation), in intervals that are half open and count from 0.
# What happens: each cut lies two bases further right. Biopython tells of a cut the first base behind it, counted from 1 (its
# cookbook); from 0 that is one less, and digest adds one. So with DpnII, which cuts before GATC, fragments begin with TC and end
# with GA: none of the inner ones is what the enzyme leaves. Lengths are right but for the first and the last fragment, which are two
# bases longer and shorter. With each of six enzymes, without a word. bioframe 0.8.0, Biopython 1.88.
# Who is hurt: who assigns the pieces of Pore-C or Hi-C reads to fragments. Pieces begin and end at cuts, and the first two bases of
# each fragment count to the one before it: a piece that begins right at a cut is taken for its neighbour's, if by its first base.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' && command -v pyenv >/dev/null; then
	PYENV_VERSION=$(pyenv versions --bare | sort -V | tail -n 1)
	export PYENV_VERSION
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "numpy 2.5.5 wants Python 3.12 or a newer one as python3" >&2; exit 2; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check bioframe==0.8.0 biopython==1.88 pandas==3.1.1 numpy==2.5.5
cat >try.py <<'PYTHON'
import random

import bioframe
from Bio import Restriction
from Bio.Seq import Seq

chance = random.Random(1)
genome = {name: "".join(chance.choices("ACGT", k=200000)) for name in ("chr1", "chr2")}


def written(site):
    """Cuts of the upper strand by hand: site has a ^ where the enzyme cuts."""
    before, motif = site.index("^"), site.replace("^", "")
    found = []
    for name, bases in genome.items():
        places = [i + before for i in range(len(bases)) if bases.startswith(motif, i)]
        found += [(name, a, b) for a, b in zip([0, *places], [*places, len(bases)])]
    return found


for enzyme, site in (("DpnII", "^GATC"), ("HindIII", "A^AGCTT"), ("NcoI", "C^CATGG"), ("NlaIII", "CATG^"), ("MseI", "T^TAA"), ("EcoRV", "GAT^ATC")):
    by_hand = written(site)
    pieces = [len(piece) for bases in genome.values() for piece in getattr(Restriction, enzyme).catalyse(Seq(bases))]
    table = [(row.chrom, row.start, row.end) for row in bioframe.digest(genome, enzyme).itertuples()]
    inner = [(a, b) for a, b in zip(by_hand, table) if a[1] > 0 and a[2] < 200000]
    starts = {b[1] - a[1] for a, b in inner} | {b[2] - a[2] for a, b in inner}
    name, start, end = table[1]
    print(
        f"{enzyme}, {site}: {len(by_hand)} fragments by hand, of the lengths by Biopython's catalyse {'' if [b - a for _, a, b in by_hand] == pieces else 'NOT '}all; "
        f"by digest {len(table)}, {len(set(table) & set(by_hand))} the same, bounds off by {sorted(starts)}; "
        f"the second begins with {genome[name][start:start + 6]}, by hand {genome[name][by_hand[1][1]:by_hand[1][1] + 6]}"
    )

# Reads of 500 bases that begin at a cut of DpnII, as those do whose molecule the enzyme has cut there.
by_hand, table = written("^GATC"), [(row.chrom, row.start, row.end) for row in bioframe.digest(genome, "DpnII").itertuples()]


def within(fragments, name, place):
    return next(i for i, (chrom, a, b) in enumerate(fragments) if chrom == name and a <= place < b)


reads = [(name, start) for name, start, _ in by_hand if start > 0]
own = sum(within(by_hand, *read) == within(table, *read) for read in reads)
before = sum(within(by_hand, *read) - 1 == within(table, *read) for read in reads)
print(f"first bases of {len(reads)} reads that begin at a cut: {own} in their own fragment, {before} in the one before")
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("bioframe", version("bioframe"), "Biopython", version("biopython"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
DpnII, ^GATC: 1606 fragments by hand, of the lengths by Biopython's catalyse all; by digest 1606, 0 the same, bounds off by [2]; the second begins with TCTTCC, by hand GATCTT
HindIII, A^AGCTT: 106 fragments by hand, of the lengths by Biopython's catalyse all; by digest 106, 0 the same, bounds off by [2]; the second begins with CTTATG, by hand AGCTTA
NcoI, C^CATGG: 108 fragments by hand, of the lengths by Biopython's catalyse all; by digest 108, 0 the same, bounds off by [2]; the second begins with TGGATT, by hand CATGGA
NlaIII, CATG^: 1586 fragments by hand, of the lengths by Biopython's catalyse all; by digest 1586, 0 the same, bounds off by [2]; the second begins with TTACGG, by hand GATTAC
MseI, T^TAA: 1520 fragments by hand, of the lengths by Biopython's catalyse all; by digest 1520, 0 the same, bounds off by [2]; the second begins with AGTCAC, by hand TAAGTC
EcoRV, GAT^ATC: 109 fragments by hand, of the lengths by Biopython's catalyse all; by digest 109, 0 the same, bounds off by [2]; the second begins with CTGAGC, by hand ATCTGA
first bases of 1604 reads that begin at a cut: 0 in their own fragment, 1604 in the one before
EXPECTED
if ! diff expected seen; then
	echo "bioframe behaves otherwise by now" >&2
	exit 1
fi
