// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/hosting.h"

#include <set>

#include <absl/strings/str_cat.h>

#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/server/moving.h"
#include "fusewire/tf/server/server.h"

namespace fusewire::tf {
namespace {

struct ServedTasks {
  Mutex mutex;
  std::map<std::string, Server*> by_name FUSEWIRE_GUARDED_BY(mutex);
  std::vector<Server*> kept FUSEWIRE_GUARDED_BY(mutex);
};

ServedTasks& AllServedTasks() {
  static auto* served = new ServedTasks;
  return *served;
}

}  // namespace

void KeepServer(Server* server) {
  ServedTasks& served = AllServedTasks();
  MutexLock lock(served.mutex);
  served.kept.push_back(server);
}

TfStatus NotHosted(const Status& status) {
  const TfStatus told = ToTf(status);
  return TfStatus(told.code(), absl::StrCat("fusewire: ", told.message(), kSeeHosting));
}

std::vector<Server*> ServersHere() {
  std::vector<Server*> servers;
  ServedTasks& served = AllServedTasks();
  MutexLock lock(served.mutex);
  for (const auto& one : served.by_name) servers.push_back(one.second);
  return servers;
}

TfStatus DrainServers(int64_t pause_ms_max, std::string* done) {
  const Draining draining;
  std::string failed;
  for (Server* server : ServersHere()) {
    std::string said;
    const TfStatus given = server->GiveAwayTask(pause_ms_max, &said);
    if (given.ok()) absl::StrAppend(done, done->empty() ? "" : "; ", said);
    if (!given.ok()) absl::StrAppend(&failed, failed.empty() ? "" : "; ", given.message());
  }
  if (!failed.empty()) return absl::FailedPreconditionError(failed);
  if (done->empty()) *done = "this process serves no task";
  return TfStatus();
}

TfStatus Hosting::Begin(const std::string& name, Server* server) {
  ServedTasks& served = AllServedTasks();
  MutexLock lock(served.mutex);
  if (!served.by_name.emplace(name, server).second) {
    return absl::AlreadyExistsError(absl::StrCat(
        "fusewire: this process has a server for ", name,
        " already, made by its program or as FUSEWIRE_TASKS says; next: make one server for it", kSeeHosting));
  }
  name_ = name;
  return TfStatus();
}

void Hosting::End() {
  ServedTasks& served = AllServedTasks();
  MutexLock lock(served.mutex);
  served.by_name.erase(name_);
  name_.clear();
}

TfStatus Hosting::Make(const tensorflow::ServerDef& def, const std::vector<int>& others) {
  std::string names;
  for (int index : others) {
    Server* other = nullptr;
    TfStatus hosted = Server::Host(def, index, Server::GrpcPort::kOfCluster, &other);
    if (absl::IsAlreadyExists(hosted)) continue;
    if (!hosted.ok()) {
      for (const auto& made : others_) made.second->hosting().End();
      others_.clear();
      return hosted;
    }
    others_[index] = other;
    absl::StrAppend(&names, names.empty() ? "" : ", ", def.job_name(), ":", index);
  }
  if (!names.empty()) FUSEWIRE_LOG(kInfo, "%s: its process serves %s too", name_.c_str(), names.c_str());
  return TfStatus();
}

TfStatus Hosting::Start() {
  for (const auto& other : others_) TF_RETURN_IF_ERROR(other.second->Start());
  return TfStatus();
}

TfStatus Hosting::Update(const tensorflow::ServerDef& def) {
  const std::set<int> known = TasksOf(def);
  for (const auto& [index, other] : others_) {
    if (known.count(index) == 0) continue;
    tensorflow::ServerDef its = def;
    its.set_task_index(index);
    its.clear_port();
    TF_RETURN_IF_ERROR(other->UpdateServerDef(its));
  }
  return TfStatus();
}

}  // namespace fusewire::tf
