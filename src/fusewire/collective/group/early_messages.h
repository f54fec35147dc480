// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The first messages of operations that this rank has not begun: their fingerprints are compared when it does.
// Home: the endpoint's. Owns: the fingerprints, within a bound; one beyond the bound is compared by its receive.
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {

class EarlyMessages {
 public:
  struct Message {
    int seat;
    Fingerprint print;
  };

  void Add(uint64_t tag, const Message& message) {
    if (count_ >= kMessagesMax) return;
    ++count_;
    by_tag_[tag].push_back(message);
  }
  std::vector<Message> Take(uint64_t tag) {
    const auto found = by_tag_.find(tag);
    if (found == by_tag_.end()) return {};
    std::vector<Message> messages = std::move(found->second);
    by_tag_.erase(found);
    FUSEWIRE_CHECK(count_ >= messages.size());
    count_ -= messages.size();
    return messages;
  }
  void Clear() {
    by_tag_.clear();
    count_ = 0;
  }

 private:
  static constexpr size_t kMessagesMax = 64 * 1024;
  std::unordered_map<uint64_t, std::vector<Message>> by_tag_;
  size_t count_ = 0;  // of all tags
};

}  // namespace fusewire::collective
