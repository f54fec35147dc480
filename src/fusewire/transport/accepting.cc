// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/accepting.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

namespace fusewire::transport {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr int64_t kRestNs = 100 * kMillisecondNs;

}  // namespace

Accepting::Accepting(reactor::Reactor& home, Fd fd, const Address& address, OnAccepted on_accepted)
    : home_(home),
      fd_(std::move(fd)),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      address_(address),
      on_accepted_(std::move(on_accepted)),
      resume_([this] { home_.Rewatch(fd_.get(), EPOLLIN, this); }) {}

Accepting::~Accepting() {
  if (watched_) home_.Unwatch(fd_.get(), this);
}

Status Accepting::Start() {
  Status watched = home_.Watch(fd_.get(), EPOLLIN, this);
  watched_ = watched.ok();
  return watched;
}

void Accepting::OnEvents(uint32_t) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    SocketAddress peer;
    peer.length = sizeof(peer.storage);
    Fd fd(accept4(fd_.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      on_accepted_(std::move(fd), peer);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      TurnAwaySome();
      return;
    }
    // Anything else is the fault of one connection (it was reset while it waited): go on with the next.
  }
}

// Connections that wait because no descriptor is left would keep epoll busy for ever, and their diallers would not
// learn why.
void Accepting::TurnAwaySome() {
  int error = errno;
  uint64_t suppressed = 0;
  if (full_log_.Allow(home_.now_ns(), &suppressed)) {
    FUSEWIRE_LOG(
        kError,
        "listener %s turns connections away: %s (%llu more lines held back); raise the limit of open files (ulimit -n)",
        address_.ToString().c_str(), Status::FromErrno(Code::kOverloaded, "accept", error).cause().c_str(),
        static_cast<unsigned long long>(suppressed));
  }
  spare_.Close();
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Fd turned_away(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!turned_away.valid()) break;
  }
  spare_ = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  home_.Rewatch(fd_.get(), 0, this);
  home_.Arm(&resume_, kRestNs);
}

}  // namespace fusewire::transport
