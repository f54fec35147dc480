// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory shared by two processes of one machine and one user: a ring of bytes in each direction, and for what is large
// a copy straight from the sender's memory into the receiver's. See README.md beside this.
// Home: as in transport.h; one transport may serve many reactors. Owns: a thread for names, from the first name on.
// Fails: as in transport.h; Dial says kUnavailable where the host is another machine or nobody meets us there.
#ifndef FUSEWIRE_TRANSPORT_SHM_SHM_H_
#define FUSEWIRE_TRANSPORT_SHM_SHM_H_

#include <cstdint>
#include <memory>

#include "fusewire/transport/resolver.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

struct ShmOptions {
  // Each direction's; a power of two. Memory is used as far as it is written: a connection that carries little keeps to
  // the first pages.
  uint32_t ring_bytes = 512 * 1024;
  // Pieces from this size on are not put into the ring: the receiver takes them from our memory.
  uint32_t lend_bytes_min = 64 * 1024;
  // Whether pieces are taken that way at all, where the system allows it (process_vm_readv).
  bool lend = true;
  // A process that connects has so long to say its greeting.
  int64_t greeting_ns_max = 5 * kSecondNs;
  int backlog = 4096;
  // Null: the system's resolver.
  ResolveNames resolve;
};

std::unique_ptr<Transport> MakeShm(ShmOptions options);

// Any thread. Whether pieces may be taken from another process's memory: a child that is forked for it tries.
bool MayLend();

// Any thread. What all connections of this process have written so far.
uint64_t SharedBytesWritten();

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_SHM_SHM_H_
