#!/usr/bin/env bash
# Does what the Dockerfile does without a container builder, and runs the result as the
# image would run: the base image's file system of Debian's packages (distroless.sh), with
# what stage.sh lays out; read-only but for /tmp, as the unprivileged user, without a shell.
# Then it tries what must be true of an image (trial.sh).
#
#   deploy/docker/rootfs.sh [cuda]
#
# cuda lays out the CUDA build of ONNX Runtime instead (256 MB are fetched): that one
# computes on the CPU, too, and what its CUDA provider links against must be what NVIDIA's
# image has. Needs root, for chroot and mounts, and apt on Debian 12. Where images can be
# built, images.sh does it for real.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-cpu}

say() { echo "deploy/rootfs: $*" >&2; }
fail() { say "$@"; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"

work=$(mktemp -d)
cleanup() {
	local running
	running=$(jobs -p)
	# shellcheck disable=SC2086 # one word each
	[ -z "$running" ] || kill $running 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
# shellcheck source=deploy/docker/trial.sh
. deploy/docker/trial.sh
root=$work/root
chmod 755 "$work"

say "base: the packages of distroless/cc-debian12"
deploy/docker/distroless.sh "$root"

say "what the image adds ($what)"
commit=$(git rev-parse HEAD 2>/dev/null) || commit=$(printf '%040d' 0) # a source without its history
PORESTREAM_COMMIT=$commit deploy/docker/stage.sh "$work/out" "$what"
mkdir -p "$root/usr/local/bin" "$root/usr/local/lib" "$root$lambda"
cp -a "$work/out/bin/." "$root/usr/local/bin/"
if [ "$what" = cuda ]; then
	cp -a "$work/out/lib-cuda/." "$root/usr/local/lib/"
else
	cp -a "$work/out/lib/." "$root/usr/local/lib/"
fi
cp -a testdata/lambda/. "$root$lambda/"

# within COMMAND...: runs it as a container would.
cat >"$work/within" <<'SH'
#!/bin/sh
set -e
root=$1
shift
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --bind "$root.tmp" "$root/tmp"
chroot=$(command -v chroot)
exec env -i PATH=/usr/local/bin:/usr/bin SSL_CERT_DIR=/etc/ssl/certs \
	"$chroot" --userspec=65532:65532 "$root" "$@"
SH
chmod +x "$work/within"
scratch=$root.tmp
mkdir "$scratch"
chown 65532:65532 "$scratch"
within() { unshare --mount --propagation private "$work/within" "$root" "$@"; }
serve() { exec unshare --mount --propagation private "$work/within" "$root" "$@"; } # in the background: the job is the program
beside() { within "$@"; }

say "libraries"
try_libraries
[ "$what" != cuda ] || try_cuda_libraries "$root"
say "read-only, unprivileged"
try_no_shell
try_programs "$commit"
try_read_only "$lambda"
say "the recording, with ONNX Runtime ($what)"
try_recording "$lambda"
say "ok"
