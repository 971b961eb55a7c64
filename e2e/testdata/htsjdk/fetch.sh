#!/usr/bin/env bash
# Fetches htsjdk, with which IGV, GATK and Picard read VCF, and what it needs: fetch.sh DIR
set -euo pipefail
dir=$(realpath -m "$1")
[ -n "$(compgen -G "$dir/htsjdk-*.jar")" ] ||
	mvn -q -B -f "$(dirname "$0")/pom.xml" dependency:copy-dependencies -DoutputDirectory="$dir"
