// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/hosting.h"

#include <absl/strings/str_cat.h>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/status.h"

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

}  // namespace fusewire::tf
