// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task holds, as far as its graphs have told. It only grows: what a session has made outlives it.
// Home: any thread. Owns: the names, and the marks of their writers. Fails: never; what can't be copied is the
// obstacle.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/framework/graph.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/state/holding.h"
#include "fusewire/tf/state/marks.h"

namespace fusewire::tf {

class Inventory {
 public:
  // True: the graph has what can't be copied, and it is the first. `is_marked`: who runs it marks what it writes.
  bool Learn(const tensorflow::GraphDef& graph, bool is_marked);
  // True: it is the first.
  bool SetObstacle(const std::string& obstacle);
  // Its marks live as long as the inventory, but for Clear.
  WriteMarks* Add(Holding holding);
  void Clear();  // before there are writers

  std::vector<std::pair<Holding, WriteMarks*>> holdings();
  // Null: no graph has told of it.
  WriteMarks* MarksOf(const Holding& holding);
  // Something was written, and nobody knows what.
  void MarkAll();
  std::string obstacle();  // "the FIFOQueueV2 sync_token_q"; empty: none

 private:
  Mutex mutex_;
  std::map<Holding, std::unique_ptr<WriteMarks>> holdings_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string obstacle_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
