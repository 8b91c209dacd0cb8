#!/bin/sh
# Builds what a release consists of into the directory $2, with the tools of the virtual environment $1/bin (extra `release`):
# the sdist and the wheel of anabranch, and of anabranch-native an sdist and abi3 wheels for manylinux2014 (glibc 2.17) and
# musllinux_1_2. Then it checks them: only the stable ABI is used, and the decoder's tests pass with the manylinux wheel.
# ARCH: x86_64 or aarch64 (this machine's). RUST_SRC: the directory `library` of rustc's sources (Debian: rust-src), from which a
# nightly toolchain builds the standard library for musl where rustup cannot fetch it. One wheel that fails fails the whole.
set -eu
bin=$1 out=$2
arch=${ARCH:-$(uname -m)}
musl=$arch-unknown-linux-musl
PATH=$(cd "$bin" && pwd):$(sh native/find-cargo.sh):$PATH
export PATH CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/native/target}"

build() {
  maturin build --quiet --release --locked --zig --manifest-path native/Cargo.toml --out "$out" "$@"
}

has_musl() {
  [ -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ] || rustup target add "$musl" 2>/dev/null
}

build_musl() {  # musl's own default is a static C library, which no extension module can have
  export RUSTFLAGS="-C target-feature=-crt-static"
  if has_musl; then
    build --compatibility musllinux_1_2 --target "$musl"
  elif [ -n "${RUST_SRC:-}" ]; then
    RUSTUP_TOOLCHAIN=nightly __CARGO_TESTS_ONLY_SRC_ROOT=$RUST_SRC \
      build --compatibility musllinux_1_2 --target "$musl" -Z build-std=std,panic_unwind
  else
    echo "no standard library of Rust for $musl: rustup target add $musl, or give RUST_SRC (native/wheels.sh says what it is)" >&2
    exit 1
  fi
}

rm -rf "$out"
python -m build --quiet --outdir "$out" .
maturin sdist --manifest-path native/Cargo.toml --out "$out"
build --compatibility manylinux2014 --target "$arch-unknown-linux-gnu"
(build_musl)
abi3audit --strict "$out"/anabranch_native-*.whl

if [ "$arch" = "$(uname -m)" ]; then
  tried=$CARGO_TARGET_DIR/tried
  rm -rf "$tried"
  pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$tried" "$out"/anabranch_native-*manylinux*.whl
  PYTHONPATH=$tried python -c 'import anabranch_native as it, sys; sys.exit(not it.__file__.startswith(sys.argv[1]))' "$tried"
  PYTHONPATH=$tried python -m pytest -q tests/unit/connectors tests/unit/rows
fi
ls -l "$out"
