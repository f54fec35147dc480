// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Peers that are not reached over UCX. One that closed when it was greeted does not know our greeting: for a while it
// is a stranger, which is dialled without one. One that could not be reached gets a log line. Home: one reactor. Owns:
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fusewire/base/log.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::transport {

class UcxStrangers {
 public:
  explicit UcxStrangers(const reactor::Reactor& home) : home_(home) {}
  bool Has(const std::string& address) const {
    auto found = until_ns_.find(address);
    return found != until_ns_.end() && home_.now_ns() < found->second;
  }
  void Add(const std::string& address) {
    std::erase_if(until_ns_, [this](const auto& each) { return each.second <= home_.now_ns(); });
    until_ns_[address] = AddNs(home_.now_ns(), kStrangerNs);
  }
  // At most one line in 10 s.
  void LogUnreached(const std::string& peer, const Status& why) {
    uint64_t suppressed = 0;
    if (!log_.Allow(home_.now_ns(), &suppressed)) return;
    FUSEWIRE_LOG(kWarn, "%s is not reached over UCX (%llu more in between): %s", peer.c_str(),
                 static_cast<unsigned long long>(suppressed), why.ToString().c_str());
  }

 private:
  static constexpr int64_t kStrangerNs = 30 * kSecondNs;
  const reactor::Reactor& home_;
  std::map<std::string, int64_t> until_ns_;
  LogLimiter log_{10 * kSecondNs};
};

}  // namespace fusewire::transport
