#!/usr/bin/env bash
# Finds the genes of annotated genomes with pore genes, and with Pyrodigal (GPL-3.0, run as a program beside, from PyPI) on the same genomes, and
# compares both with the annotation: docs/files/genes.md. No genome is judged by a prior that has seen its clade. What can be set from outside: DATA, ECOLI, PYRODIGAL (0 leaves it out), OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-../shared/data/genes}
ecoli=${ECOLI:-../shared/data/ecoli-r9}
out=${OUT:-.cache/eval/genes}
pyrodigal=.cache/pyrodigal
[ -e "$data/NC_000962.3.gbk.gz" ] || { echo "eval-genes: $data has no genomes; DATA names another folder" >&2; exit 1; }
for genome in Bacillus Staphylococcus Acinetobacter Halobacterium Methanocaldococcus Pyrococcus Sulfolobus Nitrosopumilus; do
	[ -e "$data/$genome.gbk.gz" ] || echo "eval-genes: $data has no $genome.gbk.gz: priors learn from fewer genomes than those of docs/files/genes.md; train/genes/README.md says how to make it" >&2
done
mkdir -p "$out"
go build -o "$out/genes" ./train/genes
if [ "${PYRODIGAL:-1}" != 0 ] && [ ! -x "$pyrodigal/bin/python" ]; then
	python3 -m venv "$pyrodigal"
	"$pyrodigal/bin/pip" install --quiet --disable-pip-version-check pyrodigal==3.7.1 || { rm -rf "$pyrodigal"; exit 1; }
fi

