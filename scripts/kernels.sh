#!/usr/bin/env bash
# Builds Porestream's own operators for ONNX Runtime (basecall/kernels/cuda) into .deps/kernels/,
# which git ignores:
#
#   kernels.sh cuda   libporestream_ops.so for GPUs, and bench, which measures them there, with NVIDIA's compiler from PyPI
#                     (105 MB, pinned by hash, kept in .deps/cuda); fails if a kernel spills registers
#   kernels.sh docs   the same, and what kernels need of a GPU into docs/operate/gpu-kernels.md
#   kernels.sh release  release/libporestream_ops.so for DEPS_MACHINE (x86_64, aarch64), host code compiled and linked by
#                     TARGET_CXX, which may be a cross compiler: on aarch64, or with KERNELS_GPU=0, for the CPU alone
#   kernels.sh cpu    cpu/libporestream_ops.so without a GPU's part, and cpu/emulate, which runs the
#                     GPU's kernels on a CPU; both are for tests
#
# KERNELS_CUDA names another folder for NVIDIA's compiler.
#
# Needs Go and g++, and for cuda Python 3 with pip on x86-64; no GPU, no driver, no root. What is there
# and made of the same sources is not built again.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "kernels: $*" >&2; exit 1; }

kind=${1:-}
out=$PWD/.deps/kernels
machine='' gpu=1 target_cxx=${CXX:-g++}
case "$kind" in
cuda) ;;
docs)
	scripts/kernels.sh cuda
	exec python3 scripts/kernels_resources.py docs/operate/gpu-kernels.md <"$out/ptxas.log"
	;;
cpu) out=$out/cpu gpu=0 ;;
release)
	out=$out/release
	machine=${DEPS_MACHINE:?} target_cxx=${TARGET_CXX:?}
	[ "$machine" = x86_64 ] || [ "$machine" = aarch64 ] || fail "DEPS_MACHINE=$machine is neither x86_64 nor aarch64"
	gpu=${KERNELS_GPU:-1}
	[ "$machine" = x86_64 ] || gpu=0
	;;
*) fail "say what to build: cuda, cpu, release or docs" ;;
esac
CXX=${CXX:-g++}
command -v "$CXX" >/dev/null || fail "missing: a C++ compiler (g++)"
command -v go >/dev/null || fail "missing: Go (go)"

source=$PWD/basecall/kernels/cuda
# CUDA's compiler and headers, and its runtime, which is linked in.
wheels="nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0
nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cccl==13.0.85 --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649"
# Each of the cubins runs on later cards of its generation, and PTX on those after all of them.
targets=(-gencode "arch=compute_80,code=sm_80" -gencode "arch=compute_90a,code=sm_90a" -gencode "arch=compute_120,code=sm_120"
	-gencode "arch=compute_80,code=compute_80")

