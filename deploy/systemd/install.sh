#!/usr/bin/env bash
# Installs Porestream on a workstation or server with systemd:
#
#   deploy/systemd/install.sh                         below /usr/local, as root
#   DESTDIR=/tmp/stage deploy/systemd/install.sh      into a folder, for a package
#
# Programs, ONNX Runtime, units, users and folders; settings in /etc/porestream are
# installed where there are none and never overwritten. Nothing is started: the last lines
# say what comes next. With another PREFIX than /usr/local, paths in units follow.
set -euo pipefail
cd "$(dirname "$0")/../.."
destdir=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
here=deploy/systemd

case $prefix in /*) ;; *) echo "install: PREFIX $prefix is not absolute" >&2; exit 1 ;; esac
[ -n "$destdir" ] || [ "$(id -u)" = 0 ] || { echo "install: needs root, or a DESTDIR" >&2; exit 1; }

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
deploy/docker/stage.sh "$stage"

install -d "$destdir$prefix/bin" "$destdir$prefix/lib" "$destdir$prefix/share/doc/porestream" \
	"$destdir$prefix/lib/systemd/system" "$destdir$prefix/lib/sysusers.d" "$destdir$prefix/lib/tmpfiles.d" "$destdir/etc/porestream"
install -m 755 "$stage"/bin/{ingest,processor,pore} "$destdir$prefix/bin/"
install -m 755 "$stage/lib/libonnxruntime.so" "$destdir$prefix/lib/"
cp -R "$stage/doc/." "$destdir$prefix/share/doc/porestream/"
(cd docs && find . -type f ! -name '*.go' -exec install -D -m 644 {} "$destdir$prefix/share/doc/porestream/{}" \;)
for unit in "$here"/*.service "$here"/*.target; do
	sed "s#/usr/local/#$prefix/#g" "$unit" >"$stage/unit"
	install -m 644 "$stage/unit" "$destdir$prefix/lib/systemd/system/$(basename "$unit")"
done
install -m 644 "$here/sysusers.conf" "$destdir$prefix/lib/sysusers.d/porestream.conf"
install -m 644 "$here/tmpfiles.conf" "$destdir$prefix/lib/tmpfiles.d/porestream.conf"
for file in processor.env sources.yaml kafka.properties; do
	if [ -e "$destdir/etc/porestream/$file" ]; then
		echo "install: kept /etc/porestream/$file" >&2
	else
		install -m 644 "$here/$file" "$destdir/etc/porestream/"
	fi
done
[ -n "$destdir" ] && exit 0

systemd-sysusers "$prefix/lib/sysusers.d/porestream.conf"
systemd-tmpfiles --create "$prefix/lib/tmpfiles.d/porestream.conf"
systemctl daemon-reload
cat >&2 <<'NEXT'
install: next:
  1. put a reference into /srv/porestream and its name into /etc/porestream/processor.env
  2. list your sequencers in /etc/porestream/sources.yaml, and try it: ingest check /etc/porestream/sources.yaml
  3. brokers: name yours in both files, or unpack Apache Kafka into /opt/kafka and
     systemctl enable --now porestream-kafka
  4. systemctl enable --now porestream-ingest porestream-processor porestream.target
NEXT
