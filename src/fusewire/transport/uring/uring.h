// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TCP whose established connections are driven by io_uring instead of epoll: reads and writes of many connections go to
// the kernel with one system call a turn. What is spoken is TCP's; one end may use it without the other.
// Home: as in transport.h. Owns: as TCP; each reactor that it serves gets a ring, which goes with the reactor.
// Fails: as TCP. Where the kernel has no io_uring or forbids it, one log line says so, and epoll does the work.
#ifndef FUSEWIRE_TRANSPORT_URING_URING_H_
#define FUSEWIRE_TRANSPORT_URING_URING_H_

#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/transport/tcp/tcp.h"

namespace fusewire {
namespace transport {

std::unique_ptr<Transport> MakeUring(TcpOptions options);

// Any thread but a home. Sends some bytes through a ring and compares what comes out. Asked anew each time.
Status TryUring();

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_URING_H_
