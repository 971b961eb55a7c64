#!/usr/bin/env bash
# Runs one node of Apache Kafka on this machine until Ctrl-C, from the jars in LIB, with its
# log in DATA, for programs that reach LISTEN. For trials: nobody has to log in.
#
#	LIB=.cache/kafka DATA=.cache/kafka-data LISTEN=127.0.0.1:9092 scripts/kafka.sh
set -euo pipefail
lib=${LIB:?the folder of the jars} data=${DATA:?the folder of the log} listen=${LISTEN:-127.0.0.1:9092}
host=${listen%:*} port=${listen##*:}
case $port in '' | *[!0-9]*) echo "kafka: LISTEN=$listen: want host:port" >&2; exit 2 ;; esac
case $host in 127.* | localhost) ;; *) echo "kafka: LISTEN=$listen is not an address of this machine alone, and nobody would have to log in" >&2; exit 2 ;; esac
command -v java >/dev/null || { echo "kafka: Java 17 or later is missing (Debian: apt-get install default-jre-headless)" >&2; exit 1; }
mkdir -p "$data"
data=$(cd "$data" && pwd)
cat >"$data/server.properties" <<-PROPERTIES
	process.roles=broker,controller
	node.id=1
	controller.quorum.voters=1@127.0.0.1:$((port + 1))
	listeners=CLIENTS://$listen,CONTROLLER://127.0.0.1:$((port + 1))
	advertised.listeners=CLIENTS://$listen
	listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
	controller.listener.names=CONTROLLER
	inter.broker.listener.name=CLIENTS
	log.dirs=$data/log
	auto.create.topics.enable=false
	offsets.topic.replication.factor=1
	transaction.state.log.replication.factor=1
	transaction.state.log.min.isr=1
	group.initial.rebalance.delay.ms=0
PROPERTIES
cat >"$data/log4j2.yaml" <<-'LOG'
	Configuration:
	  Appenders: {Console: {name: out, target: SYSTEM_ERR, PatternLayout: {pattern: "%d %p %m%n"}}}
	  Loggers: {Root: {level: warn, AppenderRef: {ref: out}}}
LOG
java=(java "-Dlog4j2.configurationFile=$data/log4j2.yaml" -Xmx512m -cp "$lib/*")
if [ ! -e "$data/log/meta.properties" ]; then
	"${java[@]}" kafka.tools.StorageTool format --cluster-id porestreamAAAAAAAAAAAA --config "$data/server.properties" >/dev/null
fi
echo "Apache Kafka on $listen, its log in $data; Ctrl-C ends it. --brokers $listen"
exec "${java[@]}" kafka.Kafka "$data/server.properties"
