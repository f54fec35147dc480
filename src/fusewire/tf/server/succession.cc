// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/succession.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>

#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"

namespace fusewire::tf {
namespace {

constexpr int64_t kServedNs = 2 * kSecondNs;
constexpr int64_t kGivenAwayNs = kSecondNs;
constexpr int64_t kYieldPauseUs = 200 * 1000;

}  // namespace

bool Succession::IsServed(task::Task& own, const Owner& owner) {
  return HasTask(own, {task_, owner.address, owner.holder, 0, owner.epoch}, kServedNs, *known_);
}

void Succession::Serve(const Whereabout& place) {
  {
    MutexLock lock(mutex_);
    place_ = place;
  }
  if (place.epoch != 0) known_->Learn(place);
}

void Succession::Tell(const std::vector<Ways>& siblings) {
  for (const Ways& ways : siblings) {
    ways.peer->Route(ways.side, [known = known_](const TfStatus& status, const ChannelPtr& channel) {
      if (status.ok() && channel != nullptr && channel->options().epoch != 0) Exchange(channel, known, [] {});
    });
  }
}

Whereabout Succession::place() const {
  MutexLock lock(mutex_);
  return place_;
}

void Succession::SetSaid(std::string said) {
  MutexLock lock(mutex_);
  said_ = std::move(said);
}

std::string Succession::said() const {
  MutexLock lock(mutex_);
  return said_;
}

void Succession::Yield(uint64_t epoch, std::function<std::vector<Ways>()> siblings) {
  Scout::Options scout;
  scout.task = task_;
  scout.after_epoch = epoch - 1;
  scout.every_us = kYieldPauseUs;
  scout.known = known_;
  scout.other = [siblings](uint64_t turn) { return NextOf(siblings(), turn); };
  scout.found = [known = known_, task = task_] {
    Whereabout found;
    if (!known->Find(task, &found)) return;
    FUSEWIRE_LOG(kWarn, "%s: another process serves it, at %s, epoch %llu; tasks that ask here are told so",
                 task.c_str(), found.address.c_str(), static_cast<unsigned long long>(found.epoch));
  };
  auto begun = std::make_shared<Scout>(std::move(scout));
  {
    MutexLock lock(mutex_);
    scout_ = begun;
    epoch_ = epoch;
    siblings_ = std::move(siblings);
  }
  begun->Begin();
}

// It may have moved on since it was found: each request for it makes us ask again.
bool Succession::Where(PortWords* words) {
  std::function<std::vector<Ways>()> siblings;
  uint64_t turn = 0, epoch = 0;
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
    const int64_t now_ns = Clock::Real()->NowNs();
    if (now_ns >= AddNs(asked_ns_, kYieldPauseUs * 1000)) {
      asked_ns_ = now_ns;
      siblings = siblings_;
      turn = turn_++;
    }
  }
  if (siblings != nullptr) {
    ChannelPtr other = NextOf(siblings(), turn);
    if (other != nullptr) Exchange(std::move(other), known_, [] {});
  }
  Whereabout found;
  return known_->Find(task_, &found) && found.epoch >= epoch && words->PointTo(found);
}

bool Succession::AwaitSuccessor(std::string* said) {
  const int64_t until_ns = AddNs(Clock::Real()->NowNs(), kGivenAwayNs);
  for (;;) {
    Whereabout found;
    const bool is_elsewhere = known_->Find(task_, &found) && found.epoch > place().epoch;
    if (is_elsewhere) *said = absl::StrCat(task_, " is served at ", found.address, ", epoch ", found.epoch);
    if (is_elsewhere || Clock::Real()->NowNs() >= until_ns) return is_elsewhere;
    tensorflow::Env::Default()->SleepForMicroseconds(1000);
  }
}

}  // namespace fusewire::tf
