// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The tags of a group's messages: each name and epoch has its own range, so that no message of another group or of an
// old epoch can reach an operation.
// Home: any thread, plain values. Owns: the name's hash.
//   tag := 1:1 hash of name and epoch:23 keyed:1 (turn or hash of key and failures):39
//          of control messages: epoch 0, the last tag
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {

class GroupTags {
 public:
  explicit GroupTags(const std::string& name) : name_(name) {}

  // The first and the last tag of an epoch.
  uint64_t First(uint32_t epoch) const;
  uint64_t Last(uint32_t epoch) const;
  uint64_t Control() const { return Last(0); }
  uint64_t Of(uint32_t epoch, const Fingerprint& place) const;

 private:
  const std::string name_;
};

}  // namespace fusewire::collective
