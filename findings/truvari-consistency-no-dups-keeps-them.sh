#!/usr/bin/env bash
# One would guess: "truvari consistency" counts calls of the same place, ID and alleles in one file as several, by "appending a e.g. .1
# to the key", and leaves the second and later ones out if it is asked to: "if you'd like to ignore duplicates, just add --no-dups"
# (its manual; the option's help: "disallow duplicate SVs").
# What happens: the other way round. Without the option the second and later ones are left out of all counts. With --no-dups the second
# one is counted, and the third and later ones, which get the same .1, are not. Of 300 deletions that start at 100 places, symbolic and
# without an ID, the report has 100, or 200 with --no-dups; and two files, one with three deletions at each place and the other
# with one, agree in 100% of all calls. As text, in JSON and in the table of --output, without a word. truvari 5.5.0, pysam 0.24.1.
# Who is hurt: who compares callers or samples by files of symbolic calls, in which only END tells apart what starts at one base, as
# repeats' deletions do: calls are missing and agreement is too high; and who asks for no duplicates gets some.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' && command -v pyenv >/dev/null; then
	PYENV_VERSION=$(pyenv versions --bare | sort -V | tail -n 1)
	export PYENV_VERSION
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "truvari 5.5.0 wants Python 3.12 or a newer one as python3" >&2; exit 2; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check truvari==5.5.0 pysam==0.24.1
cat >try.py <<'PYTHON'
import json
import subprocess


def write(name, calls):
    with open(name, "w") as f:
        f.write('##fileformat=VCFv4.2\n##contig=<ID=chr1,length=1000000>\n##FILTER=<ID=PASS,Description="All filters passed">\n')
        for key, kind in (("END", "Integer"), ("SVTYPE", "String"), ("SVLEN", "Integer")):
            f.write(f'##INFO=<ID={key},Number=1,Type={kind},Description="{key}">\n')
        f.write("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
        for start, length in calls:
            f.write(f"chr1\t{start}\t.\tN\t<DEL>\t30\tPASS\tSVTYPE=DEL;SVLEN=-{length};END={start + length}\n")


def see(title, *options):
    command = ["venv/bin/truvari", "consistency", *options, "--output", "table", "a.vcf", "b.vcf"]
    report = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    both = next(row for row in report["shared"] if row["vcf_count"] == 2)
    print(
        f"{title}, {' '.join(options) or 'no option'}: {report['vcf_counts']['a.vcf']} in a.vcf, {report['vcf_counts']['b.vcf']} in b.vcf, {report['total_calls']} in all, "
        f"{both['num_calls']} in both, {both['call_pct']:.1%}; as text {text.splitlines()[1][2:]}; rows of the table {sum(1 for _ in open('table')) - 1}"
    )


places = range(1000, 101000, 1000)
three = [(place, length) for place in places for length in (100, 300, 500)]
one = [(place, 100) for place in places]
for title, a, b in (("three deletions at each place, the same in both", three, three), ("three, and one", three, one), ("one, and one", one, one)):
    write("a.vcf", a)
    write("b.vcf", b)
    for options in ((), ("--no-dups",)):
        see(title, *options)
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("truvari", version("truvari"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
three deletions at each place, the same in both, no option: 100 in a.vcf, 100 in b.vcf, 100 in all, 100 in both, 100.0%; as text Total 100 calls across 2 VCFs; rows of the table 100
three deletions at each place, the same in both, --no-dups: 200 in a.vcf, 200 in b.vcf, 200 in all, 200 in both, 100.0%; as text Total 200 calls across 2 VCFs; rows of the table 200
three, and one, no option: 100 in a.vcf, 100 in b.vcf, 100 in all, 100 in both, 100.0%; as text Total 100 calls across 2 VCFs; rows of the table 100
three, and one, --no-dups: 200 in a.vcf, 100 in b.vcf, 200 in all, 100 in both, 50.0%; as text Total 200 calls across 2 VCFs; rows of the table 200
one, and one, no option: 100 in a.vcf, 100 in b.vcf, 100 in all, 100 in both, 100.0%; as text Total 100 calls across 2 VCFs; rows of the table 100
one, and one, --no-dups: 100 in a.vcf, 100 in b.vcf, 100 in all, 100 in both, 100.0%; as text Total 100 calls across 2 VCFs; rows of the table 100
EXPECTED
if ! diff expected seen; then
	echo "truvari behaves otherwise by now" >&2
	exit 1
fi
