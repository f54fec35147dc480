// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/home.h"

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::reactor {

__thread const Home* current_home = nullptr;

void Output::Flush() {
  List<Flushable> now;
  now.TakeAll(&later_);
  while (Flushable* flushable = now.PopFront()) flushable->Flush();
}

HomeParts::HomeParts(const Options& options_in, Clock* clock_in)
    : options(options_in), clock(clock_in), now_ns(clock->NowNs()), timers(now_ns) {}

Home::Home(const Options& options, Clock* clock) : parts_(options, clock) {}

bool Home::AtHome() const { return current_home == this; }

bool Home::InsideAny() { return current_home != nullptr; }

Status Home::Watch(int fd, uint32_t events, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  return parts_.poller.Watch(fd, events, handler);
}

void Home::Rewatch(int fd, uint32_t events, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  parts_.poller.Rewatch(fd, events, handler);
}

void Home::Unwatch(int fd, FdHandler* handler) {
  FUSEWIRE_AT_HOME(*this);
  parts_.poller.Unwatch(fd, handler);
}

Resident* Home::resident(const void* key) const {
  FUSEWIRE_AT_HOME(*this);
  auto found = parts_.residents.find(key);
  return found == parts_.residents.end() ? nullptr : found->second.get();
}

void Home::Keep(const void* key, std::unique_ptr<Resident> resident) {
  FUSEWIRE_AT_HOME(*this);
  FUSEWIRE_CHECK(resident != nullptr);
  FUSEWIRE_CHECK(parts_.residents.emplace(key, std::move(resident)).second);
}

}  // namespace fusewire::reactor
