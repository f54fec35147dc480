// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A packet over a unix socket, and descriptors that travel with it. Neither call waits.
// Home: any thread. Owns: what it has received, until the caller takes it. Fails: as the system calls, with errno.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// Somewhat less than what the kernel takes in one packet.
constexpr size_t kPassedFilesMax = 129;

// Bytes sent, or -1.
ssize_t SendPacket(int socket, ConstBytes bytes, const int* files, size_t file_count);

struct PassedPacket {
  ssize_t bytes = -1;     // 0: the other end is closed; -1: see errno
  int flags = 0;          // MSG_TRUNC, MSG_CTRUNC: there was more than fits, or no descriptor left
  pid_t sender = 0;       // where the socket asks for it: SO_PASSCRED
  std::vector<Fd> files;  // may be more than `files_max`
};
PassedPacket ReceivePacket(int socket, Bytes into, size_t files_max);

}  // namespace fusewire::transport
