#!/usr/bin/env bash
# Simulates reads of haploid, heterozygous and homozygous samples in which a fifth of the changes
# are MNPs and a fifth delins, calls them, and tells of whole events by kind: docs/files/simulation.md.
#
# What can be set from outside: REF, PROFILE, DEPTH, LENGTH, SEEDS, EVENTS (what is planted),
# SAMPLES, CALL (further flags of pore call), OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
pore=bin/pore
ref=${REF:-testdata/lambda/reference.fa}
out=${OUT:-.cache/eval/events}
[ -e "$ref" ] || { echo "eval-events: $ref is not there; REF names another reference" >&2; exit 1; }
mkdir -p "$out"
. scripts/eval-lib.sh

events=${EVENTS:-snp=120,indel=60,mnp=60,delins=60,neighbours=20,max=20,homopolymer=0.1,tandem=0.1}
for sample in ${SAMPLES:-haploid heterozygous homozygous}; do
	case $sample in
	haploid) ploidy=1 het=0 ;;
	heterozygous) ploidy=2 het=1 ;;
	homozygous) ploidy=2 het=0 ;;
	*) echo "eval-events: sample $sample: want haploid, heterozygous or homozygous" >&2; exit 2 ;;
	esac
	tables=()
	for seed in ${SEEDS:-1 2 3 4 5}; do
		at=$out/$sample-$seed
		tables+=("$at/pore.txt")
		mkdir -p "$at"
		echo "== $sample, seed $seed"
		"$pore" simulate reads --ref "$ref" --ploidy "$ploidy" --variants "$events,het=$het" --profile "${PROFILE:-r10.4.1-heldout}" --depth "${DEPTH:-30}" \
			--length "${LENGTH:-6000}" --seed "$seed" --truth "$at/truth.vcf" -o "$at/reads.fastq"
		"$pore" align --ref "$ref" --preset lr:hq --sample simulated -o "$at/reads.bam" "$at/reads.fastq"
		# shellcheck disable=SC2086 # CALL is several words
		cpu "pore call" "$pore" call --ref "$ref" --ploidy "$ploidy" ${CALL:-} -o "$at/pore.vcf" "$at/reads.bam"
		evaluate "pore call" "$ref" "$at/truth.vcf" "$at/pore.vcf" --ploidy "$ploidy" --json >"$at/pore.json"
		evaluate "pore call" "$ref" "$at/truth.vcf" "$at/pore.vcf" --ploidy "$ploidy" >"$at/pore.txt"
	done
	whole "$sample" "${tables[@]}"
done
