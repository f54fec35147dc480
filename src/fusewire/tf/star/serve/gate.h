// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Lets calls that may change what a task holds pass, until the task is handed to another process: then it closes, waits
// for those inside, and keeps those that come. They go on if it opens again, and end if it never does.
// Home: any thread; Close, Open and End: one at a time. Owns: the calls that it keeps. Fails: Close, if one inside does
// not end in time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class Gate {
 public:
  // Of a call that was kept. `may_enter` false: it has to end, since the task is elsewhere.
  using Kept = std::function<void(bool may_enter)>;

  // True: the call is inside, until Leave.
  bool TryEnter();
  // Likewise. False: it is kept, and called later, once, on the thread of Open or End.
  bool Enter(Kept kept);
  void Leave();

  // Afterwards nobody is inside, and nobody enters. False: somebody was by then, and the gate is open again.
  bool Close(int64_t deadline_ns);
  void Open();
  // Instead of Open: all calls have to end, now and later.
  void End();
  bool is_open() const { return state_.load() == State::kOpen; }

 private:
  enum class State { kOpen, kClosed, kEnded };
  // Threads that enter at the same time seldom share one.
  struct alignas(64) Cell {
    std::atomic<int64_t> inside{0};
  };
  Cell& Here();
  int64_t inside() const;
  void Release(State state);

  std::atomic<State> state_{State::kOpen};
  std::array<Cell, 16> cells_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Kept> kept_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
