#!/bin/sh
# Makes the golden files that oracle_test.go compares with: consequences of random variants by bcftools csq 1.16.
#
# Usage: make_golden.sh DATA, the folder with lambda-r9, ecoli-r9, sarscov2-r9 and csq.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# golden NAME REF GFF VARIANTS
golden() {
	bcftools csq --force -l -p a -f "$2" -g "$3" "$4" 2>/dev/null |
		bcftools query -f "$1\t%CHROM\t%POS\t%REF\t%ALT\t%BCSQ\n" |
		python3 "$here/shorten.py"
}

zcat "$data/ecoli-r9/MG1655.fa.gz" >"$tmp/ecoli.fa"
cp "$data/lambda-r9/J02459.1.fa" "$tmp/lambda.fa"
cp "$data/sarscov2-r9/NC_045512.2.fa" "$tmp/sarscov2.fa"
cp "$data/lambda-r9/genes.gff3" "$tmp/lambda.gff3"
python3 "$here/ncbi_to_ensembl.py" "$data/ecoli-r9/genes.gff3.gz" >"$tmp/ecoli.gff3"
python3 "$here/ncbi_to_ensembl.py" "$data/sarscov2-r9/genes.gff3" >"$tmp/sarscov2.gff3"
{
	for set in lambda:9000:1 ecoli:4000:2 sarscov2:2500:3; do
		name=${set%%:*} rest=${set#*:}
		samtools faidx "$tmp/$name.fa"
		python3 "$here/random_variants.py" "$tmp/$name.fa" "${rest%:*}" "${rest#*:}" >"$tmp/v.vcf"
		golden "$name" "$tmp/$name.fa" "$tmp/$name.gff3" "$tmp/v.vcf"
	done
	for gff in "$data"/csq/*/*.gff; do
		name=$(basename "$gff" .gff) dir=$(dirname "$gff")
		[ -f "$dir/$name.fa" ] || continue
		sed 's/^>\([^ \t]*\).*/>\1/' "$dir/$name.fa" >"$tmp/s.fa"
		samtools faidx "$tmp/s.fa"
		python3 "$here/random_variants.py" "$tmp/s.fa" 120 4 "$gff" >"$tmp/v.vcf"
		golden "csq/$name" "$tmp/s.fa" "$gff" "$tmp/v.vcf"
	done
} | gzip -9n >"$here/csq.tsv.gz"
