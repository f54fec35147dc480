// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task moves from one process to another while steps run: docs/elastic.md#moving. The new server asks, the old one
// answers (heads/moves.h), and the snapshot folder says which one has the task. A process that drains asks the others
// to take its tasks: one that is told to end (SIGTERM) does so first. An operator's orders:
//   "adopt ps:3"      take the task over from its snapshots, and serve it beside the process's own
//   "move ps:3 1000"  likewise, from the server that has it, while steps run, which may stand still for that many ms
//   "drain 1000"      move each task of the process to the others
// Home: any thread; what waits says so. Owns: a thread that drains, until the process ends. Fails: with the other
// side's reason; an order, with its text and what to write instead; where tasks stay, the signal does what it would
// have done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/base/status.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/task/task.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/moves.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/receive/step_context.h"
#include "fusewire/tf/snapshot/departure.h"

namespace fusewire::tf {

// The server that serves the task, over the data port that its owner file names. `own` outlives it.
std::unique_ptr<Predecessor> ReachPredecessor(task::Task& own, const Owner& owner, uint64_t taker);
// The called side. The departures outlive it.
rpc::Method HandOverMethod(Departures* departures);

// A server is asked to take a task of its cluster, by index: `take` is called on a thread that may wait.
using TakeHere = std::function<TfStatus(int task_index, int64_t pause_ms_max, std::string* said)>;
// `tasks`: how many the process serves.
rpc::Method TakeTaskMethod(const tensorflow::ServerDef& def, TakeHere take, std::function<size_t()> tasks);
// A thread that may wait. Null: there is no way in time, or, with *is_grpc_only, gRPC is the only one.
ChannelPtr AwaitRoute(const Ways& ways, int64_t limit_ns, bool* is_grpc_only);
// A thread that may wait. Asks the process of one of these to take the task: another process than this one, and of
// those the one with the fewest tasks. What was done, in words.
TfStatus GiveAway(const std::string& task, uint64_t pause_ms_max, const std::vector<Ways>& siblings, std::string* said);

// ---- a process that ends ----

// The same in all servers of this process, and in no other process.
uint64_t ProcessId();

// Once a process; later calls change nothing. `drain` is called on a thread of its own, and must end within limit_ns.
void DrainBeforeTheEnd(int64_t limit_ns, std::function<TfStatus()> drain);
// It has been told to end, or gives its tasks away: it takes none.
bool IsDraining();
class Draining {
 public:
  Draining();
  ~Draining();
  Draining(const Draining&) = delete;
};

// ---- what a process is told ----

// The tasks of the job of `def`.
std::set<int> TasksOf(const tensorflow::ServerDef& def);
// Of `text`, "ps:0,ps:2": the tasks of the server's job, without the server's own. Empty: none. `what` is its name in
// errors.
Result<std::vector<int>> ReadTasks(const std::string& text, const tensorflow::ServerDef& def,
                                   const char* what = "FUSEWIRE_TASKS");

// Each says in `done` what it has done.
struct OrderHandlers {
  std::function<TfStatus(int index, std::string* done)> adopt;
  std::function<TfStatus(int index, int64_t pause_ms_max, std::string* done)> move;
  std::function<TfStatus(int64_t pause_ms_max, std::string* done)> drain;
};
TfStatus CarryOut(const std::string& words, const tensorflow::ServerDef& def, const OrderHandlers& handlers,
                  std::string* done);

}  // namespace fusewire::tf
