// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The limits of shared memory on this machine: the baseline of the transport.
// The port that a server announces is the number of one of its descriptors, which the client gets with pidfd_getfd.
#pragma once

#include "bench/harness/harness.h"

namespace fusewire::bench {

// 64 B through a slot of memory each way; each message is signalled by an eventfd, and awaited with epoll and a read.
void ServeEventfd(const Options& options);
Sample DriveEventfd(const Options& options);

// 64 B through a slot of memory each way; both sides poll without a pause.
void ServeRings(const Options& options);
Sample DriveRings(const Options& options);

// The client repeatedly reads messages from the server's memory with process_vm_readv into the same memory of
// its own, without notifications. The case's name has the message size.
void ServeReadv(const Options& options);
Sample DriveReadv(const Options& options);

// From the name of a bulk case: "bulk_16MiB_shm".
size_t BytesOfCase(const Options& options);

}  // namespace fusewire::bench
