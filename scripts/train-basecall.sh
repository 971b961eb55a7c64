#!/usr/bin/env bash
# Makes a basecaller of recordings: what make train-basecall runs. RECIPE names a recipe of train/basecall/recipes
# or is a file's path, TRAIN_DATA the folder that its paths start from, TRAIN_WORK where
# prepared data, checkpoint and model go. Run again, it goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() {
	echo "train-basecall: $*" >&2
	exit 1
}

case ${RECIPE:=r9.4-small} in
*.toml) recipe=$RECIPE RECIPE=$(basename "$RECIPE" .toml) ;;
*) recipe=train/basecall/recipes/$RECIPE.toml ;;
esac
[ -f "$recipe" ] || fail "no recipe $RECIPE; there are: $(cd train/basecall/recipes && ls *.toml | sed 's/\.toml$//' | tr '\n' ' ')"
[ -n "${TRAIN_DATA:-}" ] || fail "name the folder with the recordings: make train-basecall TRAIN_DATA=FOLDER; $recipe says what must be in it"
before=$(grep -v '^#' "$recipe" | grep -oE '"\.\./checkpoints/[^"/]+\.onnx"' | sed 's|.*/||; s|"||' | sort -u)
[ -z "$before" ] || scripts/checkpoints.sh $before
# Before anything is fetched, as that takes minutes.
missing=$(python3 - "$recipe" "$TRAIN_DATA" <<'PYTHON'
import pathlib, sys, tomllib
recipe = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
files = [recipe["teacher"]["file"]]
for one in [*recipe["source"], *recipe.get("evaluation", [])]:
    files += [one[key] for key in ("recordings", "simulated_from", "reference", "calls") if key in one]
    files += one.get("relatives", [])
home = pathlib.Path(sys.argv[1]).parent
begins = recipe["training"].get("begins", {})
own = [*([begins] if isinstance(begins, str) else begins), *recipe["training"].get("exported_with", {})]
own += recipe["training"].get("mentors", [])
for one in recipe["source"]:
    own += one.get("joined_by", []) + ([one["pore_model"]] if "pore_model" in one else [])
absent = [name for name in own if not (home / name).is_file()]
if absent:
    sys.exit(f"{sys.argv[1]} names files that are not there: {', '.join(absent)}")
print(*[name for name in dict.fromkeys(files) if not (pathlib.Path(sys.argv[2]) / name).is_file()], sep=", ")
PYTHON
) || fail "reading $recipe failed; it needs Python 3.11 or newer as python3"
[ -z "$missing" ] || fail "$TRAIN_DATA lacks what $recipe is trained and judged on: $missing"

venv=.cache/train
$venv/bin/python -c 'import h5py, mappy, numba, numpy, onnx, onnxruntime, pod5, pyslow5, torch, vbz_h5py_plugin' 2>/dev/null ||
	{ python3 -m venv $venv && # also where CI has made it, which leaves pip out
		$venv/bin/python -m pip install --quiet --disable-pip-version-check -e train/basecall; } || fail "what trains can't be installed into $venv"
work=${TRAIN_WORK:-.cache/train-basecall/$RECIPE}
mkdir -p "$work"
judge=()
if grep -qE '^(state_length|simulated_from)' "$recipe"; then # only the engine can call with a CRF, and simulate
	make --no-print-directory build
	judge=(--pore bin/pore)
fi
# Chunks of a batch are freed and asked for again all the time: with pages that are kept, a tenth more is trained in the same time.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_TOP_PAD_=268435456
SECONDS=0
PYTHONPATH=train/basecall $venv/bin/python -m basecall_train all "$recipe" --data "$TRAIN_DATA" --work "$work" --model "$work/model" "${judge[@]}"
sed -n '/^## Accuracy/,/^## Base/{/^|/p}' "$work/model/MODEL_CARD.md"
echo "$work/model is a model, after ${SECONDS}s: bin/pore basecall --model $work/model reads.pod5 | bin/pore eval basecall --ref genome.fa -"
