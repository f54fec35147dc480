// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/retelling.h"

#include <iterator>
#include <vector>

namespace fusewire::tf {

void Retelling::KeepSession(const tensorflow::CreateWorkerSessionRequest& request) {
  MutexLock lock(mutex_);
  sessions_[request.session_handle()] = request;
}

void Retelling::DropSession(const std::string& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session);
  auto first = graphs_.lower_bound({session, ""}), last = first;
  while (last != graphs_.end() && last->first.first == session) ++last;
  graphs_.erase(first, last);
  for (auto run = partial_runs_.begin(); run != partial_runs_.end();)
    run = run->second.session == session ? partial_runs_.erase(run) : std::next(run);
}

std::string Retelling::KeepGraph(const tensorflow::RegisterGraphRequest& request, const std::string& handle) {
  MutexLock lock(mutex_);
  std::string told = handle;
  while (graphs_.count({request.session_handle(), told}) != 0) told += "+";
  if (told != handle) has_renamed_ = true;
  graphs_[{request.session_handle(), told}] = Graph{request, handle};
  return told;
}

void Retelling::DropGraph(const std::string& session, const std::string& handle) {
  MutexLock lock(mutex_);
  graphs_.erase({session, handle});
}

bool Retelling::IsRenamed(const std::string& session, const std::string& handle, std::string* now) const {
  if (!has_renamed_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  auto found = graphs_.find({session, handle});
  if (found == graphs_.end() || found->second.handle == handle) return false;
  *now = found->second.handle;
  return true;
}

void Retelling::Clear() {
  MutexLock lock(mutex_);
  sessions_.clear();
  graphs_.clear();
}

bool Retelling::KeepPartialRun(const tensorflow::RunGraphRequest& call, uint64_t incarnation) {
  MutexLock lock(mutex_);
  has_had_partial_runs_ = true;
  const auto [run, is_new] = partial_runs_.try_emplace(call.step_id(), PartialRun{call.session_handle(), incarnation});
  return is_new || run->second.incarnation == incarnation;
}

void Retelling::DropPartialRun(int64_t step) {
  if (!has_had_partial_runs_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  partial_runs_.erase(step);
}

// One call after the other: each request and answer lives here.
struct Retelling::Telling {
  Way way;
  Done done;
  std::vector<std::string> sessions;  // left to say, the next one last; likewise
  std::vector<GraphKey> graphs;
  tensorflow::CreateWorkerSessionRequest session;
  tensorflow::CreateWorkerSessionResponse created;
  tensorflow::RegisterGraphRequest graph;
  tensorflow::RegisterGraphResponse registered;
};

void Retelling::Say(Way way, Done done) {
  auto telling = std::make_shared<Telling>();
  telling->way = std::move(way);
  telling->done = std::move(done);
  {
    MutexLock lock(mutex_);
    for (const auto& session : sessions_) telling->sessions.push_back(session.first);
    for (const auto& graph : graphs_) telling->graphs.push_back(graph.first);
  }
  SayNext(telling);
}

void Retelling::SayNext(const TellingPtr& telling) {
  if (!telling->sessions.empty()) return SaySession(telling);
  if (!telling->graphs.empty()) return SayGraph(telling);
  telling->done(TfStatus());
}

void Retelling::SaySession(const TellingPtr& telling) {
  const std::string next = std::move(telling->sessions.back());
  telling->sessions.pop_back();
  {
    MutexLock lock(mutex_);
    auto found = sessions_.find(next);
    telling->session.Clear();
    if (found != sessions_.end()) telling->session = found->second;
  }
  if (telling->session.session_handle().empty()) return SayNext(telling);  // it has ended meanwhile
  telling->way.create_session(&telling->session, &telling->created,
                              [self = shared_from_this(), telling](const TfStatus& status) {
                                if (!status.ok()) return telling->done(status);
                                self->SayNext(telling);
                              });
}

void Retelling::SayGraph(const TellingPtr& telling) {
  const GraphKey next = std::move(telling->graphs.back());
  telling->graphs.pop_back();
  bool is_there = false;
  {
    MutexLock lock(mutex_);
    auto found = graphs_.find(next);
    is_there = found != graphs_.end();
    if (is_there) telling->graph = found->second.request;
  }
  if (!is_there) return SayNext(telling);
  telling->way.register_graph(&telling->graph, &telling->registered,
                              [self = shared_from_this(), telling, next](const TfStatus& status) {
                                if (!status.ok()) return telling->done(status);
                                {
                                  MutexLock lock(self->mutex_);
                                  auto found = self->graphs_.find(next);
                                  if (found != self->graphs_.end())
                                    found->second.handle = telling->registered.graph_handle();
                                  self->has_renamed_ = true;
                                }
                                self->SayNext(telling);
                              });
}

}  // namespace fusewire::tf
