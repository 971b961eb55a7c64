#!/usr/bin/env bash
# Calls real reads of phage lambda against references with planted variants, and compares
# pore call, and bcftools where it is installed, with what was planted: docs/files/simulation.md.
#
# For each seed twice: with changes that are by themselves, and with a fifth of MNPs, a fifth of
# delins, and pairs of neighbours.
#
# What can be set from outside: REF and SIGNAL (or READS, a FASTQ file of any basecaller),
# SEEDS, VARIANTS and EVENTS (what is planted; empty leaves that out), CALL (further flags of
# pore call), BCFTOOLS (0 leaves it out), OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
pore=bin/pore
ref=${REF:-../shared/data/lambda-r9/NEB.fa}
signal=${SIGNAL:-../shared/data/lambda-r9/reads.blow5}
out=${OUT:-.cache/eval/planted}
reads=${READS:-$out/reads.fastq}
for f in "$ref" "${READS:-$signal}"; do
	[ -e "$f" ] || { echo "eval-planted: $f is not there; REF, SIGNAL and READS name other files" >&2; exit 1; }
done
mkdir -p "$out"
. scripts/eval-lib.sh

if [ ! -e "$reads" ]; then
	cpu "pore basecall" "$pore" basecall "$signal" >"$reads.part"
	mv "$reads.part" "$reads"
fi

# planting NAME FOLDER SEED VARIANTS plants, calls and compares.
planting() {
	local name=$1 at=$2 seed=$3 variants=$4 strata
	mkdir -p "$at"
	echo "== seed $seed, $name"
	"$pore" simulate reference --ref "$ref" --variants "$variants" --seed "$seed" --sample lambda --truth "$at/truth.vcf" \
		--homopolymers "$at/homopolymers.bed" --outside-homopolymers "$at/outside.bed" -o "$at/planted.fa"
	cpu "pore align" "$pore" align --ref "$at/planted.fa" --sample lambda -o "$at/reads.bam" "$reads"
	# shellcheck disable=SC2086 # CALL is several words
	cpu "pore call" "$pore" call --ref "$at/planted.fa" --ploidy 1 ${CALL:-} -o "$at/pore.vcf" "$at/reads.bam"
	strata=(--ploidy 1 --stratify "homopolymers=$at/homopolymers.bed" --stratify "elsewhere=$at/outside.bed")
	evaluate "pore call" "$at/planted.fa" "$at/truth.vcf" "$at/pore.vcf" "${strata[@]}" --json >"$at/pore.json"
	evaluate "pore call" "$at/planted.fa" "$at/truth.vcf" "$at/pore.vcf" "${strata[@]}" | tee "$at/pore.txt"
	if bcftools_wanted; then
		cpu "bcftools" bash -c "bcftools mpileup -B -Q5 --max-BQ 30 -h 100 -f '$at/planted.fa' '$at/reads.bam' 2>/dev/null | bcftools call -mv --ploidy 1 -P 0.01 -o '$at/bcftools.vcf' 2>/dev/null"
		evaluate "bcftools" "$at/planted.fa" "$at/truth.vcf" "$at/bcftools.vcf" "${strata[@]}" | tee "$at/bcftools.txt"
	fi
}

# Most indels are anywhere: what is asked for is lengths from 1 to 20 bases.
isolated=${VARIANTS-snp=200,indel=100,max=20,homopolymer=0.1,tandem=0.1}
events=${EVENTS-snp=120,indel=60,mnp=60,delins=60,neighbours=20,max=20,homopolymer=0.1,tandem=0.1}
for seed in ${SEEDS:-1 2 3 4 5}; do
	if [ -n "$isolated" ]; then planting "changes by themselves" "$out/$seed" "$seed" "$isolated"; fi
	if [ -n "$events" ]; then planting "events of several bases" "$out/$seed-events" "$seed" "$events"; fi
done

for caller in pore bcftools; do
	[ "$caller" = pore ] || bcftools_wanted || continue
	alone=() several=()
	for seed in ${SEEDS:-1 2 3 4 5}; do
		alone+=("$out/$seed/$caller.txt")
		several+=("$out/$seed-events/$caller.txt")
	done
	if [ -n "$isolated" ]; then whole "changes by themselves, $caller" "${alone[@]}"; fi
	if [ -n "$events" ]; then whole "events of several bases, $caller" "${several[@]}"; fi
done
