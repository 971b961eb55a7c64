#!/bin/sh
# Fetches the jars of an Apache Kafka broker into a folder, for the tests that
# run against a real one:
#
#	stream/streamtest/kafka/fetch.sh .cache/kafka-4.3.1
#	PORESTREAM_KAFKA_LIB=$PWD/.cache/kafka-4.3.1 go test ./stream/...
#
# Needs mvn and Java 17 or later. Does nothing if the folder is complete.
set -eu
if [ $# -ne 1 ]; then
	echo "usage: $0 FOLDER" >&2
	exit 2
fi
for tool in mvn java; do
	command -v "$tool" >/dev/null || { echo "$0: $tool is missing (Debian: apt-get install maven default-jdk-headless)" >&2; exit 1; }
done
pom=$(cd "$(dirname "$0")" && pwd)/pom.xml
mkdir -p "$1"
lib=$(cd "$1" && pwd)
[ -e "$lib/.complete" ] && [ ! "$pom" -nt "$lib/.complete" ] && exit 0
mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib"
touch "$lib/.complete"
