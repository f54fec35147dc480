#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the image of deploy/Dockerfile with docker, podman or buildah, whichever works here: tools/image.sh
#   --tf VERSION  the TensorFlow in it; default: 2.15.1
#   --name NAME   what the image is called; default: fusewire:VERSION-OF-FUSEWIRE
# Where no builder works it says so, and why; the exit code is then 3.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(tools/tensorflow_version.sh "$@")
name=fusewire:$(/usr/bin/python3 cmake/fusewire_version.py | tr + -)  # a tag has no "+"
while [ $# -gt 0 ]; do
  case $1 in
    --tf) shift ;;
    --tf=*) ;;
    --name) name=${2:?"image: --name needs a name"}; shift ;;
    *) echo "image: unknown option $1; there are --tf and --name" >&2; exit 2 ;;
  esac
  shift
done

# The first builder that answers: a client without its daemon, or one that may not make namespaces, does not.
reasons=()
for builder in docker podman buildah; do
  if ! command -v "$builder" >/dev/null; then
    reasons+=("$builder is not installed")
  elif said=$(timeout 20 "$builder" info 2>&1 >/dev/null); then
    echo "image: building $name with $builder, for TensorFlow $version"
    exec "$builder" build -f deploy/Dockerfile -t "$name" --build-arg "TENSORFLOW=$version" .
  else
    reasons+=("$builder does not answer: $(tail -n 1 <<<"$said" | cut -c 1-200)")
  fi
done
{
  echo "image: there is no builder of images here:"
  printf '  %s\n' "${reasons[@]}"
  echo "  Fix: install one of them (Debian: apt-get install podman), or run on a machine that has one:"
  echo "       docker build -f deploy/Dockerfile -t $name --build-arg TENSORFLOW=$version ."
} >&2
exit 3
