// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory shared by two processes of one container and one user: a ring of bytes in each direction, and for what is
// large a copy straight from the sender's memory into the receiver's. See README.md beside this. Home: as in
// transport.h; one transport may serve many reactors. Owns: a thread for names, from the first name on. Fails: as in
// transport.h; Dial says kUnavailable where the host is another machine, or no task of it listens there.
#pragma once

#include <cstdint>
#include <memory>

#include "fusewire/transport/shm/shm_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// Which host a process is on, as a number that processes may send each other: it is the same for those that can meet to
// share memory, whatever their addresses. A hint: the proof is that they meet, see control_message.h and gathering.h.
// Any thread: made of its kernel's boot id and its network namespace. 0 where the system does not tell.
uint64_t HostId();

std::unique_ptr<Transport> MakeShm(ShmOptions options);

// Any thread. Whether pieces may be taken from another process's memory: a child that is forked for it tries.
bool MayLend();

// Any thread. What all connections of this process have written so far.
uint64_t SharedBytesWritten();

}  // namespace fusewire::transport
