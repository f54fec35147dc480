// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which tasks a process serves: those that FUSEWIRE_TASKS names beside its program's own, and those that it serves
// already.
// Home: any thread; a Hosting, its server's. Owns: the names of the tasks that are served. Fails: with FUSEWIRE_TASKS,
// its value and what to write instead. A server is not made with a wrong one, nor without one of its tasks: the cluster
// would wait for those that are missing.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// At the end of an error.
constexpr const char* kSeeHosting = "; see: fusewire explain elastic#many-tasks-in-few-processes";
TfStatus NotHosted(const Status& status);

class Server;

// Until the process ends.
void KeepServer(Server* server);
// The servers of this process that serve a task. They live as long as it.
std::vector<Server*> ServersHere();

// A server's place in its process, beside the other tasks there.
class Hosting {
 public:
  // `home_index`: of the task at whose place in the cluster the process is. `is_guest`: the place of the server's own
  // task is another one's, or was before, and its gRPC port is any.
  Hosting(int home_index, bool is_guest) : home_index_(home_index), is_guest_(is_guest) {}
  ~Hosting() { End(); }
  Hosting(const Hosting&) = delete;

  const std::string& name() const { return name_; }
  int home_index() const { return home_index_; }
  bool is_guest() const { return is_guest_; }
  // That FUSEWIRE_TASKS names, by index. They live as long as the process.
  std::map<int, Server*>& others() { return others_; }

  // A process serves each task once. `name`: of the task, with its address. AlreadyExists: another server does.
  TfStatus Begin(const std::string& name, Server* server);
  // It no longer serves the task, or can't.
  void End();
  bool IsFirstStart() { return !is_started_.exchange(true); }

 private:
  const int home_index_;
  const bool is_guest_;
  std::string name_;  // empty: it serves nothing
  std::map<int, Server*> others_;
  std::atomic<bool> is_started_{false};
};

}  // namespace fusewire::tf
