// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task moves from one process to another while steps run: docs/elastic.md#moving. The new server asks, the old one
// answers (heads/moves.h), and the snapshot folder says whose the task is. A process that drains asks the others to
// take its tasks.
// Home: any thread; what waits says so. Owns: nothing. Fails: with the other side's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
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

}  // namespace fusewire::tf
