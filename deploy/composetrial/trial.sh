#!/usr/bin/env bash
# Runs deploy/compose/compose.yaml with Docker's engine and Docker Compose, as docs/operate/operations.md has it done, and looks
# whether it does what it says there:
#
#   deploy/composetrial/trial.sh IMAGE.tar     the image for CPUs, as `docker save` writes it (deploy/docker/images.sh --save)
#
#   - services become healthy, and have what the file gives them: no capabilities, a read-only file system,
#   - the topics are there, and the live page is, with the token that the processor told,
#   - the recording of phage lambda is played, and its variants are the truth's,
#   - Prometheus finds both services by their names, a second processor joins,
#   - a processor that is told to stop does, in order, and `down --volumes` leaves nothing.
#
# Engine and Compose are Debian's, unpacked in .cache/docker and not installed, and run in namespaces of their own, without a
# network to the outside: no service, and no port of this machine is used; with the namespaces goes all that they mounted,
# started and wrote. Images can't be
# pulled there, so Kafka and Prometheus are stood in for: this machine's Java, Kafka's jars (stream/streamtest/kafka/fetch.sh)
# and Prometheus in an otherwise empty image. Grafana has no stand-in and is left out. Needs root on
# Debian 12. Exit code 77: it can't be done here, for the reason that is given.
# shellcheck disable=SC2329 # some functions are called by trap, or by a name that is given
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "deploy/composetrial: $*" >&2; }
fail() { say "$@"; exit 1; }
declare -i no_way=77
tools=$PWD/.cache/docker
export PATH=$tools/usr/bin:$tools/usr/sbin:$tools/usr/libexec/docker/cli-plugins:$PATH
kafka=${PORESTREAM_KAFKA_LIB:-$PWD/.cache/kafka}

# fetch: the engine is that of Debian 12; Compose, whose version 2 Debian 12 lacks, that of Debian 13 from the same mirror.
fetch() {
	say "fetching Docker's engine and Compose, once"
	local apt=$work/apt package
	mkdir -p "$apt"/{lists,cache/archives}/partial "$apt/packages"
	: >"$apt/status"
	# shellcheck disable=SC2016 # apt's variable
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(apt-get indextargets --format '$(REPO_URI)' \
		'Created-By: Packages' 'Codename: bookworm' 'Origin: Debian' | head -n 1) trixie main" >"$apt/sources.list"
	(
		cd "$apt/packages"
		apt-get download -q -o APT::Sandbox::User=root docker.io containerd tini
		trixie=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apt/lists"
			-o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status" -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=root)
		apt-get "${trixie[@]}" update
		apt-get "${trixie[@]}" download docker-compose
	) >"$work/fetch.log" 2>&1 || { tail -n 5 "$work/fetch.log" >&2; fail "the engine can't be fetched"; }
	rm -rf "$tools"
	mkdir -p "$tools"
	for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$tools"; done
	rm -r "${tools:?}/usr/share" "$apt"
	touch "$tools/.complete"
}

if [ "${1:-}" != --inside ]; then
	image=${1:?usage: trial.sh IMAGE.tar}
	[ -s "$image" ] || fail "$image is missing"
	missing=()
	for tool in runc unshare setpriv ip iptables java prometheus wget curl python3; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || { say "missing: ${missing[*]}"; exit $no_way; }
	[ "$(id -u)" = 0 ] || { say "an engine of its own needs root"; exit $no_way; }
	grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || { say "needs Debian 12, of which engine and stand-ins are"; exit $no_way; }
	[ -e "$kafka/.complete" ] || { say "no jars of Kafka in $kafka: stream/streamtest/kafka/fetch.sh"; exit $no_way; }
	work=$(mktemp -d)
	chmod 755 "$work"
	cgroup=/porestream-compose-$$
	running=
	cleanup() {
		[ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true # and with it all that it has started
		wait 2>/dev/null || true
		find /sys/fs/cgroup -depth -type d -path "*$cgroup*" -exec rmdir {} + 2>/dev/null || true
		rm -rf "$work"
	}
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ -e "$tools/.complete" ] || fetch
	setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child --mount-proc --net \
		"$BASH" "$0" --inside "$work" "$cgroup" "$(realpath "$image")" &
	running=$!
	rc=0
	wait "$running" || rc=$?
	running=
	exit $rc
