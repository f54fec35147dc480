// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/gate.h"

#include <utility>

namespace fusewire::tf {

Gate::Cell& Gate::Here() { return cells_[ThreadNumber() % cells_.size()]; }

// Zero, once it is closed: nobody is inside. A call may leave through another cell than it has entered. A sum that is
// read before all of these changes are visible is too large, never too small: every entry was counted before the gate
// closed.
int64_t Gate::inside() const {
  int64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.inside.load();
  return sum;
}

bool Gate::TryEnter() {
  Cell& here = Here();
  here.inside.fetch_add(1);
  // Sequentially consistent, both here and in Close: one of the two sees the other.
  if (is_open()) return true;
  here.inside.fetch_sub(1);
  MutexLock lock(mutex_);
  changed_.NotifyAll();
  return false;
}

bool Gate::Enter(Kept kept) {
  for (;;) {
    if (TryEnter()) return true;
    MutexLock lock(mutex_);
    const State state = state_.load();
    if (state == State::kOpen) continue;
    if (state == State::kClosed) {
      kept_.push_back(std::move(kept));
      return false;
    }
    lock.Unlock();
    kept(false);
    return false;
  }
}

void Gate::Leave() {
  Here().inside.fetch_sub(1);
  if (is_open()) return;
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

bool Gate::Close(int64_t deadline_ns) {
  state_ = State::kClosed;
  bool is_empty = false;
  {
    MutexLock lock(mutex_);
    while (!(is_empty = inside() == 0) && changed_.WaitUntil(mutex_, deadline_ns)) {
    }
  }
  if (!is_empty) Open();
  return is_empty;
}

void Gate::Open() { Release(State::kOpen); }

void Gate::End() { Release(State::kEnded); }

void Gate::Release(State state) {
  std::vector<Kept> kept;
  {
    MutexLock lock(mutex_);
    state_ = state;
    kept.swap(kept_);
  }
  for (const Kept& one : kept) one(state == State::kOpen);
}

}  // namespace fusewire::tf
