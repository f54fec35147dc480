// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Lets one line about each source through per interval, so that neither a scanner nor a broken peer fills a disk, and
// none hides another. Sources are hosts; a few may share a limiter. Home: any thread. Owns: counts.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"

namespace fusewire::pipe {

class SourceLog {
 public:
  // True if a line about this peer may be written; *held_back is then how many were not since the last.
  bool Allow(const std::string& peer_address, int64_t now_ns, uint64_t* held_back) {
    std::string host = peer_address.substr(0, peer_address.rfind(':'));
    return limiters_[std::hash<std::string>()(host) % limiters_.size()].Allow(now_ns, held_back);
  }

 private:
  struct Limiter : LogLimiter {
    Limiter() : LogLimiter(10 * kSecondNs) {}
  };
  std::array<Limiter, 64> limiters_;
};

}  // namespace fusewire::pipe
