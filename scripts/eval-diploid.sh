#!/usr/bin/env bash
# Calls a simulated diploid sample whose truth is known, and compares pore call, and
# bcftools where it is installed, with it: docs/files/simulation.md.
#
# The profile and the seed are none that a variant model is trained on. What can be set
# from outside: REF, PROFILE, SEED, DEPTH, LENGTH, VARIANTS, CALL (further flags of pore
# call), BCFTOOLS (0 leaves it out), OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
pore=bin/pore
ref=${REF:-../shared/data/human-chr11-2mb/chr11_2M.fa.gz}
out=${OUT:-.cache/eval/diploid}
[ -e "$ref" ] || { echo "eval-diploid: $ref is not there; REF names a reference genome" >&2; exit 1; }
mkdir -p "$out"
. scripts/eval-lib.sh

cpu "pore simulate reads" "$pore" simulate reads --ref "$ref" --ploidy 2 --variants "${VARIANTS:-human}" --profile "${PROFILE:-r10.4.1-heldout}" \
	--depth "${DEPTH:-30}" --length "${LENGTH:-12000}" --seed "${SEED:-6011}" --truth "$out/truth.vcf" --sample simulated -o "$out/reads.fastq"
cpu "pore align" "$pore" align --ref "$ref" --preset lr:hq --sample simulated -o "$out/reads.bam" "$out/reads.fastq"
# shellcheck disable=SC2086 # CALL is several words
cpu "pore call" "$pore" call --ref "$ref" --ploidy 2 ${CALL:-} -o "$out/pore.vcf" "$out/reads.bam"
evaluate "pore call" "$ref" "$out/truth.vcf" "$out/pore.vcf" --json >"$out/pore.json"
evaluate "pore call" "$ref" "$out/truth.vcf" "$out/pore.vcf"
if command -v python3 >/dev/null; then # whether qualities mean what they say
	compare=("$pore" eval variants --ref "$ref" --truth "$out/truth.vcf" --bootstrap 0)
	"${compare[@]}" --out "$out/genotypes" "$out/pore.vcf" >/dev/null
	"${compare[@]}" --squash --out "$out/alleles" "$out/pore.vcf" >/dev/null
	python3 scripts/eval-gq.py "$out/genotypes" "$out/alleles"
fi

if bcftools_wanted; then
	plain "$ref" "$out/ref.fa"
	cpu "bcftools, SNPs (-X ont)" bash -c "bcftools mpileup -X ont -f '$out/ref.fa' '$out/reads.bam' 2>/dev/null | bcftools call -mv -o '$out/bcftools-snps.vcf' 2>/dev/null"
	evaluate "bcftools, SNPs (-X ont)" "$ref" "$out/truth.vcf" "$out/bcftools-snps.vcf"
	cpu "bcftools, with indels" bash -c "bcftools mpileup -B -Q5 --max-BQ 30 -h 100 -f '$out/ref.fa' '$out/reads.bam' 2>/dev/null | bcftools call -mv -P 0.01 -o '$out/bcftools.vcf' 2>/dev/null"
	evaluate "bcftools, with indels" "$ref" "$out/truth.vcf" "$out/bcftools.vcf"
fi
