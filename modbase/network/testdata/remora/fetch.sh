#!/usr/bin/env bash
# Fetches the source package of ont-remora 1.1.1, under the Oxford Nanopore Technologies Public License 1.0 (for research,
# not to be shipped), and makes what of it judges reads run.
#
#	fetch.sh DIR
#
# leaves the networks in DIR/remora/trained_models, and as DIR/python an interpreter that has the package.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "$1")
[ ! -x "$dir/python" ] || exit 0
mkdir -p "$dir"
[ -x "$dir/venv/bin/pip" ] || python3 -m venv "$dir/venv"
pip() { "$dir/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
# pip refuses a package with another hash. Cython, which it builds the package's description with, comes as a wheel: compiling that takes minutes.
pip download --no-deps --no-binary ont-remora --require-hashes --requirement "$here/requirements.txt" --dest "$dir"
# It uses names that NumPy 1.24 has no more, which ONNX Runtime says it needs.
pip install --no-compile --no-deps numpy==1.23.5 cython==3.3.1 setuptools==69.5.1 onnx==1.14.1 onnxruntime==1.16.3 protobuf==3.20.3 typing_extensions==4.16.0
tar -xzf "$dir/ont-remora-1.1.1.tar.gz" -C "$dir" --strip-components=2 ont-remora-1.1.1/src/remora
tar -xzf "$dir/ont-remora-1.1.1.tar.gz" -C "$dir" --strip-components=1 ont-remora-1.1.1/LICENSE.txt
(cd "$dir" && venv/bin/python - build_ext --inplace >build.log 2>&1) <<'PY'
from Cython.Build import cythonize
from setuptools import Extension, setup
import numpy

names = ["encoded_kmers", "refine_signal_map_core"]
setup(
    name="remora",
    packages=["remora"],
    ext_modules=cythonize(
        [Extension(f"remora.{n}", [f"remora/{n}.pyx"], include_dirs=[numpy.get_include()]) for n in names],
        compiler_directives={"cpow": True, "language_level": 3},
    ),
)
PY
rm "$dir/ont-remora-1.1.1.tar.gz"
# It is there when it is whole.
cat >"$dir/python.part" <<SH
#!/bin/sh
PYTHONPATH='$dir' exec '$dir/venv/bin/python' -W ignore "\$@"
SH
chmod +x "$dir/python.part"
mv "$dir/python.part" "$dir/python"
