// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a server's process is told to serve: by FUSEWIRE_TASKS, and by an operator's orders; docs/elastic.md has the
// words.
//   "adopt ps:3"      take the task over from its snapshots, and serve it beside the process's own
//   "move ps:3 1000"  likewise, from the server that has it, while steps run; they may stand still for so many ms
//   "drain 1000"      move each task of the process to the others
// Home: any thread that may wait. Fails: with what was said, and what to say instead, or why it was not done.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/base/status.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// The tasks of the job of `def`.
std::set<int> TasksOf(const tensorflow::ServerDef& def);
// Of `text`, "ps:0,ps:2": the tasks of the server's job, without the server's own. Empty: none. `what` says it.
Result<std::vector<int>> ReadTasks(const std::string& text, const tensorflow::ServerDef& def,
                                   const char* what = "FUSEWIRE_TASKS");

// Each says in `done` what it has done.
struct Obedience {
  std::function<TfStatus(int index, std::string* done)> adopt;
  std::function<TfStatus(int index, int64_t pause_ms_max, std::string* done)> move;
  std::function<TfStatus(int64_t pause_ms_max, std::string* done)> drain;
};
TfStatus Obey(const std::string& words, const tensorflow::ServerDef& def, const Obedience& obedience,
              std::string* done);

}  // namespace fusewire::tf