mkdir -p "$out"
# Several tests may want it at the same time.
exec 9>"$out/.lock"
flock 9
headers=$(go list -m -f '{{.Dir}}' github.com/yalue/onnxruntime_go) # ONNX Runtime's C interface
[ -n "$headers" ] || headers=$(go mod download -json github.com/yalue/onnxruntime_go | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
stamp=$(cat "$source"/* scripts/kernels.sh scripts/kernels_resources.py <(echo "$machine $gpu") | sha256sum | cut -d' ' -f1)
[ "$(cat "$out/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

work=$(mktemp -d "$out/tmp.XXXXXX")
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -O3 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter "-I$headers")
exact=(-ffp-contract=off) # where Go, CPUs and GPUs have to come to the same bits

hosted=("$work"/{lstm,linear,head,stem,crf,ctc}_cpu.o) # what computes on the host

# host FLAGS...: what runs on the host, for the machine that the compiler is for
host() {
	"$target_cxx" "${flags[@]}" "${exact[@]}" "$@" -c "$source/ops.cpp" -o "$work/ops.o" || fail "building the operators failed"
	for part in lstm linear head stem; do
		"$target_cxx" "${flags[@]}" -c "$source/${part}_cpu.cpp" -o "$work/${part}_cpu.o" || fail "building the operators failed"
	done
	for part in crf ctc; do
		"$target_cxx" "${flags[@]}" "${exact[@]}" -c "$source/${part}_cpu.cpp" -o "$work/${part}_cpu.o" || fail "building the operators failed"
	done
}

# finish FILE...: what was built takes its place
finish() {
	mv "${@/#/$work/}" "$out/"
	echo "$stamp" >"$out/.stamp"
}

if [ "$gpu" = 0 ]; then
	built=(libporestream_ops.so)
	if [ "$kind" = cpu ]; then
		built+=(emulate)
		"$CXX" "${flags[@]}" "${exact[@]}" -O2 -Wno-unknown-pragmas -c -x c++ "$source/emulate.cpp" -o "$work/emulate.o" &
	fi
	host
	"$target_cxx" -shared -s "$work/ops.o" "${hosted[@]}" -o "$work/libporestream_ops.so" || fail "linking the operators failed"
	if [ "$kind" = cpu ]; then
		wait $! || fail "building the emulator failed"
		"$CXX" "$work/emulate.o" "${hosted[@]}" -o "$work/emulate" || fail "linking the emulator failed"
	fi
	finish "${built[@]}"
	exit 0
fi

[ "$(uname -m)" = x86_64 ] || fail "the operators for GPUs are built on x86-64 only"
cuda=${KERNELS_CUDA:-$PWD/.deps/cuda}
if [ "$(cat "$cuda/.wheels" 2>/dev/null)" != "$wheels" ]; then
	python3 -m pip --version >/dev/null 2>&1 || fail "missing: Python 3 with pip"
	echo "kernels: fetching NVIDIA's compiler" >&2
	echo "$wheels" >"$work/wheels.txt"
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
		--platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_12_x86_64 -d "$work" -r "$work/wheels.txt" >&2 ||
		fail "downloading the compiler: pip's message is above"
	rm -rf "$cuda"
	mkdir -p "$cuda"
	for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$cuda"; done
	find "$cuda" \( -path '*/bin/*' -o -path '*/nvvm/bin/*' \) -type f -exec chmod +x {} +
	echo "$wheels" >"$cuda/.wheels"
fi
nv=$cuda/nvidia/cu13
export PATH=$nv/bin:$PATH
host -DPORESTREAM_CUDA
# compile NAME OPTIONS...: one of the kernels
compile() {
	nvcc -std=c++17 -O3 -ccbin "$CXX" "${targets[@]}" --threads 2 -Xptxas -v -Xcompiler -fPIC,-fvisibility=hidden "${@:2}" \
		-c "$source/$1.cu" -o "$work/$1.o" >>"$work/ptxas.log" 2>&1 || { cat "$work/ptxas.log" >&2; fail "compiling the kernels failed"; }
}
compile lstm
compile head
compile stem
compile crf -fmad=false
compile ctc -fmad=false
compiled=("${hosted[@]}" "$work"/{lstm,head,stem,crf,ctc}.o)
if [ "$kind" = release ]; then
	# The runtime is taken as it lies in the wheel, by the linker that knows the oldest glibc.
	"$target_cxx" -shared -s "$work/ops.o" "${compiled[@]}" "$nv/lib/libcudart_static.a" -lpthread -ldl -lrt -o "$work/libporestream_ops.so" ||
		fail "linking the operators failed"
	finish libporestream_ops.so
	exit 0
fi
compile bench
nvcc -ccbin "$CXX" -shared -cudart static "-L$nv/lib" "$work/ops.o" "${compiled[@]}" -o "$work/libporestream_ops.so" -Xlinker -s ||
	fail "linking the operators failed"
nvcc -ccbin "$CXX" -cudart static "-L$nv/lib" "$work/bench.o" "${compiled[@]}" -o "$work/bench" -Xlinker -s || fail "linking the measuring program failed"
python3 scripts/kernels_resources.py <"$work/ptxas.log" >/dev/null
finish ptxas.log libporestream_ops.so bench
echo "kernels: $out/libporestream_ops.so" >&2
