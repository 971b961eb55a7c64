#!/usr/bin/env bash
# Builds and lays out what the images add to their base images:
#
#   deploy/docker/stage.sh DEST          bin/, lib/ (ONNX Runtime) and doc/ below DEST
#   deploy/docker/stage.sh DEST cuda     and lib-cuda/, the CUDA build of ONNX Runtime
#
# PORESTREAM_COMMIT and PORESTREAM_COMMIT_TIME (RFC 3339) say of which commit the source is, where
# its history is not at hand, as in an image's build; otherwise Go asks git.
#
# The Dockerfile runs it, and so does rootfs.sh, which tries the result where no
# container can be built; so both have the same steps. Needs what make needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

ort_gpu_version=1.31.1
ort_gpu_hash=e26c475fe361b2015f45b4b824bd13f0bb20204e59b62814e6f0acd5f3d491a6

dest=${1:?usage: stage.sh DEST [cuda]}
what=${2:-cpu}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)

scripts/deps.sh
mkdir -p "$dest/bin" "$dest/lib" "$dest/doc/onnxruntime" "$dest/doc/minimap2"
ldflags="-s -w"
if [ -n "${PORESTREAM_COMMIT:-}" ]; then
	[[ $PORESTREAM_COMMIT =~ ^[0-9a-f]{40}([0-9a-f]{24})?$ ]] || { echo "stage: PORESTREAM_COMMIT is no whole commit: $PORESTREAM_COMMIT" >&2; exit 1; }
	ldflags+=" -X github.com/porestream/porestream/version.commit=$PORESTREAM_COMMIT"
	ldflags+=" -X github.com/porestream/porestream/version.time=${PORESTREAM_COMMIT_TIME:-}"
fi
CGO_ENABLED=1 go build -trimpath -ldflags="$ldflags" -o "$dest/bin/" \
	./cmd/ingest ./cmd/processor ./cmd/pore ./deploy/docker/healthcheck
install -m 755 .deps/onnxruntime/libonnxruntime.so "$dest/lib/"
install -m 644 LICENSE NOTICE "$dest/doc/"
install -m 644 .deps/onnxruntime/LICENSE .deps/onnxruntime/ThirdPartyNotices.txt "$dest/doc/onnxruntime/"
install -m 644 .deps/minimap2/include/LICENSE.txt "$dest/doc/minimap2/"
[ "$what" = cuda ] || exit 0

# The CUDA build of the same release. Its providers are found beside the library.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "onnxruntime-gpu==$ort_gpu_version --hash=sha256:$ort_gpu_hash" >"$work/requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
	--implementation cp --python-version 311 --platform manylinux_2_28_x86_64 -d "$work" -r "$work/requirements.txt"
python3 -m zipfile -e "$work"/onnxruntime_gpu-*.whl "$work/wheel"
mkdir -p "$dest/lib-cuda"
install -m 755 "$work/wheel/onnxruntime/capi/libonnxruntime.so.$ort_gpu_version" "$dest/lib-cuda/libonnxruntime.so"
install -m 755 "$work"/wheel/onnxruntime/capi/libonnxruntime_providers_{shared,cuda}.so "$dest/lib-cuda/"
