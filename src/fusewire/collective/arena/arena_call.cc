// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena_call.h"

#include "fusewire/base/check.h"

namespace fusewire::collective {

ArenaCall ArenaCall::Of(CollectiveKind kind, const Reduction& reduction, int root, uint64_t amount) {
  FUSEWIRE_DCHECK(static_cast<uint8_t>(kind) < kKinds);
  const uint64_t word = static_cast<uint64_t>(kind) | static_cast<uint64_t>(reduction.op) << 8 |
                        static_cast<uint64_t>(reduction.type) << 16 |
                        static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  FUSEWIRE_DCHECK(word != kDeclined);
  return {word, amount};
}

Code ArenaCall::CodeOfDifference() const {
  if (kind_op_type_root != kDeclined) return Code::kInvalid;
  if (amount == static_cast<uint64_t>(Code::kCancelled)) return Code::kCancelled;
  if (amount == static_cast<uint64_t>(Code::kTimeout)) return Code::kTimeout;
  return Code::kInvalid;
}

std::string ArenaCall::Says() const {
  switch (CodeOfDifference()) {
    case Code::kCancelled: return "gave it up before its turn came";
    case Code::kTimeout: return "no longer wants it, since its turn came too late";
    default: return "wants " + Describe();
  }
}

// The words may be a peer's: any number is possible.
std::string ArenaCall::Describe() const {
  const uint64_t word = kind_op_type_root;
  const auto kind = static_cast<CollectiveKind>(word & 0xff);
  const auto root = static_cast<int32_t>(word >> 32);
  if (word == kDeclined) return "a call that can't be made";
  std::string text = KindName(kind);
  if (kind == CollectiveKind::kBarrier) return text;
  const std::string type = TypeName(static_cast<Type>(word >> 16 & 0xff));
  if (Reduces(kind)) text += " " + OpName(static_cast<Op>(word >> 8 & 0xff));
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce)
    text += " of " + std::to_string(amount) + " " + type;
  if (kind == CollectiveKind::kBroadcast) text += " of " + std::to_string(amount) + " bytes of " + type;
  if (kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather || kind == CollectiveKind::kGather ||
      kind == CollectiveKind::kScatter) {
    text += " of " + std::to_string(amount & kPartsBytesMask) + " bytes of " + type + " in parts of digest " +
            std::to_string(amount >> kPartsBytesBits);
  }
  if (kind == CollectiveKind::kAllToAll) text += " of " + type;
  if (root >= 0) text += ", root " + std::to_string(root);
  return text;
}

}  // namespace fusewire::collective
