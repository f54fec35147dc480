// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/uring/uring.h"

#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/transport/uring/ring.h"
#include "fusewire/transport/uring/trial.h"
#include "fusewire/transport/uring/uring_connection.h"

namespace fusewire {
namespace transport {
namespace {

constexpr char kUringKey = 0;  // its address names the resident

void TellThatEpollServes(const Status& why) {
  FUSEWIRE_LOG(kWarn, "TCP runs on epoll instead of io_uring: %s; see docs/problems/doctor.md#wires",
               why.ToString().c_str());
}

// The ring of this home, created for its first connection.
Result<uring::Ring*> RingOf(reactor::Reactor& home) {
  if (home.resident(&kUringKey) == nullptr) {
    Result<std::unique_ptr<uring::Ring>> made = uring::Ring::Make(home, uring::RingOptions());
    if (!made.ok()) return made.status();
    home.Keep(&kUringKey, std::move(made).value());
  }
  return static_cast<uring::Ring*>(home.resident(&kUringKey));
}

std::unique_ptr<Connection> Drive(reactor::Reactor& home, Fd* fd, const std::string& peer_address,
                                  DriveByEpoll otherwise) {
  Result<uring::Ring*> ring = RingOf(home);
  if (ring.ok()) {
    return std::make_unique<uring::UringConnection>(home, *ring.value(), std::move(*fd), peer_address, otherwise);
  }
  static LogLimiter limiter(10 * kSecondNs);
  uint64_t suppressed = 0;
  if (limiter.Allow(home.now_ns(), &suppressed)) TellThatEpollServes(ring.status());
  return nullptr;
}

}  // namespace

Status TryUring() {
  reactor::Options options;
  options.name = "fusewire/try";
  Result<std::unique_ptr<reactor::Reactor>> home = reactor::Reactor::Start(options);
  if (!home.ok()) return home.status();
  return uring::TestRing(*home.value());
}

DriveSocket DriveByUring() {
  // Tried, and logged if it fails, once per process: a server has several transports.
  static const bool works = [] {
    const Status tried = TryUring();
    if (!tried.ok()) TellThatEpollServes(tried);
    return tried.ok();
  }();
  if (works) return &Drive;
  return nullptr;
}

}  // namespace transport
}  // namespace fusewire
