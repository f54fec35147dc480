// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The nodes of a compiled schedule that may begin now, in one run.
// Home: the runner's. Owns: the number of needs that each node still waits for.
// A node is given out once in a run: when all its needs have ended or been posted, and at most a window of stages lies
// between it and the first unfinished stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/run/compiled_schedule.h"

namespace fusewire::collective {

class StepOrder {
 public:
  // `compiled` outlives it.
  explicit StepOrder(const CompiledSchedule& compiled)
      : compiled_(compiled), left_(compiled.nodes().size()), late_(compiled.stage_nodes().size()) {}

  void Begin();
  std::optional<size_t> TakeNext();
  // The next message of the same peer may be posted.
  void OnPosted(size_t node);
  void OnEnded(size_t node);
  bool all_ended() const { return nodes_left_ == 0; }

 private:
  void Meet(size_t node);
  void Release(size_t node);

  const CompiledSchedule& compiled_;
  std::vector<uint32_t> left_;  // by node: needs that have not been met
  std::vector<uint32_t> stage_left_;
  size_t open_stage_ = 0;
  std::vector<std::vector<uint32_t>> late_;  // released, but too many stages ahead
  std::vector<uint32_t> ready_;
  size_t ready_at_ = 0;
  size_t nodes_left_ = 0;
};

inline std::optional<size_t> StepOrder::TakeNext() {
  if (ready_at_ < ready_.size()) return ready_[ready_at_++];
  ready_.clear();
  ready_at_ = 0;
  return std::nullopt;
}

// All its needs are met. It still waits if its stage is too far ahead.
inline void StepOrder::Release(size_t node) {
  FUSEWIRE_DCHECK(left_[node] == 0);
  const size_t stage = compiled_.nodes()[node].stage;
  if (stage > open_stage_ + compiled_.window()) {
    late_[stage].push_back(static_cast<uint32_t>(node));
  } else {
    ready_.push_back(static_cast<uint32_t>(node));
  }
}

inline void StepOrder::Meet(size_t node) {
  FUSEWIRE_DCHECK(left_[node] > 0);
  if (--left_[node] == 0) Release(node);
}

inline void StepOrder::OnPosted(size_t node) {
  const int64_t next = compiled_.nodes()[node].next_posted;
  FUSEWIRE_DCHECK(left_[node] == 0);
  if (next >= 0) Meet(static_cast<size_t>(next));
}

}  // namespace fusewire::collective
