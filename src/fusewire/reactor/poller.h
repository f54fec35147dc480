// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Poller asks the kernel for input: the descriptors that a home watches, and the handler that input came from last.
// Home: the reactor's; its functions are called through Home and Loop, which check that. Owns: an epoll and the table
//   of handlers. Not the descriptors, nor the handlers. Fails: Open with errno; Watch says why.
// Invariants: a descriptor has one handler at most; each time that one is watched it gets a generation of its own, so
//   that an event that was fetched before it was unwatched reaches nobody. The hot handler is one that is watched, or
//   another that its setter forgets before it dies.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "fusewire/base/metrics.h"
#include "fusewire/base/status.h"

namespace fusewire::reactor {

// Something with a file descriptor. Its holder unwatches it before it closes the descriptor or dies.
class FdHandler {
 public:
  virtual void OnEvents(uint32_t epoll_events) = 0;  // at home
  // At home, while the loop spins: look for input without asking epoll. True if there was some.
  virtual bool PollNow() { return false; }

 protected:
  ~FdHandler() = default;
};

// ---- a non-blocking eventfd as a bell: it rings until it is read ----

inline void WriteEvent(int fd) {
  const uint64_t one = 1;
  const ssize_t written = write(fd, &one, sizeof(one));
  (void)written;  // full means that it is readable already
}

inline void ReadEvent(int fd) {
  uint64_t count = 0;
  const ssize_t got = read(fd, &count, sizeof(count));
  (void)got;  // empty means that another thread was faster
}

// ---- epoll ----

// The events of one wait in epoll. `count` is less than 0 if a signal interrupted it.
struct PolledEvents {
  static constexpr int kMax = 64;
  bool Contain(int fd) const;
  int count = 0;
  epoll_event events[kMax];
};

class Poller {
 public:
  Poller() = default;
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  ~Poller();

  // Makes the epoll, with an eventfd in it that wakes a waiting thread. False: with errno. Without it nothing can be
  // watched.
  bool Open(int wake_fd);
  bool is_open() const { return epoll_fd_ >= 0; }
  // A descriptor that another epoll may watch for input here.
  int fd() const { return epoll_fd_; }

  // ---- for handlers, at home ----
  Status Watch(int fd, uint32_t events, FdHandler* handler);
  void Rewatch(int fd, uint32_t events, FdHandler* handler);
  void Unwatch(int fd, FdHandler* handler);
  void SetHot(FdHandler* handler) {
    hot_talks_alone_ = hot_ == handler;
    hot_ = handler;
  }
  void ForgetHot(FdHandler* handler) {
    if (hot_ != handler) return;
    hot_ = nullptr;
    hot_talks_alone_ = false;
  }
  // Any thread.
  uint64_t watched() const { return watches_.Read(); }

  // ---- for the loop ----
  // Any thread: waits for events, and calls nobody. timeout_ms as epoll_wait.
  void Wait(PolledEvents* polled, int timeout_ms) const;
  // At home: calls the handlers of these events. True if there were any but the wake-up.
  bool Deliver(const PolledEvents& polled);
  // At home: asks for all descriptors, without waiting. True if any had events.
  bool Poll();
  // At home: the hot handler alone. True if it had input.
  bool PollHot() { return hot_ != nullptr && hot_->PollNow(); }
  // At home: whether the last input and the one before came from the same handler.
  bool hot_talks_alone() const { return hot_talks_alone_; }
  // At home. Counts a look at anything but epoll; true once in `looks_max`: then epoll should be asked too.
  bool IsDue(int looks_max) { return ++looks_ >= looks_max; }
  void ForgetLooks() { looks_ = 0; }

 private:
  struct Watched {
    FdHandler* handler = nullptr;
    uint32_t generation = 0;
  };
  Watched& WatchedAt(int fd, const FdHandler* handler);

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::vector<Watched> watched_;  // by descriptor
  uint32_t generations_ = 0;
  FdHandler* hot_ = nullptr;
  bool hot_talks_alone_ = false;
  int looks_ = 0;  // since epoll was asked
  Counter watches_;
};

}  // namespace fusewire::reactor
