// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/loop_requests.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "fusewire/base/check.h"
#include "fusewire/reactor/poller.h"

namespace fusewire::reactor {

LoopRequests::~LoopRequests() {
  FUSEWIRE_DCHECK(!callers_wait());
  for (const int fd : {wake_fd_, kick_fd_}) {
    if (fd >= 0) close(fd);
  }
}

bool LoopRequests::Open() {
  FUSEWIRE_CHECK(wake_fd_ < 0);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  kick_fd_ = wake_fd_ >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  return kick_fd_ >= 0;
}

void LoopRequests::Wake() {
  if (!sleeping_.exchange(false, std::memory_order_seq_cst)) return;
  wakes_.fetch_add(1, std::memory_order_relaxed);
  if (wake_fd_ >= 0) WriteEvent(wake_fd_);
  if (guarded()) WriteEvent(kick_fd_);  // it does not watch the other
}

void LoopRequests::EndWaitingForLoop() {
  const int waited = callers_waiting_.fetch_sub(1, std::memory_order_relaxed);
  FUSEWIRE_DCHECK(waited > 0);
  (void)waited;
}

void LoopRequests::AskDriverToLeave() {
  if (driver_to_leave_.exchange(true, std::memory_order_seq_cst)) return;
  Wake();
}

void LoopRequests::AskToEnd() {
  closing_.store(true, std::memory_order_seq_cst);
  if (wake_fd_ < 0) return;
  WriteEvent(wake_fd_);
  WriteEvent(kick_fd_);
}

void LoopRequests::SetEnded() {
  FUSEWIRE_CHECK(asked_to_end());
  ended_.store(true, std::memory_order_seq_cst);
}

}  // namespace fusewire::reactor
