// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/store.h"

#include <utility>
#include "fusewire/base/check.h"

namespace fusewire::tf {

void StepStore::Keep(int64_t step, const std::string& session, std::vector<KeptValue> values) {
  std::unordered_map<int64_t, Step>::node_type gone;  // ends when the lock has been given back
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  Step& at = drawer.steps[step];
  at.session = session;
  for (KeptValue& value : values) {
    KeptValue& kept = at.values[value.number];
    if (kept.takers == 0 && value.takers > 0) ++at.left;
    FUSEWIRE_DCHECK(kept.takers == 0 || at.left > 0);
    if (kept.takers > 0 && value.takers == 0) --at.left;
    kept = std::move(value);
  }
  // A step remains only while values are to be taken.
  if (at.left == 0) gone = drawer.steps.extract(step);
}

TfStatus StepStore::Take(int64_t step, const std::vector<uint32_t>& numbers, size_t first,
                         std::vector<tensorflow::Tensor>* args) {
  FUSEWIRE_DCHECK(first + numbers.size() <= args->size());
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  auto found = drawer.steps.find(step);
  for (uint32_t number : numbers) {
    std::unordered_map<uint32_t, KeptValue>::iterator kept;
    bool is_there = found != drawer.steps.end();
    if (is_there) kept = found->second.values.find(number);
    if (!is_there || kept == found->second.values.end() || kept->second.takers == 0) {
      return absl::AbortedError(
          "a value that an earlier part of this step left on the parameter server is gone: the server was probably "
          "restarted");
    }
    KeptValue& value = kept->second;
    if (--value.takers > 0) {
      (*args)[first++] = value.tensor;
      continue;
    }
    (*args)[first++] = std::move(value.tensor);
    value.tensor = tensorflow::Tensor();
    FUSEWIRE_CHECK(found->second.left > 0);
    --found->second.left;
  }
  if (found != drawer.steps.end() && found->second.left == 0) drawer.steps.erase(found);
  return TfStatus();
}

void StepStore::Drop(int64_t step) {
  std::unordered_map<int64_t, Step>::node_type gone;  // as above
  Drawer& drawer = DrawerOf(step);
  MutexLock lock(drawer.mutex);
  gone = drawer.steps.extract(step);
}

void StepStore::DropSession(const std::string& session) {
  std::vector<Step> gone;  // as above
  for (Drawer& drawer : drawers_) {
    MutexLock lock(drawer.mutex);
    for (auto step = drawer.steps.begin(); step != drawer.steps.end();) {
      if (step->second.session != session) {
        ++step;
        continue;
      }
      gone.push_back(std::move(step->second));
      step = drawer.steps.erase(step);
    }
  }
}

size_t StepStore::steps() {
  size_t count = 0;
  for (Drawer& drawer : drawers_) {
    MutexLock lock(drawer.mutex);
    count += drawer.steps.size();
  }
  return count;
}

}  // namespace fusewire::tf
