// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The observer of long waits in an arena, for `fusewire why`.
// Home: the thread that waits. It is called only before a rank sleeps, after its spin.
#pragma once

#include <cstdint>

namespace fusewire::collective {

class ArenaWaits {
 public:
  // This rank has waited since since_ns for those whose bits are set; again with others as they come; 0: all have come.
  virtual void OnWait(int64_t since_ns, uint64_t missing) = 0;

 protected:
  ~ArenaWaits() = default;
};

}  // namespace fusewire::collective
