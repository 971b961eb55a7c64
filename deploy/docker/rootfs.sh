#!/usr/bin/env bash
# Does what the Dockerfile does without a container builder, and runs the result as the
# image would run: a root file system of the Debian packages that the base image is
# made of, with what stage.sh lays out; read-only but for /tmp, as the unprivileged user,
# without a shell. Then
#
#   - every library that programs and ONNX Runtime link against is in it,
#   - the recording of phage lambda is processed in it, and healthcheck sees that,
#   - its variants are the truth's.
#
#   deploy/docker/rootfs.sh [cuda]
#
# cuda lays out the CUDA build of ONNX Runtime instead (256 MB are fetched): that one
# computes on the CPU, too, and what its CUDA provider links against must be what NVIDIA's
# image has. Needs root, for chroot and mounts, and apt on Debian 12.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-cpu}

say() { echo "deploy/rootfs: $*" >&2; }
fail() { say "$@"; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || fail "needs Debian 12, whose packages the base image is made of"
port=${PORESTREAM_ROOTFS_PORT:-9119}

work=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
root=$work/root

say "base: the packages of distroless/cc-debian12"
mkdir -p "$root" "$work/packages"
chmod 755 "$work" "$root"
(
	cd "$work/packages"
	# Anybody may read here: apt fetches as a user of its own.
	chmod 777 .
	apt-get download -q base-files libc6 libgcc-s1 libgomp1 libstdc++6 netbase tzdata >&2 ||
		{ apt-get update -q >&2 && apt-get download -q base-files libc6 libgcc-s1 libgomp1 libstdc++6 netbase tzdata >&2; }
	for p in *.deb; do dpkg-deb -x "$p" "$root"; done
)
# Debian 12 has these as links into /usr.
for d in bin sbin lib lib64; do
	if [ -d "$root/$d" ] && [ ! -L "$root/$d" ]; then
		mkdir -p "$root/usr/$d"
		cp -a "$root/$d/." "$root/usr/$d/"
		rm -r "${root:?}/$d"
		ln -s "usr/$d" "$root/$d"
	fi
done
mkdir -p "$root/proc" "$root/dev" "$root/tmp"
echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$root/etc/passwd"

say "what the image adds ($what)"
commit=$(git rev-parse HEAD 2>/dev/null) || commit=$(printf '%040d' 0) # a source without its history
PORESTREAM_COMMIT=$commit deploy/docker/stage.sh "$work/out" "$what"
mkdir -p "$root/usr/local/bin" "$root/usr/local/lib" "$root/usr/local/share/porestream"
cp -a "$work/out/bin/." "$root/usr/local/bin/"
if [ "$what" = cuda ]; then
	cp -a "$work/out/lib-cuda/." "$root/usr/local/lib/"
else
	cp -a "$work/out/lib/." "$root/usr/local/lib/"
fi
cp -a testdata/lambda "$root/usr/local/share/porestream/"
[ ! -e "$root/bin/sh" ] || fail "the root file system has a shell"

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
mkdir "$root.tmp"
chown 65532:65532 "$root.tmp"
within() { unshare --mount --propagation private "$work/within" "$root" "$@"; }

say "libraries"
loader=$(basename "$(ls "$root"/lib64/ld-linux-* "$root"/lib/ld-linux-* 2>/dev/null | head -1)")
loader=/lib$([ -e "$root/lib64/$loader" ] && echo 64)/$loader
for f in /usr/local/bin/ingest /usr/local/bin/processor /usr/local/bin/pore /usr/local/lib/libonnxruntime.so; do
	within "$loader" --list "$f" >"$work/libraries" 2>&1 || { cat "$work/libraries" >&2; fail "$f does not load"; }
	! grep 'not found' "$work/libraries" >&2 || fail "$f misses libraries"
done
if [ "$what" = cuda ]; then
	# What NVIDIA's cudnn-runtime image and the driver have.
	wanted=$(readelf -d "$root/usr/local/lib/libonnxruntime_providers_cuda.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	[ -n "$wanted" ] || fail "the CUDA provider links against nothing"
	for library in $wanted; do
		if [[ $library =~ ^lib(cublas|cublasLt|cudart|cufft|curand|nvrtc|nvJitLink)\.so\.1[0-9]$|^libcudnn\.so\.9$|^libcuda\.so\.1$ ]]; then
			continue
		fi
		[ -n "$(find "$root/usr/lib" "$root/usr/local/lib" -name "$library" -print -quit)" ] ||
			fail "the CUDA provider links against what neither the image nor NVIDIA's has: $library"
	done
	say "the CUDA provider wants: ${wanted//$'\n'/ }"
fi

say "read-only, unprivileged"
for program in ingest processor pore; do
	version=$(within "$program" --version) || fail "$program does not start"
	[ "${version%% *}" = "$program" ] || fail "$program says that it is: $version"
	[[ $version = *"(${commit:0:12})"* ]] || fail "$program doesn't say of which commit it is: $version"
done
if within pore run --ref /usr/local/share/porestream/lambda/reference.fa --out /out /nothing 2>"$work/err"; then
	fail "pore run wrote to the image"
fi

say "the recording, with ONNX Runtime ($what)"
data=/usr/local/share/porestream/lambda
within pore run --listen "127.0.0.1:$port" --pace max --device cpu --out /tmp/out \
	--ref "$data/reference.fa" --gff "$data/genes.gff3" "$data/reads.pod5" >"$work/run.log" 2>&1 &
pid=$!
healthy=no
while kill -0 "$pid" 2>/dev/null; do
	if [ $healthy = no ] && within healthcheck "http://127.0.0.1:$port/healthz" 2>"$work/health"; then healthy=yes; fi
	sleep 0.5
done
wait "$pid" || { cat "$work/run.log" >&2; fail "pore run failed"; }
pid=
[ $healthy = yes ] || { cat "$work/health" >&2; fail "healthcheck never saw the run healthy"; }
! within healthcheck "http://127.0.0.1:$port/healthz" 2>/dev/null || fail "healthcheck says healthy when nothing is there"
passed() { awk -F'\t' '!/^#/ && ($7 == "PASS" || $7 == ".") {print $1, $2, $4, $5}' "$1"; }
diff <(passed testdata/lambda/truth.vcf) <(passed "$root.tmp/out/variants.vcf") >&2 || fail "the variants are not the truth's"
say "ok: $(tail -1 "$work/run.log")"
