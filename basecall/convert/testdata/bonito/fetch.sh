#!/usr/bin/env bash
# Fetches the trained network for R9.4.1 in the source package of ont-bonito 0.2.3, under
# the Oxford Nanopore Technologies Public License 1.0: for research, not to be shipped.
#
#	fetch.sh DIR [PIP]
#
# leaves it in DIR/dna_r9.4.1, beside its licence.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "$1")
pip=${2:-pip}
[ ! -e "$dir/dna_r9.4.1/weights_1.tar" ] || exit 0
mkdir -p "$dir"
# pip refuses a package with another hash.
"$pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
	--requirement "$here/requirements.txt" --dest "$dir"
tar -xzf "$dir/ont-bonito-0.2.3.tar.gz" -C "$dir" --strip-components=1 ont-bonito-0.2.3/LICENCE.txt
# It is there when it is whole.
part=$(mktemp -d "$dir/.part-XXXXXX")
tar -xzf "$dir/ont-bonito-0.2.3.tar.gz" -C "$part" --strip-components=3 ont-bonito-0.2.3/bonito/models/dna_r9.4.1
rm -rf "$dir/dna_r9.4.1"
mv "$part/dna_r9.4.1" "$dir/dna_r9.4.1"
rmdir "$part"
rm "$dir/ont-bonito-0.2.3.tar.gz"
