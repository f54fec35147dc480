// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A search for the way to a task that can be cancelled: a request for a data port has no deadline, and a task that
// hangs does not answer.
// Home: any thread. Owns: itself, shared with all that may still end it. Fails: as its request, or with the reason of
// GiveUp.
#pragma once

#include <functional>
#include <memory>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/peer.h"

namespace fusewire::tf {

class Search : public std::enable_shared_from_this<Search> {
 public:
  // `found` is called once: in Begin, by the request's answer, or, after GiveUp, on another thread.
  explicit Search(Routed found) : found_(std::move(found)) {}
  Search(const Search&) = delete;

  // Once. `ask` calls its argument once, inside or later; it is not called if the search was given up before.
  void Begin(const std::function<void(Routed)>& ask);
  // Any thread, at any time, even under a lock that `found` takes: it calls nothing inside.
  void GiveUp(const TfStatus& why);
  // The reason if it was given up, otherwise ok.
  TfStatus status();

 private:
  void End(const TfStatus& status, ChannelPtr channel);

  Mutex mutex_;
  bool is_waiting_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // Begin has returned, or is about to
  TfStatus why_ FUSEWIRE_GUARDED_BY(mutex_);             // not ok: it was given up
  Routed found_ FUSEWIRE_GUARDED_BY(mutex_);             // null once it has ended
};
// shared_ptr: the answer may come after all waiters have left.
using SearchPtr = std::shared_ptr<Search>;

}  // namespace fusewire::tf
