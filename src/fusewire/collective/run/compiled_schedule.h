// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A schedule prepared for its run: its steps as nodes, in the order in which they begin, with their dependencies.
// Home: any thread, plain values. Owns: the schedule. Fails: Make, with kInvalid, as Compile in schedule_builder.h.
// Nodes are in the order of their stages; a node enables only later nodes, and `needs` is the number of nodes that
// enable it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

class CompiledSchedule {
 public:
  struct Node {
    const Step* step = nullptr;
    uint32_t stage = 0;
    uint32_t needs = 0;             // the ends and postings of other nodes that it waits for
    std::vector<uint32_t> enables;  // nodes that wait for its end
    int64_t next_posted = -1;       // the node that waits for it to be posted
    bool opens = false;             // the first message with its peer
  };

  static Result<CompiledSchedule> Make(const Request& request);
  // Not copied: nodes point to steps.
  CompiledSchedule(CompiledSchedule&&) = default;
  CompiledSchedule& operator=(CompiledSchedule&&) = delete;
  CompiledSchedule(const CompiledSchedule&) = delete;
  CompiledSchedule& operator=(const CompiledSchedule&) = delete;
  ~CompiledSchedule() = default;

  const Request& request() const { return request_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // The number of nodes of each stage.
  const std::vector<uint32_t>& stage_nodes() const { return stage_nodes_; }
  // The number of stages after the first unfinished one that may begin.
  size_t window() const { return window_; }
  size_t scratch_count() const { return schedule_.scratch_count; }  // elements
  bool ReceivesFrom(int rank) const {
    FUSEWIRE_DCHECK(static_cast<size_t>(rank) < receives_from_.size());
    return receives_from_[static_cast<size_t>(rank)];
  }

 private:
  CompiledSchedule(const Request& request, Schedule schedule);
  void Flatten();
  void FindNeeds();
  void ChainMessages();
  void Need(size_t node, size_t before);
  void CheckNeeds() const;

  Request request_;
  Schedule schedule_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> stage_nodes_;
  std::vector<bool> receives_from_;
  size_t window_ = 0;
};

// Nodes, by their index, in the order in which they came.
class NodeQueue {
 public:
  bool empty() const { return nodes_.empty(); }
  size_t front() const {
    FUSEWIRE_DCHECK(!empty());
    return nodes_[at_];
  }
  void Push(size_t node) { nodes_.push_back(static_cast<uint32_t>(node)); }
  void Pop() {
    if (++at_ == nodes_.size()) Clear();
  }
  void Clear() {
    nodes_.clear();
    at_ = 0;
  }

 private:
  std::vector<uint32_t> nodes_;
  size_t at_ = 0;  // of the first, which exists unless it is empty
};

// The nodes of a compiled schedule that may begin now, in one run.
// A node is given out once in a run: when all its needs have ended or been posted, and at most a window of stages lies
// between it and the first unfinished stage.
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
  NodeQueue ready_;
  size_t nodes_left_ = 0;
};

inline std::optional<size_t> StepOrder::TakeNext() {
  if (ready_.empty()) return std::nullopt;
  const size_t next = ready_.front();
  ready_.Pop();
  return next;
}

// All its needs are met. It still waits if its stage is too far ahead.
inline void StepOrder::Release(size_t node) {
  FUSEWIRE_DCHECK(left_[node] == 0);
  const size_t stage = compiled_.nodes()[node].stage;
  if (stage > open_stage_ + compiled_.window()) {
    late_[stage].push_back(static_cast<uint32_t>(node));
  } else {
    ready_.Push(node);
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
