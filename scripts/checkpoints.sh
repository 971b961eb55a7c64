#!/usr/bin/env bash
# Brings networks that recipes begin with or learn from out of the project's history into
# train/basecall/checkpoints, where git ignores them: they are many times what a clone needs to
# build and run. Arguments are their names; without any, all that files.tsv lists. A file that is
# there is left alone. A shallow clone fetches the history first, about 280 MB.
set -euo pipefail
folder=train/basecall/checkpoints
cd "$(dirname "$0")/.."
fail() {
	echo "checkpoints: $*" >&2
	exit 1
}

[ $# -gt 0 ] || set -- $(tail -n +2 $folder/files.tsv | cut -f1)
for name; do
	[ ! -f "$folder/$name" ] || continue
	line=$(awk -F '\t' -v name="$name" 'NR > 1 && $1 == name' $folder/files.tsv)
	[ -n "$line" ] || fail "$folder/files.tsv lists no $name"
	IFS=$'\t' read -r _ _ sum object <<<"$line"
	if ! git cat-file -e "$object" 2>/dev/null; then
		[ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = true ] ||
			fail "$name is in the project's git history, which this folder doesn't have: use a full clone"
		echo "checkpoints: fetching the history for $name" >&2
		git fetch --quiet --unshallow && git cat-file -e "$object" || fail "the history has no $name (object $object)"
	fi
	partial=$folder/$name.partial
	git cat-file blob "$object" >"$partial"
	if ! echo "$sum  $partial" | sha256sum --check --status; then
		rm -f "$partial"
		fail "$name of the history is not the file that $folder/files.tsv describes"
	fi
	mv "$partial" "$folder/$name"
done
