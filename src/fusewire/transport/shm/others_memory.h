// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reads the memory of another process of this host and user, if the system permits it (process_vm_readv; many
// containers do not). Addresses are the other process's: a wrong one is an error, and never leads into our memory.
// Home: any thread. Fails: with false, or with a Status; the other process may end at any time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

// A word of ours that nobody can guess, for others to read; and whether we can read theirs.
uint64_t ProbeAddress();
uint64_t ProbeWord();
bool CanRead(pid_t pid, uint64_t address, uint64_t word);
// The same. The first time in this process that we cannot, a log line says what it costs.
bool CanReadOrLog(pid_t pid, uint64_t address, uint64_t word);

// All of `to`, or kUnavailable.
Status ReadOthers(pid_t pid, uint64_t address, Bytes to);

// 0: this process sees no number for it, or has no /proc.
pid_t ProcessOf(int pidfd);

}  // namespace fusewire::transport