fi

# shellcheck source=deploy/docker/trial.sh
. deploy/docker/trial.sh # for passed
work=$2
cgroup=$3
image=$4

# --- an engine of its own

mount -t tmpfs -o mode=755,size=4g porestream-compose "$work"
mount -t tmpfs -o mode=755 run /run # where others of this machine have their sockets
ip link set lo up
export DOCKER_HOST=unix://$work/docker.sock DOCKER_CONFIG=$work/config TMPDIR=$work
dockerd -H "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
	--exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$cgroup" >"$work/dockerd.log" 2>&1 &
for _ in $(seq 120); do
	! docker info >"$work/info" 2>&1 || break
	sleep 0.5
done
docker info >"$work/info" 2>&1 || { say "an engine doesn't start here: $(tail -n 1 "$work/dockerd.log")"; exit $no_way; }
say "Docker $(docker version --format '{{.Server.Version}}') with $(docker info --format '{{.Driver}}'), Compose $(docker-compose version --short)"
docker load --quiet --input "$image" >"$work/load.log"
PORESTREAM_IMAGE=$(sed -n 's/^Loaded image: //p' "$work/load.log")
export PORESTREAM_IMAGE
[ -n "$PORESTREAM_IMAGE" ] || fail "$image has no image with a name"

# --- what stands in for images that can't be had

