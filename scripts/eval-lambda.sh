#!/usr/bin/env bash
# Calls random parts of real reads of phage lambda, by the network and by the analytic
# model, against the sequence that the sample differs from by four SNPs and against its
# own: docs/files/variant-calling.md.
#
# What can be set from outside: SIGNAL (or READS, a FASTQ file), OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
signal=${SIGNAL:-../shared/data/lambda-r9/reads.blow5}
out=${OUT:-.cache/eval/planted} # shared with eval-planted.sh
reads=${READS:-$out/reads.fastq}
mkdir -p "$out"
if [ ! -e "$reads" ]; then
	[ -e "$signal" ] || { echo "eval-lambda: $signal is not there; SIGNAL and READS name other files" >&2; exit 1; }
	bin/pore basecall "$signal" >"$reads.part"
	mv "$reads.part" "$reads"
fi
PORESTREAM_LAMBDA_READS=$(realpath "$reads") go test -count 1 -timeout 2h -v -run 'TestLambda$' ./variant
