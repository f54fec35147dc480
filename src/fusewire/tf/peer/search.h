// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The search for the way to a task, by somebody who may give it up: a question for a data port has no deadline, and a
// task that stands still does not answer.
// Home: any thread. Owns: itself, as whoever may still end it does. Fails: as what it asks, or with why it was given
// up.
#ifndef FUSEWIRE_TF_PEER_SEARCH_H_
#define FUSEWIRE_TF_PEER_SEARCH_H_

#include <functional>
#include <memory>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/peer.h"

namespace fusewire {
namespace tf {

class Search : public std::enable_shared_from_this<Search> {
 public:
  // `found` is called once: in Begin, by what is asked, or, after GiveUp, on a thread of its own.
  explicit Search(Routed found) : found_(std::move(found)) {}
  Search(const Search&) = delete;

  // Once. `ask` calls what it is given once, there or later; it is not called when the search was given up before.
  void Begin(const std::function<void(Routed)>& ask);
  // Any thread, at any time, also under a lock that `found` takes: nothing is called from inside.
  void GiveUp(const TfStatus& why);
  // Why it was given up, or ok.
  TfStatus status();

 private:
  void End(const TfStatus& status, LinePtr line);

  Mutex mutex_;
  bool is_waiting_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // Begin has nothing more to do
  TfStatus why_ FUSEWIRE_GUARDED_BY(mutex_);             // it was given up
  Routed found_ FUSEWIRE_GUARDED_BY(mutex_);             // null once it has ended
};
// shared_ptr: what it asks may answer when nobody waits any more.
using SearchPtr = std::shared_ptr<Search>;

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_PEER_SEARCH_H_