empty=$work/empty
mkdir -p "$empty"/{usr,tmp,proc,dev,etc,standin,opt/kafka,var/lib/kafka/data,prometheus}
chmod 1777 "$empty/tmp"
for d in bin sbin lib lib64; do ln -s "usr/$d" "$empty/$d"; done
echo 'root:x:0:0:root:/:/bin/sh' >"$empty/etc/passwd"
# As Apache's image does: a variable KAFKA_A_B is the property a.b.
cat >"$empty/standin/kafka" <<'SH'
#!/bin/bash
set -e
for name in ${!KAFKA_*}; do
	[ "$name" != KAFKA_HEAP_OPTS ] || continue
	key=${name#KAFKA_}
	key=${key//_/.}
	echo "${key,,}=${!name}"
done >/tmp/server.properties
flags="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
java $flags -cp '/opt/kafka/*' kafka.tools.StorageTool format --ignore-formatted -t AAAAAAAAAAAAAAAAAAAAAQ -c /tmp/server.properties
exec java $flags $KAFKA_HEAP_OPTS -cp '/opt/kafka/*' kafka.Kafka /tmp/server.properties
SH
# nc -z HOST PORT
cat >"$empty/standin/nc" <<'SH'
#!/bin/bash
exec 3<>"/dev/tcp/$2/$3"
SH
chmod +x "$empty"/standin/*
tar -C "$empty" -c . | docker import --change 'ENV PATH=/standin:/usr/bin:/bin' - standin >/dev/null
java=$(readlink -f "$(command -v java)")
java=${java%/bin/java}
{
	echo "services:"
	echo "  kafka:"
	echo "    image: standin"
	echo "    environment: {PATH: \"/standin:$java/bin:/usr/bin:/bin\"}"
	echo "    entrypoint: [/standin/kafka]"
	echo "    volumes:"
	echo "      - /usr:/usr:ro"
	echo "      - $kafka:/opt/kafka:ro"
	for d in /etc/java-*; do [ ! -d "$d" ] || echo "      - $d:$d:ro"; done
	[[ $java = /usr/* ]] || echo "      - $java:$java:ro"
	echo "  prometheus:"
	echo "    image: standin"
	echo "    entrypoint: [prometheus]"
	echo "    volumes: [\"/usr:/usr:ro\"]"
} >"$work/standin.yaml"

# --- what docs/operate/operations.md has done

export PORESTREAM_PACE=max
dc() { docker-compose -f deploy/compose/compose.yaml -f "$work/standin.yaml" "$@"; }
up() {
	dc up --detach --no-build --pull never "$@" >"$work/up.log" 2>&1 || {
		tail -n 30 "$work/up.log" >&2
		dc ps --all >&2
		dc logs --tail 30 >&2
		fail "up $* failed"
	}
}
of() { docker inspect --format "$2" "$(dc ps --all --quiet "$1" | head -n 1)"; }
# eventually SECONDS COMMAND...: until the command succeeds.
eventually() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@" >"$work/last" 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { cat "$work/last" >&2; return 1; }
		sleep 1
	done
}

say "up: Kafka, a processor and Prometheus"
up --wait --wait-timeout 400 kafka processor prometheus
for service in processor kafka prometheus; do
	[ "$(of $service '{{.State.Health.Status}}')" = healthy ] || fail "$service is not healthy"
done
confined=$(of processor '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.HostConfig.Memory}}')
[[ $confined =~ ^65532(:65532)?\ true\ \[ALL\]\ \[no-new-privileges:true\]\ 8589934592$ ]] || fail "the processor runs with: $confined"
dc exec --no-TTY processor pore topics check --brokers kafka:19092 >"$work/topics" || { cat "$work/topics" >&2; fail "topics are missing or have the wrong settings"; }
say "healthy; $(wc -l <"$work/topics") lines of topics check"

say "the live page"
page=$(dc logs --no-log-prefix processor 2>&1 | sed -n 's|.*live page: http://[^/]*|http://localhost:9102|p' | head -n 1)
[ -n "$page" ] || { dc logs processor >&2; fail "the processor told no address of the live page"; }
# The token becomes a cookie.
curl -sfL --cookie "" -o /dev/null "$page" || fail "the live page doesn't open with its token: $(curl -sL --cookie "" -o /dev/null -w '%{http_code}' "$page")"
! curl -sf -o /dev/null http://localhost:9102/ || fail "the live page opens without a token"
curl -sf -o /dev/null http://localhost:9102/readyz || fail "not ready at the page's port"

say "a recording is played"
up --no-deps ingest
found() {
	dc exec --no-TTY processor pore consume --brokers kafka:19092 --format vcf --ref /reference/reference.fa >"$work/now.vcf" 2>"$work/consume.log" || { cat "$work/consume.log"; return 1; }
	diff <(passed testdata/lambda/truth.vcf) <(passed "$work/now.vcf")
}
eventually 600 found || { dc logs --tail 20 ingest processor >&2; fail "the variants are not the truth's"; }
say "$(passed "$work/now.vcf" | wc -l) variants, as the truth has them"

say "Prometheus finds services by their names"
up_services() {
	curl -sf 'http://127.0.0.1:9090/api/v1/query?query=up' >"$work/up.json" &&
		[ "$(python3 -c 'import json, sys; print(*sorted({r["metric"]["job"] for r in json.load(sys.stdin)["data"]["result"] if r["value"][1] == "1"}))' <"$work/up.json")" = "$1" ]
}
wanted="processor prometheus"
[ "$(of ingest '{{.State.Running}}')" != true ] || wanted="ingest $wanted"
eventually 60 up_services "$wanted" || { cat "$work/up.json" >&2; fail "Prometheus doesn't see: $wanted"; }

say "a second processor, and the end of both"
up --no-deps --no-recreate --scale processor=2 --wait --wait-timeout 400 processor
dc stop >"$work/stop.log" 2>&1
for container in $(dc ps --all --quiet processor ingest); do
	ended=$(docker inspect --format '{{.Name}}: {{.State.ExitCode}} {{.State.OOMKilled}}' "$container")
	[[ $ended = *": 0 false" ]] || { docker logs --tail 20 "$container" >&2; fail "stopped with $ended"; }
done
dc --profile play down --volumes >"$work/down.log" 2>&1
left=$(docker ps --all --quiet; docker volume ls --quiet; docker network ls --quiet --filter type=custom)
[ -z "$left" ] || fail "down --volumes leaves: $left"
say "ok"
