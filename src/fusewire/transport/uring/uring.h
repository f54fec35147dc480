// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Established TCP connections driven by io_uring instead of epoll: reads and writes of many connections go to the
// kernel with one system call a turn. What is spoken is TCP's; one end may use it without the other. Home: as in
// transport.h. Owns: a ring for each reactor that it serves, which goes with the reactor. Fails: as TCP. Where the
// kernel has no io_uring or forbids it, one log line says so, and epoll does the work.
#ifndef FUSEWIRE_TRANSPORT_URING_URING_H_
#define FUSEWIRE_TRANSPORT_URING_URING_H_

#include "fusewire/base/status.h"
#include "fusewire/transport/drive.h"

namespace fusewire {
namespace transport {

// Any thread but a home. For TcpOptions::drive; null where io_uring may not be used.
DriveSocket DriveByUring();

// Any thread but a home. Sends some bytes through a ring and compares what comes out. Asked anew each time.
Status TryUring();

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_URING_H_
