// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/hosting.h"

#include <algorithm>
#include <set>

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/server/server.h"

namespace fusewire::tf {
namespace {

constexpr size_t kShownTaskBytesMax = 80, kDigitsMax = 9;

std::string ShownWords(absl::string_view text) {
  std::string shown(text.substr(0, kShownTaskBytesMax));
  for (char& letter : shown) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(letter))) letter = '?';
  }
  return absl::StrCat("\"", shown, shown.size() < text.size() ? "..." : "", "\"");
}

// FUSEWIRE_TASKS is "ps:0,ps": ...
Status WrongTask(const char* what, const std::string& text, const std::string& why, const std::string& next) {
  return Status::Invalid(absl::StrCat(what, " is ", ShownWords(text), ": ", why)).Next(next);
}

// False: it is not JOB:INDEX.
bool ParseTask(absl::string_view word, absl::string_view* job, int* index) {
  const size_t colon = word.rfind(':');
  if (colon == 0 || colon == absl::string_view::npos) return false;
  const absl::string_view number = word.substr(colon + 1);
  *job = word.substr(0, colon);
  return number.size() <= kDigitsMax && number.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(number, index);
}

std::set<int> TasksOf(const tensorflow::ServerDef& def) {
  std::set<int> found;
  for (const tensorflow::JobDef& job : def.cluster().job()) {
    if (job.name() != def.job_name()) continue;
    for (const auto& task : job.tasks()) found.insert(task.first);
  }
  return found;
}

struct ServedTasks {
  Mutex mutex;
  std::set<std::string> names FUSEWIRE_GUARDED_BY(mutex);
};

ServedTasks& AllServedTasks() {
  static auto* served = new ServedTasks;
  return *served;
}

}  // namespace

Result<std::vector<int>> ReadTasks(const std::string& text, const tensorflow::ServerDef& def, const char* what) {
  std::vector<int> tasks;
  if (text.empty()) return tasks;
  const std::set<int> known = TasksOf(def);
  std::set<int> named;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::string_view word = absl::StripAsciiWhitespace(part);
    absl::string_view job;
    int index = 0;
    if (!ParseTask(word, &job, &index))
      return WrongTask(what, text, ShownWords(word) + " is no task", "write JOB:INDEX,JOB:INDEX, for example ps:0,ps:2");
    if (job != def.job_name()) {
      return WrongTask(what, text,
                   absl::StrCat("the program's server is ", def.job_name(), ":", def.task_index(), ", and ",
                                ShownWords(word), " is a task of another job"),
                   "set it only for processes that serve tasks of that job");
    }
    if (known.count(index) == 0) {
      return WrongTask(what, text, absl::StrCat("the cluster has no ", ShownWords(word), ", but ", known.size(), " tasks of this job"),
                   "name tasks of the cluster, or add it to the cluster of every task");
    }
    if (!named.insert(index).second)
      return WrongTask(what, text, ShownWords(word) + " is named twice", "name each task once, in one process");
    if (index != def.task_index()) tasks.push_back(index);
  }
  return tasks;
}

TfStatus NotHosted(const Status& status) {
  const TfStatus told = ToTf(status);
  return TfStatus(told.code(), absl::StrCat("fusewire: ", told.message(), kSeeHosting));
}

TfStatus Hosting::Begin(const std::string& name) {
  ServedTasks& served = AllServedTasks();
  MutexLock lock(served.mutex);
  if (!served.names.insert(name).second) {
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
  served.names.erase(name_);
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
