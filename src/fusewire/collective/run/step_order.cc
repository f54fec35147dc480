// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/run/step_order.h"

#include "fusewire/base/check.h"

namespace fusewire::collective {

void StepOrder::Begin() {
  stage_left_ = compiled_.stage_nodes();
  open_stage_ = 0;
  for (auto& late : late_) late.clear();
  ready_.clear();
  ready_at_ = 0;
  nodes_left_ = left_.size();
  for (size_t i = 0; i < left_.size(); ++i) left_[i] = compiled_.nodes()[i].needs;
  for (size_t i = 0; i < left_.size(); ++i) {
    if (left_[i] == 0) Release(i);
  }
}

void StepOrder::OnEnded(size_t node) {
  const CompiledSchedule::Node& ended = compiled_.nodes()[node];
  FUSEWIRE_DCHECK(left_[node] == 0);
  FUSEWIRE_DCHECK(nodes_left_ > 0);
  FUSEWIRE_DCHECK(stage_left_[ended.stage] > 0);
  --nodes_left_;
  for (const uint32_t enabled : ended.enables) Meet(enabled);
  --stage_left_[ended.stage];
  while (open_stage_ < stage_left_.size() && stage_left_[open_stage_] == 0) {
    ++open_stage_;
    const size_t opened = open_stage_ + compiled_.window();
    if (opened >= late_.size()) continue;
    ready_.insert(ready_.end(), late_[opened].begin(), late_[opened].end());
    late_[opened].clear();
  }
}

}  // namespace fusewire::collective
