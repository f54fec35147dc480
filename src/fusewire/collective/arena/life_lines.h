// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Descriptors that end when another rank does. They are polled, never read.
// Home: its rank's thread. Owns: the descriptors. Fails: Check, if a rank has none.
#pragma once

#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire::collective {

class LifeLines {
 public:
  // One for each rank, -1 for this one. They are closed in any case.
  explicit LifeLines(std::vector<int> lives);
  ~LifeLines();
  LifeLines(const LifeLines&) = delete;
  LifeLines& operator=(const LifeLines&) = delete;

  // Ok, or an error that names a rank without one.
  Status Check(int own, int ranks) const;
  bool HasEnded(int rank) const;
  // Returns once that rank has ended, or after so long.
  void AwaitEnd(int rank, int64_t patience_ns) const;

 private:
  bool Look(int rank, int timeout_ms) const;

  const std::vector<int> lives_;
  std::vector<int16_t> events_;  // for each, the poll events that mean its end
};

}  // namespace fusewire::collective
