#!/usr/bin/env bash
# Scores the variants of DATA/input.all.vcf by the networks of OpenSpliceAI there, in the settings that its own program was run in
# (DATA/expected.openspliceai_fCONTEXT_dDISTANCE_mMASK.vcf), and compares to two decimals: docs/files/networks.md. What can be set from outside: DATA, REF, OUT, DEVICE.
# The networks are GPL-3.0 and no part of Porestream.
set -eu
cd "$(dirname "$0")/.."
data=${DATA:-../shared/data/splice}
ref=${REF:-$data/../human-chr11-2mb/chr11_2M.fa.gz}
out=${OUT:-.cache/eval/splice}
[ -e "$data/input.all.vcf" ] || { echo "eval-splice: $data has no variants; DATA names another folder" >&2; exit 1; }
mkdir -p "$out"
genes=$data/genes.chr11_2M.grch38.tsv
# The table of genes is given as it is; gene models are needed besides.
awk -F'\t' 'BEGIN { OFS = "\t"; print "##gff-version 3" } !/^#/ {
	c = "chr" $2; print c, ".", "gene", $4 + 1, $5, ".", $3, ".", "ID=gene:" $1 ";Name=" $1
	print c, ".", "lnc_RNA", $4 + 1, $5, ".", $3, ".", "ID=transcript:" $1 ";Parent=gene:" $1
	n = split($6, s, ","); split($7, e, ","); for (i = 1; i < n; i++) print c, ".", "exon", s[i] + 1, e[i], ".", $3, ".", "Parent=transcript:" $1
}' "$genes" >"$out/genes.gff3"
wrong=0
for expected in "$data"/expected.openspliceai_*.vcf; do
	name=$(basename "$expected" .vcf)
	name=${name#expected.openspliceai_}
	IFS=_ read -r context distance mask <<<"$name"
	context=${context#f} distance=${distance#d} mask=${mask#m}
	dir=$out/$name
	mkdir -p "$dir"
	cp "$data/openspliceai-mane-${context}nt-ensemble5.onnx" "$dir/network.onnx"
	cat >"$dir/manifest.toml" <<-EOF
		format = 1
		kind = "sequence"
		name = "openspliceai-mane-${context}nt"
		version = "1"
		rule = "splice"
		info = "OpenSpliceAI"
		licence = "GPL-3.0"
		[input]
		name = "x"
		layout = "NLC"
		channels = "ACGT"
		unknown = "zero"
		strand = "gene"
		context = $context
		[output]
		name = "y"
		layout = "NLC"
		channels = ["neither", "acceptor", "donor"]
		[splice]
		distance = $distance
		mask = $([ "$mask" = 1 ] && echo true || echo false)
		[[networks]]
		file = "network.onnx"
		sha256 = "$(sha256sum "$dir/network.onnx" | cut -d' ' -f1)"
	EOF
	begun=$(date +%s.%N)
	bin/pore annotate --ref "$ref" --gff "$out/genes.gff3" --network "$dir" --network-genes "$genes" --device "${DEVICE:-cpu}" --on-error skip "$data/input.all.vcf" >"$out/$name.vcf" 2>"$out/$name.log"
	took=$(awk -v b="$begun" -v e="$(date +%s.%N)" 'BEGIN { printf "%.1f", e - b }')
	python3 scripts/eval-splice.py "$out/$name.vcf" "$expected" | sed "s/^/$name, $took s: /"
	[ "${PIPESTATUS[0]}" = 0 ] || wrong=1
done
exit $wrong
