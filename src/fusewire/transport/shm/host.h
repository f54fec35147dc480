// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which host a process is on, as a number that processes may send each other: it is the same for those that can meet to
// share memory, whatever their addresses. A hint: the proof is that they meet, see meeting.h and gathering.h.
// Home: any thread. Fails: 0 where the system does not tell.
#pragma once

#include <cstdint>

namespace fusewire::transport {

// Of the calling thread: made of its kernel's boot id and its network namespace.
uint64_t HostId();

}  // namespace fusewire::transport
