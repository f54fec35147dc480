// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an Acceptor counts.
// Home: any, plain values. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_PIPE_ACCEPTOR_STATS_H_
#define FUSEWIRE_PIPE_ACCEPTOR_STATS_H_

#include <cstdint>

namespace fusewire {
namespace pipe {

struct AcceptorStats {
  uint64_t accepted = 0;     // connections
  uint64_t greeted = 0;      // that became pipes
  uint64_t turned_away = 0;  // that did not
  uint64_t superseded = 0;   // pipes closed because their peer came back as another incarnation
  uint64_t open = 0;         // pipes now
};

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_ACCEPTOR_STATS_H_
