#!/bin/sh
# Prints the directory of the first cargo that starts, along PATH, then where rustup and Debian put it. A cargo that is there and
# cannot start (rustup without a toolchain) is named on stderr, with what it says.
IFS=:
for directory in $PATH "$HOME/.cargo/bin" /usr/bin; do
  [ -x "$directory/cargo" ] || continue
  if said=$("$directory/cargo" --version 2>&1); then
    echo "$directory"
    exit 0
  fi
  echo "$directory/cargo cannot start: $(echo "$said" | head -n 1)" >&2
done
exit 1
