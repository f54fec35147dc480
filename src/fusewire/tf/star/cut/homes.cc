// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/homes.h"

#include <map>
#include <memory>
#include <utility>

#include "fusewire/base/mutex.h"

namespace fusewire::tf {
namespace {

struct Homes {
  Mutex mutex;
  std::map<uint64_t, std::unique_ptr<const StarHome>> by_incarnation FUSEWIRE_GUARDED_BY(mutex);
};

Homes& All() {
  static auto* homes = new Homes;
  return *homes;
}

}  // namespace

void RegisterHome(uint64_t device_incarnation, StarHome home) {
  Homes& homes = All();
  MutexLock lock(homes.mutex);
  homes.by_incarnation.emplace(device_incarnation, std::make_unique<const StarHome>(std::move(home)));
}

const StarHome* FindHome(uint64_t device_incarnation) {
  Homes& homes = All();
  MutexLock lock(homes.mutex);
  auto found = homes.by_incarnation.find(device_incarnation);
  return found == homes.by_incarnation.end() ? nullptr : found->second.get();
}

}  // namespace fusewire::tf
