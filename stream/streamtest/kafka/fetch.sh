#!/bin/sh
# Fetches the jars of an Apache Kafka broker into a folder, for the tests that
# run against a real one:
#
#	stream/streamtest/kafka/fetch.sh .cache/kafka
#	PORESTREAM_KAFKA_LIB=$PWD/.cache/kafka go test ./stream/...
#
# VERSION is another one than that which pom.xml names. Needs mvn and Java 17 or
# later. Does nothing if the folder is complete.
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: $0 FOLDER [VERSION]" >&2
	exit 2
fi
for tool in mvn java; do
	command -v "$tool" >/dev/null || { echo "$0: $tool is missing (Debian: apt-get install maven default-jdk-headless)" >&2; exit 1; }
done
pom=$(cd "$(dirname "$0")" && pwd)/pom.xml
mkdir -p "$1"
lib=$(cd "$1" && pwd)
version=${2:-$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$pom")}
[ "$(cat "$lib/.complete" 2>/dev/null)" = "$version" ] && [ ! "$pom" -nt "$lib/.complete" ] && exit 0
# Jars of another version beside these would be a broker of both.
rm -f "$lib"/*.jar "$lib/.complete"
mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib" "-Dkafka.version=$version"
echo "$version" >"$lib/.complete"
