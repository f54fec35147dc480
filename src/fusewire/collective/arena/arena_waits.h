// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Who is told about waits in an arena that last: for those who ask why a job stands.
// Home: the thread that waits. Owns: nothing. Fails: never. It is called only before a rank sleeps, after its spin.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_ARENA_WAITS_H_
#define FUSEWIRE_COLLECTIVE_ARENA_ARENA_WAITS_H_

#include <cstdint>

namespace fusewire {
namespace collective {

class ArenaWaits {
 public:
  // This rank has waited since since_ns for those whose bits are set; again with others as they come; 0: all have come.
  virtual void OnWait(int64_t since_ns, uint64_t missing) = 0;

 protected:
  ~ArenaWaits() = default;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_ARENA_WAITS_H_
