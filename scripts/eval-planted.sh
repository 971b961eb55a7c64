#!/usr/bin/env bash
# Calls real reads of phage lambda against references with planted variants, and compares
# pore call, and bcftools where it is installed, with what was planted: docs/simulation.md.
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
		evaluate "bcftools" "$at/planted.fa" "$at/truth.vcf" "$at/bcftools.vcf" "${strata[@]}"
	fi
}

# Most indels are anywhere: what is asked for is lengths from 1 to 20 bases.
isolated=${VARIANTS-snp=200,indel=100,max=20,homopolymer=0.1,tandem=0.1}
events=${EVENTS-snp=120,indel=60,mnp=60,delins=60,neighbours=20,max=20,homopolymer=0.1,tandem=0.1}
for seed in ${SEEDS:-1 2 3 4 5}; do
	if [ -n "$isolated" ]; then planting "changes by themselves" "$out/$seed" "$seed" "$isolated"; fi
	if [ -n "$events" ]; then planting "events of several bases" "$out/$seed-events" "$seed" "$events"; fi
done

# whole NAME FOLDER... sums the tables of whole events, a line for each kind.
whole() {
	local name=$1
	shift
	awk -v name="$name" '
		/^ *Events as a whole/ { table = 1; next }
		NF == 0 { table = 0 }
		table { if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } truth[$1] += $2; found[$1] += $3; one[$1] += $4; called[$1] += $7; right[$1] += $8 }
		function share(a, b) { return b ? sprintf("%.4f", a / b) : "-" }
		END {
			print "== whole events, " name ", all seeds"
			for (i = 1; i <= n; i++) {
				k = order[i]
				printf "%s: %d of %d found (%d in one record), recall %s; %d of %d calls right, precision %s\n", k, found[k], truth[k], one[k], share(found[k], truth[k]), right[k], called[k], share(right[k], called[k])
			}
		}' "${@/%//pore.txt}"
}

folders=()
for seed in ${SEEDS:-1 2 3 4 5}; do folders+=("$out/$seed"); done
if [ -n "$isolated" ]; then whole "changes by themselves" "${folders[@]}"; fi
if [ -n "$events" ]; then whole "events of several bases" "${folders[@]/%/-events}"; fi
