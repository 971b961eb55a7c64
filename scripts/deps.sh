#!/usr/bin/env bash
# Fetches and builds what Porestream links against and Go's modules do not
# carry, once, into .deps/ (ignored by git):
#
#   .deps/onnxruntime/libonnxruntime.so   ONNX Runtime, from its PyPI wheel
#   .deps/minimap2/{include,lib}          minimap2, from the mappy source package
#
# Every download is pinned by hash. Needs Go, a C compiler, make and Python 3
# with pip; no root. A finished part is not fetched again. For another machine
# than this one (x86_64, aarch64) name it in DEPS_MACHINE, and its compiler and
# archiver in CC and AR.
set -euo pipefail
cd "$(dirname "$0")/.."

ort_version=1.31.1
mappy_version=2.31
deps=$PWD/.deps

fail() { echo "deps: $*" >&2; exit 1; }

machine=${DEPS_MACHINE:-$(uname -m)}
case "$machine" in
x86_64)
	ort_hash=5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f
	simd=(-msse4.1)
	;;
aarch64 | arm64)
	machine=aarch64
	ort_hash=da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3
	simd=(-ftree-vectorize -DKSW_SSE2_ONLY -D__SSE2__ -fsigned-char -Isse2neon)
	;;
*) fail "no ONNX Runtime wheel for $machine: x86_64 and aarch64 Linux are supported" ;;
esac
mappy_hash=152a358c11cba1f992968e2611f1e0a1f4a87aaaa3602d93e4f59d7c1db8f3b2

# Name every missing prerequisite before anything is fetched.
missing=()
command -v go >/dev/null || missing+=("Go 1.26 or newer (go)")
CC=${CC:-$(command -v cc || command -v gcc || command -v clang || true)}
[ -n "$CC" ] || missing+=("a C compiler (cc)")
AR=${AR:-ar}
command -v "$AR" >/dev/null || missing+=("ar (binutils)")
command -v make >/dev/null || missing+=("make")
if ! command -v python3 >/dev/null; then
	missing+=("Python 3 (python3)")
elif ! python3 -m pip --version >/dev/null 2>&1; then
	missing+=("pip for Python 3 (python3 -m pip)")
fi
if [ ${#missing[@]} -gt 0 ]; then
	for m in "${missing[@]}"; do echo "deps: missing: $m" >&2; done
	exit 1
fi

mkdir -p "$deps"
work=$(mktemp -d "$deps/tmp.XXXXXX")
trap 'rm -rf "$work"' EXIT

# fetch NAME VERSION HASH PIP-OPTION...: download one distribution into $work.
fetch() {
	local name=$1 version=$2 hash=$3
	shift 3
	echo "$name==$version --hash=sha256:$hash" >"$work/$name.txt"
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes "$@" \
		-d "$work" -r "$work/$name.txt" >&2 ||
		fail "downloading $name $version: pip's message is above"
}

stamp=$deps/onnxruntime/.version
if [ "$(cat "$stamp" 2>/dev/null)" != "$ort_version $ort_hash" ]; then
	echo "deps: fetching ONNX Runtime $ort_version" >&2
	fetch onnxruntime "$ort_version" "$ort_hash" --only-binary :all: --implementation cp --python-version 311 \
		--platform "manylinux_2_28_$machine" --platform "manylinux_2_27_$machine"
	rm -rf "$deps/onnxruntime"
	mkdir -p "$deps/onnxruntime"
	python3 - "$work" "$deps/onnxruntime" "$ort_version" <<-'PY'
		import glob, os, shutil, sys, zipfile
		work, out, version = sys.argv[1:]
		wheel = zipfile.ZipFile(glob.glob(os.path.join(work, "onnxruntime-*.whl"))[0])
		members = {
		    f"onnxruntime/capi/libonnxruntime.so.{version}": "libonnxruntime.so",
		    "onnxruntime/LICENSE": "LICENSE",
		    "onnxruntime/ThirdPartyNotices.txt": "ThirdPartyNotices.txt",
		}
		for member, name in members.items():
		    with wheel.open(member) as src, open(os.path.join(out, name), "wb") as dst:
		        shutil.copyfileobj(src, dst)
	PY
	echo "$ort_version $ort_hash" >"$stamp"
fi

stamp=$deps/minimap2/.version
if [ "$(cat "$stamp" 2>/dev/null)" != "$mappy_version $mappy_hash" ]; then
	echo "deps: building minimap2 $mappy_version" >&2
	# Of mappy alone: what pip reads its description with would be built from source, too, which needs Python's headers.
	fetch mappy "$mappy_version" "$mappy_hash" --no-binary mappy
	tar -xzf "$work/mappy-$mappy_version.tar.gz" -C "$work"
	rm -rf "$deps/minimap2"
	mkdir -p "$deps/minimap2/include" "$deps/minimap2/lib"
	(
		cd "$work/mappy-$mappy_version"
		sources=(kthread kalloc misc bseq sketch sdust options index lchain align hit seed jump map format pe esterr splitidx
			ksw2_ll_sse ksw2_extz2_sse ksw2_extd2_sse ksw2_exts2_sse)
		printf '%s\n' "${sources[@]}" |
			xargs -P "$(nproc)" -I{} "$CC" -c -O2 -g "-ffile-prefix-map=$PWD=minimap2" -fPIC -DHAVE_KALLOC "${simd[@]}" \
				-I../../../scripts/zlib-shim {}.c -o {}.o
		"$AR" -crs "$deps/minimap2/lib/libminimap2.a" "${sources[@]/%/.o}"
		cp minimap.h bseq.h kalloc.h kseq.h LICENSE.txt "$deps/minimap2/include/"
	) || fail "building minimap2 failed: the compiler's message is above"
	echo "$mappy_version $mappy_hash" >"$stamp"
fi
