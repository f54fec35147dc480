// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The tags of operations that have failed here: later messages with such a tag are refused with the reason, and those
// that were kept unexpectedly are discarded.
// Home: the endpoint's. Owns: the last 4,096 reasons, and the receives that discard messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>

#include "fusewire/base/status.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/drain.h"

namespace fusewire::collective {

class FailedTags {
 public:
  // `under_way` counts the receives that have not ended.
  FailedTags(p2p::Endpoint& endpoint, reactor::Drain* under_way) : endpoint_(endpoint), under_way_(under_way) {}

  void Add(uint64_t tag, const Status& why);
  // Null: no operation has failed here under this tag.
  const Status* Find(uint64_t tag) const;
  void Clear();

 private:
  void ThrowAway(uint64_t tag);
  void PostToThrowAway(p2p::ReceiveOp* receive);

  p2p::Endpoint& endpoint_;
  reactor::Drain* const under_way_;
  std::unordered_map<uint64_t, Status> reasons_;
  std::deque<uint64_t> order_;  // the tags of reasons_, the oldest first
  std::list<std::unique_ptr<p2p::ReceiveOp>> receives_;
};

}  // namespace fusewire::collective
