// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which nodes of a compiled schedule may begin now, in one run.
// Home: the runner's. Owns: what each node still needs. Fails: never.
// A node is given out once in a run: when all that it needs has ended or been posted, and no more than a window of
// stages lies between it and the first stage that has not ended.
#ifndef FUSEWIRE_COLLECTIVE_RUN_STEP_ORDER_H_
#define FUSEWIRE_COLLECTIVE_RUN_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fusewire/collective/run/compiled_schedule.h"

namespace fusewire {
namespace collective {

class StepOrder {
 public:
  // `compiled` outlives it.
  explicit StepOrder(const CompiledSchedule& compiled)
      : compiled_(compiled), left_(compiled.nodes().size()), late_(compiled.stage_nodes().size()) {}

  void Begin(bool hurried);
  // Something more urgent is under way: hold back.
  void SetHurried(bool hurried) { hurried_ = hurried; }
  std::optional<size_t> TakeNext();
  // The next message of the same peer may be posted.
  void OnPosted(size_t node);
  void OnEnded(size_t node);
  bool all_ended() const { return nodes_left_ == 0; }

 private:
  size_t window() const;
  void Meet(size_t node);
  void Release(size_t node);

  const CompiledSchedule& compiled_;
  std::vector<uint32_t> left_;  // of what each node needs
  std::vector<uint32_t> stage_left_;
  size_t open_stage_ = 0;
  std::vector<std::vector<uint32_t>> late_;  // released, but too many stages ahead
  std::vector<uint32_t> ready_;
  size_t ready_at_ = 0;
  size_t nodes_left_ = 0;
  bool hurried_ = false;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_RUN_STEP_ORDER_H_
