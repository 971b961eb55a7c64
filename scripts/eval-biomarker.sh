#!/usr/bin/env bash
# Cross-validates a biomarker model and prints its table: what make eval-biomarker runs. DATA names the folder that the recipe's paths start from,
# RECIPE a recipe of train/biomarker/recipes or a file, OUT where checkpoints and the report go, PYTHON a Python with PyTorch, MODEL a folder to write
# a model to that is trained on everything, DEVICES where networks are trained (cpu, cuda, cuda:0,1, auto). Run again, it goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() {
	echo "eval-biomarker: $*" >&2
	exit 1
}
case ${RECIPE:=hiv1-pol} in
*.toml) recipe=$RECIPE ;;
*) recipe=train/biomarker/recipes/$RECIPE.toml ;;
esac
[ -f "$recipe" ] || fail "no recipe $RECIPE; there are: $(cd train/biomarker/recipes && ls *.toml | sed 's/\.toml$//' | tr '\n' ' ')"
[ -n "${DATA:-}" ] || fail "name the folder with the tables: make eval-biomarker DATA=FOLDER; $recipe says what must be in it"
[ -d "$DATA" ] || fail "DATA: there is no folder $DATA"
out=${OUT:-.cache/eval/biomarker/$(basename "$recipe" .toml)}
python=${PYTHON:-.cache/biomarker/bin/python}
if [ -z "${PYTHON:-}" ] && [ ! -x "$python" ]; then
	python3 -m venv .cache/biomarker
	.cache/biomarker/bin/pip install --quiet --disable-pip-version-check -e train/biomarker || { rm -rf .cache/biomarker; exit 1; }
fi
command -v "$python" >/dev/null || fail "PYTHON: $python can't be run"
python=$(realpath --no-symlinks "$(command -v "$python")")
run() { PYTHONPATH=train/biomarker "$python" -m biomarker_train "$@"; }
run evaluate "$recipe" --data "$DATA" --work "$out" --devices "${DEVICES:=cpu}"
[ -z "${MODEL:-}" ] || run train "$recipe" --data "$DATA" --work "$out" --model "$MODEL" --devices "$DEVICES"
