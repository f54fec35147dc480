// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a connected and tuned socket becomes a Connection: TCP makes the sockets, and what drives them may be chosen.
#ifndef FUSEWIRE_TRANSPORT_DRIVE_H_
#define FUSEWIRE_TRANSPORT_DRIVE_H_

#include <memory>
#include <string>
#include <utility>

#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

// At home. The way that there always is: epoll.
using DriveByEpoll = std::unique_ptr<Connection> (*)(reactor::Reactor& home, Fd fd, std::string peer_address);
// At home. Null, and *fd is untouched, if it cannot: then `otherwise` does it. A connection that is handed over to
// another home finds it out there anew.
using DriveSocket = std::unique_ptr<Connection> (*)(reactor::Reactor& home, Fd* fd, const std::string& peer_address,
                                                    DriveByEpoll otherwise);

// A connected and tuned socket without a home.
class HandedSocket final : public Incoming {
 public:
  HandedSocket(Fd fd, std::string peer_address, DriveSocket drive, DriveByEpoll otherwise)
      : fd_(std::move(fd)), peer_address_(std::move(peer_address)), drive_(drive), otherwise_(otherwise) {}
  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override {
    std::unique_ptr<Connection> driven;
    if (drive_ != nullptr) driven = drive_(home, &fd_, peer_address_, otherwise_);
    if (driven == nullptr) driven = otherwise_(home, std::move(fd_), peer_address_);
    return driven;
  }
  const std::string& peer_address() const override { return peer_address_; }

 private:
  Fd fd_;
  const std::string peer_address_;
  const DriveSocket drive_;
  const DriveByEpoll otherwise_;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_DRIVE_H_
