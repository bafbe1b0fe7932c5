#!/usr/bin/env bash
# Brings the public acceptance tables of Delta Lake into target/interop/delta-tables/{deltalake,delta_kernel}: those inside the source
# distribution of deltalake (PyPI) and inside the crate delta_kernel (crates.io), each of one version and one SHA-256.  fixtures/README.md
# says what they are.  Called by tests/setup.sh; running it again does nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tables=$root/target/interop/delta-tables
python=$root/.venv/bin/python

deltalake=1.6.6 deltalake_sha256=91864d97adb429fa8b8748b4f68d69adab3d0417ffa9f100bdb85805890c997f
# Those looked at from 0.15 on leave their tables out.
kernel=0.13.0 kernel_sha256=f06f3676832e713e44f65804cebf82f46962d3e126f64f3251eb5fbeb0ad94e4

stamp="deltalake $deltalake $deltalake_sha256, delta_kernel $kernel $kernel_sha256"
if [ "$(cat "$tables/ready" 2>/dev/null)" = "$stamp" ]; then
  exit 0
fi
echo "setup: acceptance tables of deltalake $deltalake and delta_kernel $kernel into $tables" >&2
rm -rf "$tables"
mkdir -p "$tables"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # no manifest here, for cargo

# pip hands a source distribution out only after asking its build system what is in it.  Nothing is to be built: this one says just that.
mkdir stub
cat >stub/maturin.py <<'PYTHON'
import os


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "deltalake-" + os.environ["DELTALAKE"] + ".dist-info"
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: deltalake\nVersion: " + os.environ["DELTALAKE"] + "\n")
    return name
PYTHON
printf 'deltalake==%s --hash=sha256:%s\n' "$deltalake" "$deltalake_sha256" >wanted.txt
fetch_sdist() {
  DELTALAKE=$deltalake PYTHONPATH=$work/stub "$python" -m pip download -q --disable-pip-version-check --no-input --no-deps \
    --no-binary deltalake --no-build-isolation --require-hashes -d "$work" -r wanted.txt
}
fetch_sdist || { echo "setup: once more: deltalake's sources" >&2; sleep 5; fetch_sdist; }
tar xzf "deltalake-$deltalake.tar.gz" "deltalake-$deltalake/crates/test/tests/data"
mv "deltalake-$deltalake/crates/test/tests/data" "$tables/deltalake"

# Showing what a crate is brings it into cargo's cache.
fetch_crate() { cargo info -q "delta_kernel@$kernel" >/dev/null; }
fetch_crate || { echo "setup: once more: delta_kernel" >&2; sleep 5; fetch_crate; }
crate=$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"delta_kernel-$kernel.crate" | head -n 1)
echo "$kernel_sha256  $crate" | sha256sum --check --quiet
tar xzf "$crate" "delta_kernel-$kernel/tests/data"
mv "delta_kernel-$kernel/tests/data" "$tables/delta_kernel"
"$python" - "$tables/delta_kernel" <<'PYTHON'
import io
import os
import sys
import tarfile

import pyarrow as pa

for name in sorted(os.listdir(sys.argv[1])):
    if name.endswith(".tar.zst"):
        packed = os.path.join(sys.argv[1], name)
        with pa.input_stream(packed, compression="zstd") as f:
            tarfile.open(fileobj=io.BytesIO(f.read())).extractall(sys.argv[1], filter="data")
        os.remove(packed)
PYTHON
printf '%s\n' "$stamp" >"$tables/ready"
