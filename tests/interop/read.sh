#!/usr/bin/env bash
# Other people's readers behind one command; see README.md beside this file.
#   read.sh READER TABLE_PATH rows [--filter COL OP VALUE] [--columns a,b] [--snapshot N]
#   read.sh READER TABLE_PATH summary|count [--filter COL OP VALUE]
#   read.sh READER TABLE_PATH snapshots|schema|list
#   read.sh READER TABLE_PATH expire --retain-max N
#   read.sh READER batch            JSON requests on stdin, one JSON answer a line on stdout
#   read.sh readers                 the readers that tests/setup.sh has installed
# READER of Paimon tables: pypaimon, pypaimon-rust, java-VERSION, java-newest, java-oldest
# READER of Delta tables:  deltalake, deltalake-pyarrow, duckdb, polars, spark
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
interop=${LAKEWARD_INTEROP_DIR:-$root/target/interop}
python=${LAKEWARD_INTEROP_PYTHON:-$root/.venv/bin/python}

java_versions() { # installed ones, oldest first
  for d in "$interop"/java-*/; do
    [ -f "$d/ready" ] && basename "$d" | sed 's/^java-//'
  done | sort -V
}

if [ "${1:-}" = readers ]; then
  [ -x "$python" ] && printf 'pypaimon\npypaimon-rust\n'
  java_versions | sed 's/^/java-/'
  [ -d "$interop/polars" ] && printf 'deltalake\ndeltalake-pyarrow\nduckdb\npolars\n'
  [ -f "$interop/spark/ready" ] && echo spark
  exit 0
fi
if [ $# -lt 2 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
reader=$1

serve() {
  case $reader in
    pypaimon | pypaimon-rust)
      exec "$python" "$here/python_reader.py" "$reader"
      ;;
    deltalake | deltalake-pyarrow | duckdb | polars)
      exec "$python" "$here/delta/reader.py" "$reader"
      ;;
    spark)
      if [ ! -f "$interop/spark/ready" ]; then
        echo "read.sh: Spark is not installed (tests/setup.sh installs it)" >&2
        exit 2
      fi
      # What Spark reaches for in the JDK must be opened to it since Java 17.
      opens=()
      for package in lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic; do
        opens+=(--add-opens=java.base/java.$package=ALL-UNNAMED)
      done
      for package in sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
        opens+=(--add-opens=java.base/$package=ALL-UNNAMED)
      done
      cd "${TMPDIR:-/tmp}" # it makes folders where it stands
      SPARK_LOCAL_IP=127.0.0.1 exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g "${opens[@]}" \
        -cp "$interop/spark/classes:$interop/spark/lib/*" SparkReader
      ;;
    java-*)
      version=${reader#java-}
      case $version in
        newest) version=$(java_versions | tail -n 1) ;;
        oldest) version=$(java_versions | head -n 1) ;;
      esac
      dir=$interop/java-$version
      if [ ! -f "$dir/ready" ]; then
        echo "read.sh: Java Paimon '$version' is not installed; there is: $(java_versions | tr '\n' ' ')(tests/setup.sh installs them)" >&2
        exit 2
      fi
      exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx3g \
        -cp "$dir/classes:$dir/lib/*" Interop
      ;;
    *)
      echo "read.sh: no such reader: $reader" >&2
      exit 2
      ;;
  esac
}

if [ "$2" = batch ]; then
  serve
fi
# One request: the Python beside this file words it and prints the answer; exit 1 if the reader refused.
# A variable rather than a pipe to the printer, so that a reader that dies is seen.
request=$("$python" "$here/single.py" request "${@:2}")
answer=$(printf '%s\n' "$request" | serve)
printf '%s\n' "$answer" | "$python" "$here/single.py" answer
