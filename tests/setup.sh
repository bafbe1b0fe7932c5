#!/usr/bin/env bash
# Installs what the tests need besides Rust: Debian packages, a Python with other people's readers of Paimon and Delta tables and an S3
# server, Java Paimon with the small reader in tests/interop/java, Spark with delta-spark and the one in tests/interop/delta/java, Apache
# Kafka, public Delta tables, and a second S3 server, s3s-fs.  Running it again does only what is missing.
#
#   tests/setup.sh                                   everything
#   PAIMON_JAVA_VERSIONS="1.4.2" tests/setup.sh      other versions of paimon-bundle (must be on Maven Central)
#
# Outside the clone only pip's cache and ~/.m2 are written, and Debian packages installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

java_versions=${PAIMON_JAVA_VERSIONS:-0.9.0 1.4.2}
requirements=tests/interop/requirements.txt
say() { printf 'setup: %s\n' "$*" >&2; }

# ---------------------------------------------------------------- Debian packages
missing=()
command -v strace >/dev/null || missing+=(strace)
command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
  say "apt-get install ${missing[*]}"
  sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# ---------------------------------------------------------------- Python
if ! { [ -x .venv/bin/python ] && cmp -s "$requirements" .venv/lakeward-requirements.txt; }; then
  say "Python packages into .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  try() { "$@" || { say "once more: $*"; sleep 5; "$@"; }; }
  try .venv/bin/python -m pip install -q --disable-pip-version-check --no-input -r "$requirements"
  try .venv/bin/python tests/interop/dataset.py --install
  cp "$requirements" .venv/lakeward-requirements.txt
fi

# pypaimon asks for Polars below 2; the reader of Delta tables is the current one, so that lies beside.
polars=2.1.0
if [ "$(cat target/interop/polars/ready 2>/dev/null)" != "$polars" ]; then
  say "Polars $polars into target/interop/polars"
  rm -rf target/interop/polars
  fetch_polars() {
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps --upgrade --target target/interop/polars \
      "polars==$polars" "polars-runtime-32==$polars"
  }
  fetch_polars || { say "once more: Polars"; sleep 5; fetch_polars; }
  printf '%s\n' "$polars" >target/interop/polars/ready
fi

# ---------------------------------------------------------------- Java
for version in $java_versions; do
  dir=target/interop/java-$version
  stamp=$(cat tests/interop/java/pom.xml tests/interop/java/*.java | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$dir/ready" 2>/dev/null)" = "$stamp" ]; then
    continue
  fi
  say "Java Paimon $version into $dir"
  # The jars stay while only the reader beside them has changed.
  jars=$(sha256sum <tests/interop/java/pom.xml)
  fetch() {
    mvn -q -B -Dstyle.color=never -f tests/interop/java/pom.xml -Dpaimon.version="$version" \
      org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$root/$dir/lib" >&2
  }
  if [ "$(cat "$dir/jars" 2>/dev/null)" != "$jars" ]; then
    rm -rf "$dir"
    mkdir -p "$dir/lib"
    fetch || { say "once more: Maven, $version"; sleep 5; fetch; }
    printf '%s\n' "$jars" >"$dir/jars"
  fi
  rm -rf "$dir/ready" "$dir/classes"
  mkdir -p "$dir/classes"
  javac -nowarn -Xlint:none -encoding UTF-8 -cp "$dir/lib/*" -d "$dir/classes" tests/interop/java/*.java
  printf '%s\n' "$stamp" >"$dir/ready"
done
# ---------------------------------------------------------------- Spark with delta-spark
spark=target/interop/spark
stamp=$(cat tests/interop/delta/pom.xml tests/interop/delta/java/*.java | sha256sum | cut -d' ' -f1)
if [ "$(cat "$spark/ready" 2>/dev/null)" != "$stamp" ]; then
  say "Spark and delta-spark into $spark"
  jars=$(sha256sum <tests/interop/delta/pom.xml)
  fetch_spark() {
    mvn -q -B -Dstyle.color=never -f tests/interop/delta/pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$root/$spark/lib" >&2
  }
  if [ "$(cat "$spark/jars" 2>/dev/null)" != "$jars" ]; then
    rm -rf "$spark"
    mkdir -p "$spark/lib"
    fetch_spark || { say "once more: Spark"; sleep 5; fetch_spark; }
    printf '%s\n' "$jars" >"$spark/jars"
  fi
  rm -rf "$spark/ready" "$spark/classes"
  mkdir -p "$spark/classes"
  javac -nowarn -Xlint:none -encoding UTF-8 -cp "$spark/lib/*" -d "$spark/classes" tests/interop/delta/java/*.java
  printf '%s\n' "$stamp" >"$spark/ready"
fi
# ---------------------------------------------------------------- other people's Delta tables
tests/delta/fetch.sh

# ---------------------------------------------------------------- Apache Kafka
kafka=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' tests/kafka/pom.xml)
stamp=$(sha256sum <tests/kafka/pom.xml)
if [ "$(cat "target/interop/kafka-$kafka/ready" 2>/dev/null)" != "$stamp" ]; then
  say "Apache Kafka $kafka into target/interop/kafka-$kafka"
  rm -rf target/interop/kafka-*
  mkdir -p "target/interop/kafka-$kafka/lib"
  fetch_kafka() {
    mvn -q -B -Dstyle.color=never -f tests/kafka/pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$root/target/interop/kafka-$kafka/lib" >&2
  }
  fetch_kafka || { say "once more: Kafka"; sleep 5; fetch_kafka; }
  printf '%s\n' "$stamp" >"target/interop/kafka-$kafka/ready"
fi

# ---------------------------------------------------------------- an S3 server that lets many creates of one name win
s3s=0.14.1
if [ "$(target/interop/s3s/bin/s3s-fs --version 2>/dev/null)" != "s3s-fs $s3s" ]; then
  say "s3s-fs $s3s into target/interop/s3s (a minute)"
  fetch_s3s() {
    CARGO_TARGET_DIR=target/interop/s3s-build CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
      cargo install -q --locked --debug --force --features binary --version "$s3s" --root target/interop/s3s s3s-fs
  }
  fetch_s3s || { say "once more: s3s-fs"; sleep 5; fetch_s3s; }
  rm -rf target/interop/s3s-build
fi
say "ready: $(tests/interop/read.sh readers | tr '\n' ' ')"
