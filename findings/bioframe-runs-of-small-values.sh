#!/usr/bin/env bash
# One would guess: merge_runs and mark_runs of bioframe put intervals together that lie next to each other and are "sharing the same
# value" of a column (their documentation), so that no value is lost: what a bedGraph file does with equal depths.
# What happens: values that are floating-point numbers are taken for the same if they differ by less than 0.00000001 or by less than
# a hundred-thousandth of themselves, each compared with the one before it, and the run has the first one's value. All values near
# zero are one run: depths as shares of all reads, densities, probabilities and p-values. And a slow slope is one run whose value is
# that of its foot, however high it climbs. Whole numbers are compared as they are. No warning. bioframe 0.8.0, pandas 3.1.1, numpy 2.5.5.
# Who is hurt: who shrinks a track before writing it: depths as shares of a large run's bases are one interval for each
# chromosome, all peaks gone, and neighbouring p-values below 0.00000001, however small, are one: that of the first.
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
import itertools
import random

import bioframe
import pandas as pd

chance = random.Random(1)


def see(title, values):
    """Merges intervals of 100 bases, one for each value, and compares with runs of equal values."""
    table = pd.DataFrame({"chrom": "chr1", "start": range(0, 100 * len(values), 100), "end": range(100, 100 * len(values) + 100, 100), "value": values})
    merged = bioframe.merge_runs(table, "value")
    marked = bioframe.mark_runs(table, "value")
    runs = [value for value, _ in itertools.groupby(values)]
    print(f"{title}: {len(runs)} runs by hand, from {min(runs):.4g} to {max(runs):.4g}; merge_runs {len(merged)}, from {merged.value.min():.4g} to {merged.value.max():.4g}; mark_runs {marked.run.nunique()}")


# Depths of a run of 200 gigabases: 20 to 40, with a peak of a thousand each hundredth interval.
depths = [1000 if i % 100 == 50 else chance.randint(20, 40) for i in range(2000)]
see("depth, whole numbers", depths)
see("depth, floating-point", [float(depth) for depth in depths])
see("depth as a share of 200 gigabases", [depth / 200e9 for depth in depths])
see("depth for each million bases", [depth / 200e3 for depth in depths])
see("p-values", [10.0 ** -chance.randint(2, 300) for _ in range(2000)])
see("the same as logarithms", [-float(chance.randint(2, 300)) for _ in range(2000)])
see("a slope from 1 to 2", [1 + i / 199999 for i in range(200000)])
see("the same, ten times as steep", [1 + i / 19999 for i in range(20000)])
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("bioframe", version("bioframe"), "pandas", version("pandas"), "numpy", version("numpy"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
depth, whole numbers: 1914 runs by hand, from 20 to 1000; merge_runs 1914, from 20 to 1000; mark_runs 1914
depth, floating-point: 1914 runs by hand, from 20 to 1000; merge_runs 1914, from 20 to 1000; mark_runs 1914
depth as a share of 200 gigabases: 1914 runs by hand, from 1e-10 to 5e-09; merge_runs 1, from 1.2e-10 to 1.2e-10; mark_runs 1
depth for each million bases: 1914 runs by hand, from 0.0001 to 0.005; merge_runs 1914, from 0.0001 to 0.005; mark_runs 1914
p-values: 1995 runs by hand, from 1e-300 to 0.01; merge_runs 75, from 1e-296 to 0.01; mark_runs 75
the same as logarithms: 1992 runs by hand, from -300 to -2; merge_runs 1992, from -300 to -2; mark_runs 1992
a slope from 1 to 2: 200000 runs by hand, from 1 to 2; merge_runs 1, from 1 to 1; mark_runs 1
the same, ten times as steep: 20000 runs by hand, from 1 to 2; merge_runs 20000, from 1 to 2; mark_runs 20000
EXPECTED
if ! diff expected seen; then
	echo "bioframe behaves otherwise by now" >&2
	exit 1
fi
