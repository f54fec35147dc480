// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task holds, as far as its graphs have told. It only grows: what a session has made outlives it.
// Home: any thread. Owns: the names. Fails: never; what can't be copied is the obstacle.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/framework/graph.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/state/holding.h"

namespace fusewire::tf {

class Inventory {
 public:
  // True: the graph has what can't be copied, and it is the first.
  bool Learn(const tensorflow::GraphDef& graph);
  // True: it is the first.
  bool SetObstacle(const std::string& obstacle);
  void Add(Holding holding);
  void Clear();

  std::vector<Holding> holdings();
  std::string obstacle();  // "the FIFOQueueV2 sync_token_q"; empty: none

 private:
  Mutex mutex_;
  std::set<Holding> holdings_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string obstacle_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
