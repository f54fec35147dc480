// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The steps of a graph receive the same tensors from other tasks each time. A ReceiveList keeps them from the first
// step, so that a later step requests all of them when it begins, not when its executor comes to each receive.
// Home: any thread. Owns: the lists of graphs that are registered. Fails: never; a step without a list requests each
// tensor on its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tensorflow/core/framework/allocator.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// Immutable. In the order of the first step.
class ReceiveList {
 public:
  struct Receive {
    std::string key;
    std::string task;    // the source
    std::string device;  // the destination
    tensorflow::AllocatorAttributes attributes;
  };
  explicit ReceiveList(std::vector<Receive> receives);

  const std::vector<Receive>& receives() const { return receives_; }
  // Its index, or -1.
  int Find(std::string_view key) const;

 private:
  const std::vector<Receive> receives_;
  std::unordered_map<std::string_view, int> index_;  // of keys in receives_
};
// shared_ptr: a running step keeps its list after its graph is deregistered.
using ReceiveListPtr = std::shared_ptr<const ReceiveList>;

// Graphs are named by their session and the number that it gave them.
class ReceiveBook {
 public:
  static std::string NameOf(const std::string& session, const std::string& graph) { return session + " " + graph; }

  // Null: no step of the graph has ended.
  ReceiveListPtr Find(const std::string& graph);
  // Adds receives that a step has made and its list lacks.
  void Learn(const std::string& graph, std::vector<ReceiveList::Receive> more);
  void Forget(const std::string& graph);

 private:
  Mutex mutex_;
  std::map<std::string, ReceiveListPtr> lists_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: the rendezvous of a step may outlive its manager.
using ReceiveBookPtr = std::shared_ptr<ReceiveBook>;

}  // namespace fusewire::tf
