# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Short names for the scripts in tools/*.sh. Each target first installs what it needs.
.DEFAULT_GOAL := help
.PHONY: help deps demo demo-elastic demo-wire quick test test-all asan tsan fuzz bench soak site wheel test-wheel \
  image lint format clean figures

SUITE ?= core
PHASES ?=
TENSORFLOW ?=
ROOM ?=
MINUTES ?= 10
FIGURES ?=

help:  ## list all commands
	@awk -F ':  ## ' '/^[a-z-]+:  ## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

deps:  ## install everything that any target needs
	@tools/deps.sh

demo:  ## train a model on parameter servers over stock grpc, grpc++, grpc++ with tensor_fuse, and star_server
	@tools/demo.sh

demo-elastic:  ## train while parameter servers are killed, moved and doubled, and compare with stock TensorFlow
	@tools/demo.sh elastic

demo-wire:  ## exchange messages and tensors between two processes, and compare with raw sockets
	@tools/demo.sh wire

quick:  ## build and test one room (ROOM=p2p), or all rooms; for use after an edit
	@tools/quick.sh $(ROOM)

test:  ## the C++ tests and a short TensorFlow test; PHASES="dev smoke asan" selects phases
	@tools/test.sh $(or $(PHASES),test)

test-all:  ## all tests, in all builds; PHASES=rest leaves out what make test runs
	@tools/test.sh $(or $(PHASES),all)

asan:  ## run the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/test.sh asan

tsan:  ## run the tests under ThreadSanitizer
	@tools/test.sh tsan

fuzz:  ## run each decoder's fuzz target for a million executions
	@tools/test.sh fuzz

bench:  ## compare with other libraries; SUITE=core, p2p, collective, torch, ps (training), mwms or scale
	@tools/bench.sh $(SUITE)

figures:  ## measure what README and docs/performance.md say, and write their tables; FIGURES="--suite ps" only some
	@python3 bench/figures.py $(FIGURES)

soak:  ## train under random faults, MINUTES=10 for each protocol; SOAK="--seed 7 --protocol grpc++" passes options
	@tools/soak.sh --minutes $(MINUTES) $(SOAK)

wheel:  ## build the wheel with a plug-in for each TensorFlow from 2.15 on, and check it with auditwheel
	@tools/wheel.sh $(TENSORFLOW)

test-wheel:  ## train over each protocol with that wheel, in a fresh environment for each TensorFlow
	@tools/test_wheel.sh $(TENSORFLOW)

image:  ## build the image of deploy/Dockerfile, where docker, podman or buildah works
	@tools/image.sh

site:  ## build the documentation as a site, in build/site
	@tools/lint.sh site

lint:  ## check formatting, clang-tidy, ruff, shellcheck and the rules of tools/tidy.py
	@tools/lint.sh

format:  ## apply clang-format and ruff format
	@tools/lint.sh --fix

clean:  ## remove all builds and measurements
	rm -rf build bench/out
