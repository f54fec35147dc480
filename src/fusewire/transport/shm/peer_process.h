// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The process at the other end of a unix socket, and whether it is one of our own: of our user, in our user namespace
// and our pid namespace. A number of a user proves nothing between containers: theirs may be the same by accident.
// The kernel knows the number of the process that connected, or listened. That may have ended, and its number may be
// another one's now. So nothing is handed over before the process has answered a nonce of ours, for the kernel says
// which process sent a packet: if that number has one start time before the nonce is sent and after its answer, it is
// that process. It holds no descriptor meanwhile, since thousands may meet at once.
// And the memory of such a process, if the system permits to read it (process_vm_readv; many containers do not).
// Addresses are the other process's: a wrong one is an error, and never leads into our memory.
// Home: any thread. Fails: Of and CheckSender say why; what cannot be seen is not one of our own. Reading fails with
// false, or with a Status; the other process may end at any time.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

class PeerProcess {
 public:
  PeerProcess() = default;
  // kRefused: it is not one of ours, or that cannot be seen. kOverloaded: no descriptor is left to look. From now on,
  // packets of this socket name their sender.
  static Result<PeerProcess> Of(int socket);
  // The same, of the sender of a packet that answered our nonce: it is that process.
  Status CheckSender(pid_t sender) const;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  uint64_t start_ = 0;  // when it began, in ticks of the kernel
};

// ---- its memory ----

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
