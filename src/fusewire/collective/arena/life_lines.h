// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Descriptors that end when another rank does. They are asked, never read.
// Home: its rank's thread. Owns: the descriptors. Fails: Make, where a rank has none.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_LIFE_LINES_H_
#define FUSEWIRE_COLLECTIVE_ARENA_LIFE_LINES_H_

#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"

namespace fusewire {
namespace collective {

class LifeLines {
 public:
  // Of each rank; -1 for `own`. They are closed whatever happens.
  explicit LifeLines(std::vector<int> lives);
  ~LifeLines();
  LifeLines(const LifeLines&) = delete;
  LifeLines& operator=(const LifeLines&) = delete;

  // Ok, or which rank has none.
  Status Check(int own, int ranks) const;
  bool HasEnded(int rank) const;

 private:
  const std::vector<int> lives_;
  std::vector<int16_t> events_;  // which events of each say that it ended
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_LIFE_LINES_H_
