// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What the steps of a graph receive from other tasks is the same each time. A Plan remembers it from the first step, so
// that every later one asks for all of it when it begins, and not when its executor comes to each receive.
// Home: any thread. Owns: the plans of graphs that are registered. Fails: never; a step without a plan asks as it goes.
#ifndef FUSEWIRE_TF_RECEIVE_PLANS_H_
#define FUSEWIRE_TF_RECEIVE_PLANS_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tensorflow/core/framework/allocator.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire {
namespace tf {

// Immutable. The order is that of the first step.
class Plan {
 public:
  struct Receive {
    std::string key;
    std::string task;    // that it comes from
    std::string device;  // that it goes to
    tensorflow::AllocatorAttributes attributes;
  };
  explicit Plan(std::vector<Receive> receives);

  const std::vector<Receive>& receives() const { return receives_; }
  // Its index, or -1.
  int Find(std::string_view key) const;

 private:
  const std::vector<Receive> receives_;
  std::unordered_map<std::string_view, int> index_;  // of keys in receives_
};
// shared_ptr: a step that runs keeps its plan when the graph goes.
using PlanPtr = std::shared_ptr<const Plan>;

// Graphs are named by their session and the number that it gave them.
class PlanBook {
 public:
  static std::string NameOf(const std::string& session, const std::string& graph) { return session + " " + graph; }

  // Null: nothing is known of the graph.
  PlanPtr Find(const std::string& graph);
  // A step has met `more` that its plan did not have.
  void Learn(const std::string& graph, std::vector<Plan::Receive> more);
  void Forget(const std::string& graph);

 private:
  Mutex mutex_;
  std::map<std::string, PlanPtr> plans_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: the rendezvous of a step may outlive its manager.
using PlanBookPtr = std::shared_ptr<PlanBook>;

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_RECEIVE_PLANS_H_
