// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/orders.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

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

constexpr const char* kSeeOrders = "; see: fusewire explain elastic#orders";

TfStatus Refused(const std::string& words, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(ShownWords(words), " is not done: ", why, kSeeOrders));
}

}  // namespace

std::set<int> TasksOf(const tensorflow::ServerDef& def) {
  std::set<int> found;
  for (const tensorflow::JobDef& job : def.cluster().job()) {
    if (job.name() != def.job_name()) continue;
    for (const auto& task : job.tasks()) found.insert(task.first);
  }
  return found;
}

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
      return WrongTask(what, text, ShownWords(word) + " is no task",
                       "write JOB:INDEX,JOB:INDEX, for example ps:0,ps:2");
    if (job != def.job_name()) {
      return WrongTask(what, text,
                       absl::StrCat("the program's server is ", def.job_name(), ":", def.task_index(), ", and ",
                                    ShownWords(word), " is a task of another job"),
                       "set it only for processes that serve tasks of that job");
    }
    if (known.count(index) == 0) {
      return WrongTask(
          what, text,
          absl::StrCat("the cluster has no ", ShownWords(word), ", but ", known.size(), " tasks of this job"),
          "name tasks of the cluster, or add it to the cluster of every task");
    }
    if (!named.insert(index).second)
      return WrongTask(what, text, ShownWords(word) + " is named twice", "name each task once, in one process");
    if (index != def.task_index()) tasks.push_back(index);
  }
  return tasks;
}

TfStatus Obey(const std::string& words, const tensorflow::ServerDef& def, const Obedience& obedience,
              std::string* done) {
  const std::vector<std::string> parts = absl::StrSplit(words, ' ');
  const bool adopts = parts.size() == 2 && parts[0] == "adopt", moves = parts.size() == 3 && parts[0] == "move";
  const bool drains = parts.size() == 2 && parts[0] == "drain";
  if (!adopts && !moves && !drains)
    return Refused(words,
                   "it is no order; next: write adopt JOB:INDEX, move JOB:INDEX MILLISECONDS or drain MILLISECONDS");
  int pause_ms = 0;
  if (!adopts && (!absl::SimpleAtoi(parts.back(), &pause_ms) || pause_ms < 0))
    return Refused(words, "it does not end with the milliseconds for which steps may stand still");
  TfStatus obeyed;
  if (drains) {
    obeyed = obedience.drain(pause_ms, done);
  } else {
    Result<std::vector<int>> index = ReadTasks(parts[1], def, "the task");
    if (!index.ok()) return Refused(words, index.status().cause());
    // It may be the process's own in the cluster, and elsewhere now.
    const int task = index.value().empty() ? def.task_index() : index.value()[0];
    if (index.value().size() > 1 || parts[1].empty() || (adopts && index.value().empty()))
      return Refused(words, "this process is to take over one task that is not its own");
    obeyed = adopts ? obedience.adopt(task, done) : obedience.move(task, pause_ms, done);
  }
  if (obeyed.ok()) return obeyed;
  return TfStatus(obeyed.code(), absl::StrCat(ShownWords(words), " is not done: ", obeyed.message(), kSeeOrders));
}

}  // namespace fusewire::tf
