# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts, to be sourced from the root: which TensorFlow versions there are, each by its lock.

# Those that all tests run with, the oldest first.
tensorflow_versions() { _versions_of tools/tensorflow-*.lock; }
# Those that the wheel has a plug-in for.
wheel_versions() { _versions_of tools/tensorflow-*.lock tools/wheels/tensorflow-*.lock; }
# tensorflow_lock VERSION: its lock; fails if there is none.
tensorflow_lock() {
  local lock
  for lock in "tools/tensorflow-$1.lock" "tools/wheels/tensorflow-$1.lock"; do
    if [ -f "$lock" ]; then
      echo "$lock"
      return
    fi
  done
  echo "there is no lock for TensorFlow $1, only for: $(wheel_versions | tr '\n' ' ')" >&2
  return 1
}
_versions_of() { printf '%s\n' "$@" | sed 's/.*tensorflow-//; s/\.lock$//' | sort -V; }
