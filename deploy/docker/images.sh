#!/usr/bin/env bash
# Builds the images of the Dockerfile, as it is, and runs them as deployment does: read-only,
# unprivileged, without capabilities and without a network. What must be true of them then says
# trial.sh; and an image's labels, user and command are those that the Dockerfile gives it.
#
#   deploy/docker/images.sh [--save FILE] [cpu|demo|default|cuda]...
#
# Without a name: all but cuda, which fetches 256 MB more. default is what is built without a
# target. The images are removed in the end; --save leaves the first one in a file, as
# porestream-trial:NAME, for `docker load` or `podman load`.
#
# It takes the first of these ways that works here, and says which:
#
#   docker             if an engine answers
#   buildah + podman   as root, without an engine and without the right to set limits (Debian:
#                      buildah podman runc). A trivial image, built and run, decides. Base images
#                      that can't be pulled are made of Debian's packages, on Debian 12 alone
#                      (mmdebstrap): the same C library, and this machine's Go.
#   rootfs.sh          the Dockerfile's steps without a builder, for cpu and cuda
#
# Once the way is chosen, whatever fails is a failure. Exit code 77: there is no way here.
#
# buildah and podman work in memory if there is enough of it, and in namespaces of their own: with
# those goes everything that they mounted, started and wrote, also if this is killed. What is kept
# is the stand-in's Debian, in .cache/images; and builds use this machine's caches of Go.
# shellcheck disable=SC2329 # some functions are called by a name that is given, or by trap and trial.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

file=deploy/docker/Dockerfile
cache=.cache/images
declare -i no_builder=75 no_way=77

started=$EPOCHSECONDS
say() { echo "deploy/images: $((EPOCHSECONDS - started)) s: $*" >&2; }
fail() { say "$@"; exit 1; }

# --- what is tried, with either engine

commit=$(git rev-parse HEAD 2>/dev/null) || commit=$(printf '%040d' 0) # a source without its history
commit_time=$(git show -s --format=%cI HEAD 2>/dev/null) || commit_time=

# build TARGET: builds porestream-trial:TARGET.
build() {
	local args=(-f "$file" -t "porestream-trial:$1" --build-arg "PORESTREAM_COMMIT=$commit" --build-arg "PORESTREAM_COMMIT_TIME=$commit_time")
	[ "$1" = default ] || args+=(--target "$1")
	"${builder[@]}" "${args[@]}" . >"$work/build.log" 2>&1 || { tail -n 100 "$work/build.log" >&2; fail "$1 is not built"; }
}

within() { "$engine" run --rm "${confined[@]}" "porestream-trial:$target" "$@"; }
serve() { exec "$engine" run --rm --name "porestream-trial-$$" "${confined[@]}" "porestream-trial:$target" "$@"; }
beside() { "$engine" exec "porestream-trial-$$" "$@"; }

of_image() { "$engine" image inspect --format "$2" "porestream-trial:$1"; }

# expect WHAT WANTED GOT
expect() { [ "$2" = "$3" ] || fail "$target: $1 is $3 and should be $2"; }

