// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/lane.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::p2p {

Result<Arriving*> Lane::Take(uint64_t call) {
  FUSEWIRE_DCHECK(call != 0);
  FUSEWIRE_DCHECK(Find(call) == nullptr);
  for (Arriving& one : arriving) {
    if (one.used) continue;
    one = Arriving();
    one.used = true;
    one.call = call;
    return &one;
  }
  return Status::Corrupt("call " + std::to_string(call) + ": its body begins while two others are unfinished");
}

Arriving* Lane::Find(uint64_t call) {
  for (Arriving& one : arriving) {
    if (one.used && one.call == call) return &one;
  }
  return nullptr;
}

Arriving Lane::Landed(uint64_t call) {
  Arriving* found = Find(call);
  FUSEWIRE_CHECK(found != nullptr);  // its header was answered here
  FUSEWIRE_DCHECK((found->op != 0) + (found->unexpected != nullptr) + (found->region != 0) <= 1);
  Arriving landed = std::move(*found);
  found->used = false;
  return landed;
}

Result<pipe::Landing> Lane::LandNowhere(uint64_t call, Status why) {
  Result<Arriving*> taken = Take(call);
  if (!taken.ok()) return taken.status();
  taken.value()->refusal = std::move(why);
  return pipe::Landing::Discard();
}

void Lane::AbandonOp(uint64_t op) {
  FUSEWIRE_DCHECK(op != 0);
  for (Arriving& one : arriving) {
    if (!one.used || one.op != op) continue;
    one.op = 0;
    Abandon(one.call);
  }
}

void Lane::AbandonRegion(uint64_t region, const Status& why) {
  FUSEWIRE_DCHECK(region != 0);
  FUSEWIRE_DCHECK(!why.ok());
  for (Arriving& one : arriving) {
    if (!one.used || one.region != region) continue;
    one.region = 0;
    one.refusal = why;
    Abandon(one.call);
  }
}

}  // namespace fusewire::p2p
