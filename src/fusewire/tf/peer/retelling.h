// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What masters of this process have sent to a task, and must send again when it has been restarted with its state: its
// sessions, and the graphs that it has registered. And what can't be sent again: the calls of partial runs.
// Home: any thread. Owns: copies of the requests, until the session or the graph ends. Fails: Say, with its first
// error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class Retelling : public std::enable_shared_from_this<Retelling> {
 public:
  using Done = std::function<void(const TfStatus&)>;

  void KeepSession(const tensorflow::CreateWorkerSessionRequest& request);
  void DropSession(const std::string& session);
  // The task has answered with `handle`. Returns the one for the master: a restarted task may give a handle again that
  // the master knows already.
  std::string KeepGraph(const tensorflow::RegisterGraphRequest& request, const std::string& handle);
  void DropGraph(const std::string& session, const std::string& handle);
  // Whether the task calls the master's graph otherwise now, and how.
  bool IsRenamed(const std::string& session, const std::string& handle, std::string* now) const;
  // The task has not kept its state, or never does.
  void Clear();

  // A call of a partial run goes to the process with this incarnation. False: an earlier one went to another process.
  bool KeepPartialRun(const tensorflow::RunGraphRequest& call, uint64_t incarnation);
  void DropPartialRun(int64_t step);

  // The two calls. Request and answer live until `done`.
  struct Way {
    std::function<void(const tensorflow::CreateWorkerSessionRequest*, tensorflow::CreateWorkerSessionResponse*, Done)>
        create_session;
    std::function<void(const tensorflow::RegisterGraphRequest*, tensorflow::RegisterGraphResponse*, Done)>
        register_graph;
  };
  // Sends all of it, one after the other. `done` is called once.
  void Say(Way way, Done done);

 private:
  struct Graph {
    tensorflow::RegisterGraphRequest request;
    std::string handle;  // now
  };
  struct PartialRun {
    std::string session;
    uint64_t incarnation;
  };
  using GraphKey = std::pair<std::string, std::string>;  // session, and the master's handle
  struct Telling;
  // shared_ptr: std::function wants copies.
  using TellingPtr = std::shared_ptr<Telling>;
  void SayNext(const TellingPtr& telling);
  void SaySession(const TellingPtr& telling);
  void SayGraph(const TellingPtr& telling);

  mutable Mutex mutex_;
  std::map<std::string, tensorflow::CreateWorkerSessionRequest> sessions_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<GraphKey, Graph> graphs_ FUSEWIRE_GUARDED_BY(mutex_);
  std::map<int64_t, PartialRun> partial_runs_ FUSEWIRE_GUARDED_BY(mutex_);  // by step, until it is cleaned up
  // Mostly not: then nobody takes the lock.
  std::atomic<bool> has_renamed_{false}, has_had_partial_runs_{false};
};

}  // namespace fusewire::tf
