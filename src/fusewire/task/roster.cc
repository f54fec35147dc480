// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/roster.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::task {

std::vector<Seat> Roster::OnGreeted(const std::string& name, uint64_t incarnation, Seat seat, int64_t now_ns) {
  if (tasks_.size() >= tasks_max_ && tasks_.count(name) == 0) Forget();
  Task& task = tasks_[name];
  auto place = std::find(task.past.begin(), task.past.end(), incarnation);
  if (place != task.past.end()) {
    bool away = task.seats.empty() && now_ns - task.left_ns >= away_ns_;
    if (!away) return {seat};
    task.past.erase(place);
  }
  std::vector<Seat> superseded;
  if (task.incarnation != incarnation) {
    superseded.assign(task.seats.begin(), task.seats.end());
    if (task.incarnation != 0) task.past.push_back(task.incarnation);
    if (task.past.size() > kPastMax) task.past.erase(task.past.begin());
    task.seats.clear();
    task.incarnation = incarnation;
  }
  FUSEWIRE_DCHECK(task.past.size() <= kPastMax);
  FUSEWIRE_DCHECK(std::find(task.past.begin(), task.past.end(), task.incarnation) == task.past.end());
  const bool is_new = task.seats.insert(seat).second;
  FUSEWIRE_CHECK(is_new);
  return superseded;
}

void Roster::OnGone(const std::string& name, Seat seat, int64_t now_ns) {
  auto found = tasks_.find(name);
  if (found != tasks_.end() && found->second.seats.erase(seat) > 0) found->second.left_ns = now_ns;
}

void Roster::Forget() {
  for (auto it = tasks_.begin(); it != tasks_.end();) it = it->second.seats.empty() ? tasks_.erase(it) : std::next(it);
}

}  // namespace fusewire::task
