// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What only a later group of the same place uses is computed there: otherwise its results would be kept for it, one by
// one.
#include "fusewire/tf/star/cut/grouping.h"

#include <algorithm>
#include <climits>

namespace fusewire::tf {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

class Postponer {
 public:
  Postponer(const std::function<bool(const Edge*)>& is_copied, std::vector<Placed>* placed)
      : is_copied_(is_copied), placed_(*placed) {}

  void Look(const Node* node) {
    const int round = LastRound(node);
    if (round > Of(node).round && IsCheaperIn(round, node)) Of(node).round = round;
  }

 private:
  Placed& Of(const Node* node) const { return placed_[static_cast<size_t>(node->id())]; }

  // The last in which it would be in time. Its own if it may not move: others would see when it ran.
  int LastRound(const Node* node) const {
    const Placed& placed = Of(node);
    const bool is_pure = !node->op_def().is_stateful() && !node->IsControlFlow();
    if (placed.place == Placed::kNowhere || !placed.may_move || !is_pure) return placed.round;
    int last = INT_MAX;
    for (const Edge* edge : node->out_edges()) {
      if (!edge->dst()->IsOp()) continue;
      if (edge->IsControlEdge() || Of(edge->dst()).place != placed.place) return placed.round;
      last = std::min(last, Of(edge->dst()).round);
    }
    return last == INT_MAX ? placed.round : last;
  }

  // No tensor is sent twice, and no more values are kept than before.
  bool IsCheaperIn(int round, const Node* node) const {
    std::set<int> kept_before;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst()->IsOp()) kept_before.insert(edge->src_output());
    }
    size_t kept = 0;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->src()->IsOp() || is_copied_(edge)) continue;
      if (edge->IsControlEdge()) return false;
      const Placed& from = Of(edge->src());
      const bool is_near = from.place == Of(node).place;
      if (!is_near && OthersUse(edge, 0, round - 1)) return false;
      if (is_near && from.round < round && !OthersUse(edge, from.round + 1, INT_MAX)) ++kept;
    }
    return kept <= kept_before.size();
  }

  // Whether another node of the same place takes this tensor in one of these rounds.
  bool OthersUse(const Edge* by, int first, int last) const {
    const auto& edges = by->src()->out_edges();
    return std::any_of(edges.begin(), edges.end(), [&](const Edge* edge) {
      if (edge->src_output() != by->src_output() || !edge->dst()->IsOp() || edge->dst() == by->dst()) return false;
      const Placed& other = Of(edge->dst());
      return other.place == Of(by->dst()).place && other.round >= first && other.round <= last;
    });
  }

  const std::function<bool(const Edge*)>& is_copied_;
  std::vector<Placed>& placed_;
};

}  // namespace

void Postpone(const std::vector<Node*>& order, const std::function<bool(const Edge*)>& is_copied,
              std::vector<Placed>* placed) {
  Postponer postponer(is_copied, placed);
  for (auto node = order.rbegin(); node != order.rend(); ++node) postponer.Look(*node);
}

}  // namespace fusewire::tf
