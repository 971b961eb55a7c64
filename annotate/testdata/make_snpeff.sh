#!/usr/bin/env bash
# Makes snpeff.tsv.gz with SnpEff 5.1d (Debian's snpeff): what it writes to INFO/ANN for 400 random variants of lambda, the
# entries that are not more than 100 bases from a transcript. Columns: POS, REF, ALT, and the sub-fields without Allele,
# Gene_ID, HGVS.c and HGVS.p, in the order of the entries.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lambda=$here/../../testdata/lambda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/data/lambda"
cp "$lambda/reference.fa" "$work/data/lambda/sequences.fa"
cp "$lambda/genes.gff3" "$work/data/lambda/genes.gff"
cd "$work"
{
	grep '^codon.Bacterial_and_Plant_Plastid' /etc/snpeff/snpEff.config
	printf 'data.dir = ./data/\nlambda.genome : lambda\nlambda.J02459.1.codonTable : Bacterial_and_Plant_Plastid\n'
} >snpEff.config
snpEff build -c snpEff.config -gff3 -noCheckCds -noCheckProtein lambda >/dev/null
python3 "$here/random_variants.py" data/lambda/sequences.fa 400 5 >in.vcf
snpEff ann -c snpEff.config -noStats -noLog lambda in.vcf >out.vcf
awk -F'\t' -v OFS='\t' '!/^#/ && NF > 7 {
	sub(/.*ANN=/, "", $8); sub(/;.*/, "", $8); n = split($8, entries, ",")
	for (i = 1; i <= n; i++) {
		gsub(/gene:|transcript:/, "", entries[i]); m = split(entries[i], f, "|")
		if (f[15] == "" || f[15] + 0 <= 100) print $2, $4, $5, f[2], f[3], f[4], f[6], f[7], f[8], f[9], f[12], f[13], f[14], f[15], f[16]
	}
}' out.vcf | gzip -9n >"$here/snpeff.tsv.gz"
