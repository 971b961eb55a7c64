#!/usr/bin/env bash
# Lays out the file system of the base image of cpu, gcr.io/distroless/cc-debian12:nonroot,
# of the Debian packages that it is made of, where it can't be had:
#
#   deploy/docker/distroless.sh DEST
#
# Needs root, and apt on Debian 12. It has no certificates of authorities, which the real one has.
set -euo pipefail

dest=${1:?usage: distroless.sh DEST}
fail() { echo "deploy/distroless: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || fail "needs Debian 12, whose packages the base image is made of"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dest"
chmod 755 "$dest"
dest=$(cd "$dest" && pwd)
packages=(base-files libc6 libgcc-s1 libgomp1 libstdc++6 netbase tzdata)
(
	cd "$work"
	# Anybody may read here: apt fetches as a user of its own.
	chmod 777 .
	apt-get download -q "${packages[@]}" >&2 ||
		{ apt-get update -q >&2 && apt-get download -q "${packages[@]}" >&2; }
	for p in *.deb; do dpkg-deb -x "$p" "$dest"; done
)
# Debian 12 has these as links into /usr.
for d in bin sbin lib lib64; do
	if [ -d "$dest/$d" ] && [ ! -L "$dest/$d" ]; then
		mkdir -p "$dest/usr/$d"
		cp -a "$dest/$d/." "$dest/usr/$d/"
		rm -r "${dest:?}/$d"
		ln -s "usr/$d" "$dest/$d"
	fi
done
mkdir -p "$dest/proc" "$dest/dev" "$dest/sys" "$dest/tmp" "$dest/home/nonroot"
chmod 1777 "$dest/tmp"
chown 65532:65532 "$dest/home/nonroot"
printf '%s\n' 'root:x:0:0:root:/root:/sbin/nologin' 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$dest/etc/passwd"
printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >"$dest/etc/group"
