// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a connected and tuned socket becomes a Connection: TCP makes the sockets, and what drives them may be chosen.
#ifndef FUSEWIRE_TRANSPORT_DRIVE_H_
#define FUSEWIRE_TRANSPORT_DRIVE_H_

#include <memory>
#include <string>

namespace fusewire {
namespace reactor {
class Reactor;
}  // namespace reactor
namespace transport {

class Connection;
class Fd;

// At home. The way that there always is: epoll.
using DriveByEpoll = std::unique_ptr<Connection> (*)(reactor::Reactor& home, Fd fd, std::string peer_address);
// At home. Null, and *fd is untouched, if it cannot: then `otherwise` does it. A connection that is handed over to
// another home finds it out there anew.
using DriveSocket = std::unique_ptr<Connection> (*)(reactor::Reactor& home, Fd* fd, const std::string& peer_address,
                                                    DriveByEpoll otherwise);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_DRIVE_H_