try_image() {
	local label=org.opencontainers.image
	say "$target, $(of_image "$target" '{{.Size}}' | numfmt --to=si --suffix=B)"
	expect "the label revision" "$commit" "$(of_image "$target" "{{index .Config.Labels \"$label.revision\"}}")"
	expect "the label version" "$(sed -n 's/^ARG PORESTREAM_VERSION=//p' "$file")" "$(of_image "$target" "{{index .Config.Labels \"$label.version\"}}")"
	expect "the label licenses" Apache-2.0 "$(of_image "$target" "{{index .Config.Labels \"$label.licenses\"}}")"
	[[ $(of_image "$target" '{{.Config.User}}') =~ ^(65532(:65532)?|nonroot)$ ]] || fail "$target: the user is $(of_image "$target" '{{.Config.User}}')"
	"$engine" run --rm "${confined[@]}" "porestream-trial:$target" 2>&1 | grep -q '^Usage:\|^usage:' || fail "$target: the image's own command is not pore --help"
	try_programs "$commit"
	[ "$target" = cuda ] || try_no_shell # NVIDIA's has one
	try_libraries
	case $target in
	demo)
		try_read_only "$lambda"
		try_recording "$lambda"
		;;
	cuda)
		"$engine" create --name "porestream-trial-$$" "porestream-trial:$target" >/dev/null
		mkdir "$work/cuda"
		"$engine" export "porestream-trial-$$" | tar -x -C "$work/cuda" usr/lib usr/local/lib
		"$engine" rm "porestream-trial-$$" >/dev/null
		try_cuda_libraries "$work/cuda"
		confined+=(-v "$PWD/testdata/lambda:/data:ro")
		try_recording /data
		;;
	esac
}

# try_images TARGET...: with engine, builder, confined and work set.
try_images() {
	# shellcheck source=deploy/docker/trial.sh
	. deploy/docker/trial.sh
	scratch=$work/scratch
	mkdir "$scratch"
	chown 65532:65532 "$scratch" 2>/dev/null || chmod 777 "$scratch"
	confined+=(--read-only --network none --cap-drop ALL --security-opt no-new-privileges -v "$scratch:/tmp")
	for target in "$@"; do
		say "$target: building"
		build "$target"
		try_image
	done
	if [ -n "$save" ]; then
		"$engine" save --output "$work/image.tar" "porestream-trial:$1" >"$work/save.log" 2>&1 || { cat "$work/save.log" >&2; fail "$1 is not saved"; }
		cp "$work/image.tar" "$save"
	fi
	if [[ " $* " = *" cpu "* && " $* " = *" default "* ]]; then
		[ "$(of_image default '{{.RootFS.Layers}}')" = "$(of_image cpu '{{.RootFS.Layers}}')" ] || fail "default is not cpu"
	fi
}

# --- buildah and podman, in namespaces of their own

# inside TARGET...: what `unshare` below runs, with work set.
inside() {
	local available
	available=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
	if [ "$available" -gt $((10 << 20)) ]; then
		mount -t tmpfs -o mode=755,size=6g porestream-images "$work"
	fi
	mkdir "$work/tmp" "$work/run"
	export TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/run
	export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_REGISTRIES_CONF=$work/registries.conf CONTAINERS_CONF=$work/containers.conf
	echo 'unqualified-search-registries = ["docker.io"]' >"$CONTAINERS_REGISTRIES_CONF"
	# crun wants cgroups of one version.
	cat >"$CONTAINERS_CONF" <<-TOML
		[engine]
		runtime = "runc"
		cgroup_manager = "cgroupfs"
		events_logger = "none"
		tmp_dir = "$work/libpod"
	TOML
	engine=podman
	# Setting limits may be refused to root, too, and those of this machine will do.
	confined=(--ulimit host --cgroup-parent "$cgroup" --read-only-tmpfs=false)
	local driver
	for driver in overlay vfs ""; do
		[ -n "$driver" ] || exit $no_builder
		printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' "$driver" "$work/$driver" "$work/run/$driver" >"$CONTAINERS_STORAGE_CONF"
		if probe >"$work/probe.log" 2>&1; then break; fi
		say "buildah and podman with $driver: $(tail -n 1 "$work/probe.log")"
	done
	say "buildah and podman build and run here, with $driver"
	builder=(buildah bud --isolation chroot --layers --pull-never)

	base build golang
	base cpu distroless
	[[ " $* " != *" cuda "* ]] || base cuda distroless
	builder+=(-v "$(go env GOMODCACHE):/go/pkg/mod")
	try_images "$@"
}

# probe: a program that is an image's all is built into one, runs in its building, and in it.
probe() {
	mkdir -p "$work/probe"
	cat >"$work/probe/probe.go" <<-'GO'
		package main

		func main() { println("runs") }
	GO
	printf 'FROM scratch\nCOPY probe /\nRUN ["/probe"]\nCMD ["/probe"]\n' >"$work/probe/Dockerfile"
	CGO_ENABLED=0 go build -o "$work/probe/probe" "$work/probe/probe.go" &&
		buildah bud --isolation chroot -t probe "$work/probe" &&
		podman run --rm "${confined[@]}" --read-only --network none --user 65532:65532 --cap-drop ALL --security-opt no-new-privileges probe &&
		podman rmi probe
}

# base STAGE MAKER: sees to it that the image that the stage begins with is there.
base() {
	local image
	image=$(sed -n "s/^FROM \(\S*\) AS $1\$/\1/p" "$file")
	if timeout 300 buildah pull -q "$image" >/dev/null 2>"$work/pull.log"; then
		say "base: $image, pulled"
		return
	fi
	say "base: a stand-in for $image, which can't be pulled: $(tail -n 1 "$work/pull.log" | sed 's/.*: //')"
	if ! grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || ! command -v mmdebstrap >/dev/null; then
		say "a stand-in is made on Debian 12 alone, with mmdebstrap"
		exit $no_builder
	fi
	local container
	container=$(buildah from scratch)
	"$2" "$image" "$container" "$(buildah mount "$container")"
	buildah umount "$container" >/dev/null
	[[ ${image%%/*} = *.* ]] || { [[ $image = */* ]] || image=library/$image; image=docker.io/$image; }
	buildah commit -q --rm "$container" "$image" >/dev/null
}

# distroless IMAGE CONTAINER ROOT; for cuda, too, whose base has more.
distroless() {
	deploy/docker/distroless.sh "$3" 2>"$work/base.log" || { cat "$work/base.log" >&2; fail "the stand-in for $1 is not made"; }
	buildah config --user 65532 --workingdir /home/nonroot --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		--env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$2"
}

# golang IMAGE CONTAINER ROOT: has less than the real one, so that what builds on it builds there.
golang() {
	local version=${1##*:} setting settings=()
	version=${version%%-*}
	[[ $(go env GOVERSION) =~ ^go$version(\.|$) ]] || fail "a stand-in for $1 needs Go $version here; this is $(go env GOVERSION)"
	debian "$3" ca-certificates gcc libc6-dev make
	# How this machine reaches what a build fetches, its authorities included.
	cp -L /etc/ssl/certs/ca-certificates.crt "$3/etc/ssl/certs/ca-certificates.crt"
	[ ! -e /etc/pip.conf ] || cp -L /etc/pip.conf "$3/etc/pip.conf"
	for setting in GOPROXY GOSUMDB GONOPROXY GONOSUMDB GOPRIVATE GOINSECURE; do
		settings+=(--env "$setting=$(go env "$setting")")
	done
	for setting in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT; do
		[ -z "${!setting:-}" ] || settings+=(--env "$setting=${!setting}")
	done
	mkdir -p "$3/usr/local/go" "$3/go/build"
	buildah config --workingdir /go --env GOTOOLCHAIN=local --env GOPATH=/go --env GOCACHE=/go/build "${settings[@]}" \
		--env PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$2"
	builder+=(-v "$(go env GOROOT):/usr/local/go:ro" -v "$(go env GOCACHE):/go/build")
}

# debian ROOT PACKAGE...: Debian's smallest system and these packages, from where this machine has its own.
debian() {
	local root=$1 kept
	shift
	sources >"$work/sources.list"
	[ -s "$work/sources.list" ] || { apt-get update -q >&2 && sources >"$work/sources.list"; }
	apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|Force)' >"$work/apt.conf" || true
	kept=$cache/debian-$(echo "bookworm $(dpkg --print-architecture) $*" | cat - "$work/sources.list" "$work/apt.conf" | sha256sum | cut -c1-16).tar
	if [ ! -e "$kept" ]; then
		say "Debian 12 with $*: to be kept in $kept"
		mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --aptopt="$work/apt.conf" --include="${*// /,}" \
			bookworm "$work/debian.tar" "$work/sources.list" >"$work/debian.log" 2>&1 || { cat "$work/debian.log" >&2; fail "mmdebstrap failed"; }
		mkdir -p "$cache"
		rm -f "$cache"/debian-*.tar
		mv "$work/debian.tar" "$kept.new"
		mv "$kept.new" "$kept"
	fi
	tar -x --numeric-owner --xattrs -C "$root" -f "$kept"
}

# shellcheck disable=SC2016 # apt's variables
sources() { apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'; }

# --- which way

if [ "${1:-}" = --inside ]; then
	work=$2
	cgroup=$3
	save=$4
	shift 4
	inside "$@"
	exit 0
fi

save=
if [ "${1:-}" = --save ] && [ -n "${2:-}" ]; then
	save=$2
	shift 2
fi
for target in "$@"; do
	[[ $target =~ ^(cpu|demo|default|cuda)$ ]] || { echo "usage: images.sh [--save FILE] [cpu|demo|default|cuda]..." >&2; exit 2; }
done
[ $# -gt 0 ] || set -- cpu demo default

work=$(mktemp -d)
chmod 755 "$work"
running=
cgroup=/porestream-images-$$
cleanup() {
	if [ -n "$running" ]; then
		kill -KILL "$running" 2>/dev/null || true # and with it all that it has started
		wait 2>/dev/null || true
	fi
	if [ -d /sys/fs/cgroup ]; then
		find /sys/fs/cgroup -depth -type d -path "*$cgroup*" -exec rmdir {} + 2>/dev/null || true
	fi
	if [ -n "${engine:-}" ]; then
		"$engine" rm -f "porestream-trial-$$" >/dev/null 2>&1 || true
		"$engine" rmi porestream-trial:{demo,cpu,default,cuda} >/dev/null 2>&1 || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	say "the engine of docker builds and runs here"
	engine=docker
	builder=(docker build)
	confined=()
	try_images "$@"
	say "ok"
	exit 0
fi

missing=()
for tool in buildah podman runc unshare setpriv go; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
	say "no engine of docker answers, and buildah with podman is not to be had: missing ${missing[*]}"
elif [ "$(id -u)" != 0 ]; then
	say "no engine of docker answers, and buildah with podman is for root here"
else
	setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$BASH" "$0" --inside "$work" "$cgroup" "$save" "$@" &
	running=$!
	rc=0
	wait "$running" || rc=$?
	running=
	if [ $rc != $no_builder ]; then
		[ $rc != 0 ] || say "ok"
		exit $rc
	fi
fi

if [ "$(id -u)" = 0 ] && grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release && unshare --mount true 2>/dev/null; then
	say "nothing builds images here: their steps without a builder, deploy/docker/rootfs.sh"
	deploy/docker/rootfs.sh
	[[ " $* " != *" cuda "* ]] || deploy/docker/rootfs.sh cuda
	exit 0
fi
say "nothing builds images here; their steps without a builder need root, Debian 12 and the right to mount"
exit $no_way
