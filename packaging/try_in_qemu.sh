#!/usr/bin/env bash
# The aarch64 wheel with a real Python for ARM, emulated by qemu: packaging/try_in_qemu.sh DIST MODEL TEXT
# Needs qemu-user, apt-get and network access; nothing is installed into this system.
set -euo pipefail
dist=$(realpath "$1") model=$(realpath "$2") text=$(realpath "$3")
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cd "$room"

# Python for ARM, from Debian's packages, unpacked into a folder.
mkdir -p lists/partial cache/archives/partial debs root
touch status
arm=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$room/lists"
  -o Dir::State::status="$room/status" -o Dir::Cache="$room/cache" -o APT::Sandbox::User=root)
apt-get "${arm[@]}" update
python=$(apt-cache "${arm[@]:1}" depends python3-minimal | sed -n 's/.*Depends: \(python3\.[0-9]*\)-minimal.*/\1/p' | head -1)
(cd debs && apt-get "${arm[@]}" download "$python-minimal" "lib$python-minimal" "lib$python-stdlib" libc6 zlib1g libexpat1 \
  libssl3 libffi8 liblzma5 libbz2-1.0 libgcc-s1 libstdc++6 libsqlite3-0 libuuid1 libcrypt1)
for deb in debs/*.deb; do dpkg -x "$deb" root; done

# The wheel and what it depends on, for ARM.
abi=cp${python#python}
platforms=(--platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64)
python3 -m pip install --quiet --disable-pip-version-check --target site "${platforms[@]}" --only-binary=:all: --implementation cp \
  --python-version "${python#python}" --abi "${abi//./}" --abi abi3 --abi none "$dist"/dragoman-*manylinux_2_17_aarch64.whl

on_arm() { qemu-aarch64 -cpu "$cpu" -E PYTHONPATH="$room/site" -E DRAGOMAN_CACHE="$room/tested" -L root "root/usr/bin/$python" "$@"; }
for cpu in cortex-a53 neoverse-n1 max; do # portable, dotprod, i8mm
  on_arm -c 'import ctypes; from dragoman.engines.native_model import load_code; code = load_code()
code.instructions.restype = ctypes.c_char_p; assert code.self_test() == 0; print(code.instructions().decode())'
  on_arm -m dragoman translate "$model" "$text" >"$cpu.txt"
  cmp "$cpu.txt" cortex-a53.txt
done
wc -l max.txt
