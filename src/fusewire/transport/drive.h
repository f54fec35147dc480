// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a connected and tuned socket becomes a Connection: TCP makes the sockets, and what drives them may be chosen.
#ifndef FUSEWIRE_TRANSPORT_DRIVE_H_
#define FUSEWIRE_TRANSPORT_DRIVE_H_

#include <memory>
#include <string>

#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

class Fd;

// At home. Null, and *fd is untouched, if it cannot: then the next way is taken.
using DriveSocket = std::unique_ptr<Connection> (*)(reactor::Reactor& home, Fd* fd, const std::string& peer_address);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_DRIVE_H_
