// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
//
// What shared memory can do on this machine with nothing around it: the floor beside which the transport is measured.
// The port that a server announces is the number of a descriptor of its, which the client takes (pidfd_getfd).
#ifndef FUSEWIRE_BENCH_WIRES_BARE_H_
#define FUSEWIRE_BENCH_WIRES_BARE_H_

#include "bench/harness/harness.h"

namespace fusewire::bench {

// 64 B through a slot of memory each way; each message is told with an eventfd, and waited for with epoll and a read.
void ServeEventfd(const Options& options);
Sample DriveEventfd(const Options& options);

// 64 B through a slot of memory each way; both sides look at it without a pause.
void ServeRings(const Options& options);
Sample DriveRings(const Options& options);

// The client takes messages from the server's memory with process_vm_readv, again and again, into the same memory of
// its own. Nobody is told of anything. So many bytes each as the case's name says.
void ServeReadv(const Options& options);
Sample DriveReadv(const Options& options);

// From the name of a bulk case: "bulk_16MiB_shm".
size_t BytesOfCase(const Options& options);

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_WIRES_BARE_H_
