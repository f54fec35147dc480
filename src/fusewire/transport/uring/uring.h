// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Established TCP connections driven by io_uring instead of epoll: reads and writes of many connections go to the
// kernel with one system call per turn. The protocol is TCP; one end may use it without the other. Home: as in
// transport.h. Owns: a ring for each reactor that it serves, destroyed with the reactor. Fails: as TCP. If the
// kernel has no io_uring or forbids it, one log line says so, and epoll does the work.
#ifndef FUSEWIRE_TRANSPORT_URING_URING_H_
#define FUSEWIRE_TRANSPORT_URING_URING_H_

#include "fusewire/base/status.h"
#include "fusewire/transport/drive.h"

namespace fusewire {
namespace transport {

// Any thread but a home. For TcpOptions::drive; null if io_uring is not available.
DriveSocket DriveByUring();

// Any thread but a home. Sends some bytes through a ring and compares the result, each time it is called.
Status TryUring();

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_URING_H_
