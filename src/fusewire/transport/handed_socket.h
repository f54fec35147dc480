// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A connected and tuned socket on its way to the home that will drive it.
#ifndef FUSEWIRE_TRANSPORT_HANDED_SOCKET_H_
#define FUSEWIRE_TRANSPORT_HANDED_SOCKET_H_

#include <memory>
#include <string>
#include <utility>

#include "fusewire/transport/drive.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

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

#endif  // FUSEWIRE_TRANSPORT_HANDED_SOCKET_H_
