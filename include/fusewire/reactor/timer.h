// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Timer calls a function at its home, once, when it is due. The reactor arms it.
// Home: the reactor's. Owns: its function; it disarms itself when destroyed.
#pragma once

#include <cstdint>
#include <utility>

#include "fusewire/base/list.h"
#include "fusewire/base/unique_function.h"

namespace fusewire::reactor {

class Timer : public ListNode {
 public:
  explicit Timer(UniqueFunction<void()> fire) : fire_(std::move(fire)) {}
  bool armed() const { return linked(); }
  int64_t due_ns() const { return due_ns_; }

 private:
  friend class TimerWheel;
  UniqueFunction<void()> fire_;
  int64_t due_ns_ = 0;
};

}  // namespace fusewire::reactor
