#!/usr/bin/env bash
# One would guess: frac_gc of bioframe adds a column GC that has each interval's own share of G and C: "original dataframe with new
# column 'GC' appended" (its documentation). Neighbouring functions, as frac_mapped, take intervals in any order.
# What happens: it computes chromosome by chromosome and puts the results one behind the other, but leaves the rows as they are. Where
# a chromosome comes back after another, its values stand in other rows: of 400 intervals of four chromosomes in the order of a score
# 3 are right, and AT-rich ones have the share of GC-rich ones. In the order of chromosomes all is right, in any order of positions.
# return_input=False gives the same numbers under the index of the input. No warning. bioframe 0.8.0, pandas 3.1.1, numpy 2.5.5.
# Who is hurt: who normalises coverage by GC, or draws controls of the same GC, for peaks, genes or amplicons in the order of a score
# or a name: the column is a shuffled one of the right mean and spread, so plots of its distribution look as ever.
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
venv/bin/pip install --quiet --disable-pip-version-check bioframe==0.8.0 pandas==3.1.1 numpy==2.5.5
cat >try.py <<'PYTHON'
import random

import bioframe
import pandas as pd

chance = random.Random(1)

# Four chromosomes, from AT-rich to GC-rich, as strings: what frac_gc takes of a FASTA file it turns into these first.
genome = {}
for name, gc in (("chr1", 2), ("chr2", 4), ("chr3", 6), ("chr4", 8)):
    genome[name] = "".join(chance.choices("ACGT", weights=[10 - gc, gc, gc, 10 - gc], k=100000))
rows = []
for name in genome:
    for _ in range(100):
        start = chance.randrange(90000)
        rows.append((name, start, start + chance.randint(50, 5000), chance.random()))
table = pd.DataFrame(rows, columns=["chrom", "start", "end", "score"])


def see(title, table):
    """Compares frac_gc with counts by hand, row by row."""
    by_hand = []
    for row in table.itertuples():
        bases = genome[row.chrom][row.start : row.end]
        by_hand.append((bases.count("G") + bases.count("C")) / len(bases))
    column = bioframe.frac_gc(table, genome)["GC"]
    right = sum(abs(a - b) < 1e-9 for a, b in zip(column, by_hand))
    far = sum(abs(a - b) > 0.15 for a, b in zip(column, by_hand))
    alone = bioframe.frac_gc(table, genome, return_input=False)
    print(
        f"{title}: {right} of {len(table)} rows right, {far} off by more than 0.15; "
        f"the same numbers in all: {'yes' if sorted(column.round(9)) == sorted(round(x, 9) for x in by_hand) else 'no'}; "
        f"without the input the same column: {'yes' if list(alone) == list(column) else 'no'}"
    )


few = pd.DataFrame([("chr1", 0, 1000), ("chr4", 0, 1000), ("chr1", 1000, 2000), ("chr4", 1000, 2000)], columns=["chrom", "start", "end"])
for row in bioframe.frac_gc(few, genome).itertuples():
    bases = genome[row.chrom][row.start : row.end]
    print(f"{row.chrom}:{row.start}-{row.end} GC by hand {(bases.count('G') + bases.count('C')) / 1000:.3f}, by frac_gc {row.GC:.3f}")
see("sorted", table.sort_values(["chrom", "start"]))
see("chromosomes in turn, positions in any order", table)
see("in the order of a score", table.sort_values("score"))
see("in the order of positions", table.sort_values("start"))
see("one chromosome, in the order of a score", table[table.chrom == "chr2"].sort_values("score"))
mapped = bioframe.frac_mapped(table.sort_values("score"), {name: "N" * 50000 + bases[50000:] for name, bases in genome.items()})
print(f"frac_mapped in the order of a score: {sum((row.start >= 50000) == (row.frac_mapped == 1) for row in mapped.itertuples())} of {len(mapped)} rows right")
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("bioframe", version("bioframe"), "pandas", version("pandas"), "numpy", version("numpy"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
chr1:0-1000 GC by hand 0.205, by frac_gc 0.205
chr4:0-1000 GC by hand 0.797, by frac_gc 0.204
chr1:1000-2000 GC by hand 0.204, by frac_gc 0.797
chr4:1000-2000 GC by hand 0.783, by frac_gc 0.783
sorted: 400 of 400 rows right, 0 off by more than 0.15; the same numbers in all: yes; without the input the same column: yes
chromosomes in turn, positions in any order: 400 of 400 rows right, 0 off by more than 0.15; the same numbers in all: yes; without the input the same column: yes
in the order of a score: 3 of 400 rows right, 309 off by more than 0.15; the same numbers in all: yes; without the input the same column: yes
in the order of positions: 3 of 400 rows right, 293 off by more than 0.15; the same numbers in all: yes; without the input the same column: yes
one chromosome, in the order of a score: 100 of 100 rows right, 0 off by more than 0.15; the same numbers in all: yes; without the input the same column: yes
frac_mapped in the order of a score: 400 of 400 rows right
EXPECTED
if ! diff expected seen; then
	echo "bioframe behaves otherwise by now" >&2
	exit 1
fi
