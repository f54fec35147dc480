// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/poller.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "fusewire/base/check.h"

namespace fusewire::reactor {
namespace {

// An event says whose it is: the descriptor below, its generation above. Generation 0 is the wake-up.
uint64_t NameOf(int fd, uint32_t generation) {
  return static_cast<uint64_t>(generation) << 32 | static_cast<uint32_t>(fd);
}
size_t FdOf(const epoll_event& event) { return static_cast<size_t>(event.data.u64 & UINT32_MAX); }
uint32_t GenerationOf(const epoll_event& event) { return static_cast<uint32_t>(event.data.u64 >> 32); }

}  // namespace

bool PolledEvents::Contain(int fd) const {
  return std::any_of(events, events + std::max(count, 0),
                     [fd](const epoll_event& event) { return FdOf(event) == static_cast<size_t>(fd); });
}

Poller::~Poller() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool Poller::Open(int wake_fd) {
  FUSEWIRE_CHECK(epoll_fd_ < 0);
  FUSEWIRE_CHECK(wake_fd >= 0);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return false;
  wake_fd_ = wake_fd;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = NameOf(wake_fd, 0);
  FUSEWIRE_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd, &event) == 0);
  return true;
}

// ---- for handlers ----

Status Poller::Watch(int fd, uint32_t events, FdHandler* handler) {
  FUSEWIRE_CHECK(fd >= 0);
  FUSEWIRE_DCHECK(handler != nullptr);
  if (epoll_fd_ < 0) return Status::Invalid("a manual reactor watches no descriptors");
  auto index = static_cast<size_t>(fd);
  if (watched_.size() <= index) watched_.resize(index + 1);
  FUSEWIRE_CHECK(watched_[index].handler == nullptr);
  if (++generations_ == 0) ++generations_;  // 0 stands for the wake-up descriptor
  epoll_event event = {};
  event.events = events;
  event.data.u64 = NameOf(fd, generations_);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return Status::FromErrno(Code::kOverloaded, "epoll_ctl", errno)
        .Phase("watch descriptor " + std::to_string(fd))
        .Next("raise fs.epoll.max_user_watches or use fewer connections");
  }
  watched_[index] = {handler, generations_};
  watches_.Add();
  return Status::Ok();
}

Poller::Watched& Poller::WatchedAt(int fd, const FdHandler* handler) {
  const auto index = static_cast<size_t>(fd);
  FUSEWIRE_CHECK(index < watched_.size());
  FUSEWIRE_CHECK(watched_[index].handler == handler);
  return watched_[index];
}

void Poller::Rewatch(int fd, uint32_t events, FdHandler* handler) {
  const Watched& watched = WatchedAt(fd, handler);
  epoll_event event = {};
  event.events = events;
  event.data.u64 = NameOf(fd, watched.generation);
  FUSEWIRE_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0);
}

void Poller::Unwatch(int fd, FdHandler* handler) {
  Watched& watched = WatchedAt(fd, handler);
  FUSEWIRE_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr) == 0);
  watched.handler = nullptr;
  ForgetHot(handler);
  FUSEWIRE_DCHECK(watches_.Read() > 0);
  watches_.Set(watches_.Read() - 1);
}

// ---- for the loop ----

void Poller::Wait(PolledEvents* polled, int timeout_ms) const {
  polled->count = epoll_wait(epoll_fd_, polled->events, PolledEvents::kMax, timeout_ms);
  FUSEWIRE_DCHECK(polled->count >= 0 || errno == EINTR);
}

bool Poller::Deliver(const PolledEvents& polled) {
  bool any = false;
  for (int i = 0; i < polled.count; ++i) {
    const epoll_event& event = polled.events[i];
    if (GenerationOf(event) == 0) {
      ReadEvent(wake_fd_);
      continue;
    }
    any = true;
    // A handler of the same batch may have unwatched this one; its descriptor may even have been reused.
    const size_t fd = FdOf(event);
    if (fd < watched_.size() && watched_[fd].handler != nullptr && watched_[fd].generation == GenerationOf(event)) {
      watched_[fd].handler->OnEvents(event.events);
    }
  }
  return any;
}

bool Poller::Poll() {
  looks_ = 0;
  PolledEvents polled;
  Wait(&polled, 0);
  return polled.count > 0 && Deliver(polled);
}

}  // namespace fusewire::reactor
