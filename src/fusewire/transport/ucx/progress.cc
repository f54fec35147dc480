// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/progress.h"

#if FUSEWIRE_HAS_UCX

#include <sys/epoll.h>

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr int kProgressMax = 64;
// How often in a row a worker may be too busy to be armed; then it pauses, and the processor is free.
constexpr int kBusyTurnsMax = 100;
constexpr int64_t kBusyPauseNs = kMillisecondNs;

}  // namespace

Status UcxProgress::Watch() {
  FUSEWIRE_CHECK(!watched_);
  FUSEWIRE_CHECK(handles_.open());
  Status watched = home_.Watch(handles_.event_fd(), EPOLLIN, this);
  watched_ = watched.ok();
  if (watched_) Touch();
  return watched;
}

void UcxProgress::Unwatch() {
  if (std::exchange(watched_, false)) home_.Unwatch(handles_.event_fd(), this);
}

bool UcxProgress::Look() {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!std::exchange(inside_, true));
  bool any = false;
  for (int i = 0; i < kProgressMax && handles_.library().ucp_worker_progress(handles_.worker()) > 0; ++i) any = true;
  inside_ = false;
  return any;
}

bool UcxProgress::LookAndDeliver() {
  const bool any = Look();
  handler_.DeliverReady();
  if (!any) return false;
  Touch();
  home_.SetHot(this);
  return true;
}

// At the end of a turn in which something was done here. The loop may park only once UCX has promised to wake it.
void UcxProgress::Flush() {
  if (Look()) home_.SetHot(this);
  if (handler_.DeliverReady() || linked()) {
    Touch();
    return;
  }
  const ucs_status_t armed = handles_.library().ucp_worker_arm(handles_.worker());
  if (armed == UCS_OK) {
    busy_turns_ = 0;
    // Some devices do not wake us for what came between the last look and the promise.
    if (Look()) Touch();
  } else if (++busy_turns_ < kBusyTurnsMax) {
    Touch();
  } else {
    home_.Arm(&again_, kBusyPauseNs);
  }
}

}  // namespace fusewire::transport

#endif