phages=NC_013600,NC_016566,NC_019724,NC_028901,NC_031081,NC_049491,NC_049493,NC_070914,NC_070915,NC_070918
prior() { # NAME ACCESSIONS
	[ -e "$out/$1.json" ] || "$out/genes" prior --without "$2" "$data"/*.gz "$data"/phages/*.gz >"$out/$1.json"
}
prior escherichia NC_002695
prior mycobacterium NC_000962
prior chlamydia 18,NC_000117
prior mycoplasma NZ_CP001668
[ ! -e "$data/Bacillus.gbk.gz" ] || prior bacilli AP012496,CP007454
prior phages "$phages"

# judge NAME PRIOR FASTA TRUTH MODE CODE
judge() {
	local name=$1 prior=$2 fasta=$3 truth=$4 mode=$5 code=$6
	bin/pore genes --ref "$fasta" --prior "$out/$prior.json" -o "$out/$name.pore.gff3" 2>"$out/$name.log"
	printf '%s\tpore\t' "$name"
	"$out/genes" compare "$truth" "$out/$name.pore.gff3"
	[ "${PYRODIGAL:-1}" != 0 ] || return 0
	"$pyrodigal/bin/python" scripts/eval-pyrodigal.py "$fasta" "$mode" "$code" >"$out/$name.pyrodigal.gff3"
	printf '%s\tpyrodigal\t' "$name"
	"$out/genes" compare "$truth" "$out/$name.pyrodigal.gff3"
}
printf 'genome\tby\tgenes\tfound\tright\tsensitivity\tprecision\tstarts\tin pseudogenes\tmissed <90 <150 <300 more\twrong <90 <150 <300 more\n'
gzip -dc "$ecoli/MG1655.fa.gz" >"$out/MG1655.fa"
judge MG1655 escherichia "$out/MG1655.fa" "$ecoli/genes.gff3.gz" single 11
record() { # NAME PRIOR FILE MODE CODE
	"$out/genes" convert "$3" "$out/$1"
	judge "$1" "$2" "$out/$1.fa" "$out/$1.gff3" "$4" "$5"
}
record Sakai escherichia "$data/NC_002695.gbk.gz" single 11
record H37Rv mycobacterium "$data/NC_000962.3.gbk.gz" single 11
record trachomatis chlamydia "$data/NC_000117.1.gbk.gz" single 11
for genome in Bacillus Staphylococcus; do
	[ ! -e "$data/$genome.gbk.gz" ] || record "$genome" bacilli "$data/$genome.gbk.gz" single 11
done
# The shipped prior has seen other archaea, of other orders.
cp genes/prior.json "$out/shipped.json"
archaea=
for genome in "$data"/archaea/*.gbk.gz; do
	[ -e "$genome" ] || break
	name=$(basename "$genome" .gbk.gz)
	archaea="$archaea $name"
	record "$name" shipped "$genome" single 11
done
# Pyrodigal is told the code, pore isn't.
record mycoides mycoplasma "$data/GCF_000023685.1_Mycoplasma_mycoides.gbff.gz" single 4
{
	for accession in ${phages//,/ }; do record "$accession" phages "$data/phages/$accession.gbk.gz" meta 11; done
} | tee "$out/phages.tsv"
awk -F'\t' '{ n[$2]++; s[$2] += $6; p[$2] += $7; t[$2] += $8 } END { for (by in n) printf "phages, mean\t%s\t\t\t\t%.4f\t%.4f\t%.4f\n", by, s[by] / n[by], p[by] / n[by], t[by] / n[by] }' "$out/phages.tsv" | sort -r
judge lambda phages testdata/lambda/reference.fa testdata/lambda/genes.gff3 meta 11
gzip -dc testdata/sarscov2/reference.fa.gz >"$out/sarscov2.fa"
judge SARS-CoV-2 phages "$out/sarscov2.fa" testdata/sarscov2/genes.gff3 meta 11

printf '\nMG1655 named after the proteins of\tgenes found\tlike a known protein\twith a symbol where the annotation has one\tthe same\ta synonym\n'
for known in NC_002695 NC_000962.3; do
	bin/pore genes --ref "$out/MG1655.fa" --prior "$out/escherichia.json" --proteins "$data/$known.gbk.gz" -o "$out/MG1655.$known.gff3" 2>>"$out/MG1655.log"
	printf '%s\t' "$known"
	"$out/genes" names "$ecoli/genes.gff3.gz" "$out/MG1655.$known.gff3"
done

printf '\nRNA\tkind\tgenes\tfound\tright\twith the same product\twithin five bases at both ends\n'
for genome in MG1655 Sakai H37Rv trachomatis Bacillus Staphylococcus mycoides $archaea; do
	[ -e "$out/$genome.pore.gff3" ] || continue
	truth=$out/$genome.gff3
	[ "$genome" != MG1655 ] || truth=$ecoli/genes.gff3.gz
	"$out/genes" rna "$truth" "$out/$genome.pore.gff3" | sed "s/^/$genome\t/"
done

printf '\nprobabilities\tof\tnumber\tmean\tright\texpected calibration error\n'
for genome in MG1655 Sakai H37Rv trachomatis Bacillus Staphylococcus mycoides $archaea ${phages//,/ }; do
	[ -e "$out/$genome.pore.gff3" ] || continue
	truth=$out/$genome.gff3
	[ "$genome" != MG1655 ] || truth=$ecoli/genes.gff3.gz
	"$out/genes" calibration "$truth" "$out/$genome.pore.gff3" | sed "s/^/$genome\t/"
done

# Broken genes are told by proteins of the other strain: the counts of compare, as above.
printf 'MG1655 by Sakai\tpore\t'
"$out/genes" compare "$ecoli/genes.gff3.gz" "$out/MG1655.NC_002695.gff3"
bin/pore genes --ref "$out/Sakai.fa" --prior "$out/escherichia.json" --proteins "$ecoli/genes.gff3.gz,$out/MG1655.fa" -o "$out/Sakai.MG1655.gff3" 2>>"$out/Sakai.log"
printf 'Sakai by MG1655\tpore\t'
"$out/genes" compare "$out/Sakai.gff3" "$out/Sakai.MG1655.gff3"

# Random substitutions, with the genes found and with the annotation's.
printf '\nsubstitutions in\tnumber\twith the same most severe consequence\toutside RNA genes and pseudogenes\tthe same\n'
consequences() { # NAME TRUTH FOUND GENOME
	printf '%s\t' "$1"
	"$out/genes" consequences "$out/$4.fa" "$2" "$out/$3.gff3"
}
consequences MG1655 "$ecoli/genes.gff3.gz" MG1655.pore MG1655
consequences "MG1655 by Sakai" "$ecoli/genes.gff3.gz" MG1655.NC_002695 MG1655
cp testdata/lambda/reference.fa "$out/lambda.fa"
consequences lambda testdata/lambda/genes.gff3 lambda.pore lambda
consequences SARS-CoV-2 testdata/sarscov2/genes.gff3 SARS-CoV-2.pore sarscov2
