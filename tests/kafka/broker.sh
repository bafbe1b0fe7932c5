#!/usr/bin/env bash
# Apache Kafka in one process (KRaft), on the loopback device only.  tests/setup.sh installs it.
#
#   tests/kafka/broker.sh start DIR [PORT]    a broker with its data in DIR, at 127.0.0.1:PORT (9092); the controller takes PORT + 1
#   tests/kafka/broker.sh stop DIR            ends it; `start` goes on with the same data
#   tests/kafka/broker.sh tool CLASS ARGS..   one of Kafka's own tools, e.g. org.apache.kafka.tools.TopicCommand
#   tests/kafka/broker.sh format DIR ARGS..   (for tests) makes the storage that DIR/server.properties names
#   tests/kafka/broker.sh run DIR             (for tests) in the foreground; ends when standard input closes, and then removes DIR
#
# `start` uses DIR/server.properties if it is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
kafka=$(cd "$here/../.." && pwd)/target/interop/kafka-$version
[ -e "$kafka/ready" ] || { echo "broker: no Kafka $version in $kafka; run tests/setup.sh" >&2; exit 1; }
# The id is one of sixteen bytes; every broker of a cluster is formatted with it.
cluster=bGFrZXdhcmQtdGVzdHMtMQ
small=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "-Dlog4j2.configurationFile=$here/log4j2.yaml")

kafka_java() { java "${small[@]}" -cp "$kafka/lib/*" "$@"; }
format() {
  local dir=$1
  shift
  kafka_java kafka.tools.StorageTool format --ignore-formatted -t "$cluster" -c "$dir/server.properties" "$@" >"$dir/format.log" 2>&1 || {
    cat "$dir/format.log" >&2
    exit 1
  }
}
# Starts the broker in DIR in the background; its process id goes to DIR/pid, what it says to DIR/kafka.log.
launch() {
  : >"$1/kafka.log"
  # Not by the function: the process must be java itself.
  # DIR/java.options may hold more of its arguments, one a line.
  local more=()
  [ ! -e "$1/java.options" ] || more=("@$1/java.options")
  java "${small[@]}" -Xmx400m "${more[@]}" -cp "$kafka/lib/*" kafka.Kafka "$1/server.properties" >>"$1/kafka.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$1/pid"
}
command=${1:-}
[ $# = 0 ] || shift
case $command in
  start)
    dir=${1:?start DIR} port=${2:-9092}
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    if [ -e "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; then
      echo "broker: it runs, process $(cat "$dir/pid")" >&2
      exit 1
    fi
    [ -e "$dir/server.properties" ] || cat >"$dir/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$dir/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
END
    format "$dir"
    launch "$dir"
    for _ in $(seq 600); do
      grep -q 'Kafka Server started' "$dir/kafka.log" && break
      kill -0 "$pid" 2>/dev/null || { cat "$dir/kafka.log" >&2; exit 1; }
      sleep 0.1
    done
    echo "Kafka $version, process $pid: $(sed -n 's/^advertised.listeners=//p' "$dir/server.properties"); what it says is in $dir/kafka.log"
    ;;
  stop)
    pid=$(cat "${1:?stop DIR}/pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || exit 0
      sleep 0.1
    done
    kill -KILL "$pid"
    ;;
  tool) kafka_java -Xmx200m "$@" ;;
  format) format "$@" ;;
  run)
    dir=${1:?run DIR}
    # A Ctrl-C is for the tests; what ends with them is told by standard input.
    trap '' INT HUP
    exec 3<&0
    launch "$dir"
    # The tests hold the other end of standard input: it closes when they are done, and also when they are killed.
    (
      cat <&3 >/dev/null
      : >"$dir/over"
      kill -KILL "$pid" 2>/dev/null || true
    ) &
    watch=$!
    code=0
    wait "$pid" || code=$?
    if [ -e "$dir/over" ]; then
      rm -rf "$dir"
    else
      kill "$watch" 2>/dev/null || true
    fi
    exit "$code"
    ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
