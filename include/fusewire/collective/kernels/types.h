// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Kinds of collectives, types of elements, operators, and which of these can be combined.
// Home: any thread, plain values. Fails: CheckReduction, for an operator that its type does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"

namespace fusewire::collective {

enum class Type : uint8_t {
  kI8 = 0,
  kI16 = 1,
  kI32 = 2,
  kI64 = 3,
  kU8 = 4,
  kU16 = 5,
  kU32 = 6,
  kU64 = 7,
  kF16 = 8,
  kBf16 = 9,
  kF32 = 10,
  kF64 = 11,
  kBool = 12,  // one byte; any value but 0 counts as 1
};
constexpr uint8_t kTypes = 13;

enum class Op : uint8_t {
  kSum = 0,      // integers wrap around
  kProduct = 1,  // likewise
  kMin = 2,      // NaN if any is; of zeros and equals the first stays
  kMax = 3,      // likewise
  kAverage = 4,  // the sum, divided by the number of ranks; integers round towards zero
  kAnd = 5,      // bits; so are or and xor
  kOr = 6,
  kXor = 7,
  kUser = 8,
};
constexpr uint8_t kBuiltInOps = 8;

// The collective; ranks compare it before they exchange a byte.
enum class CollectiveKind : uint8_t {
  kBarrier = 0,
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kAllToAll = 8,
};
constexpr uint8_t kKinds = 9;

constexpr bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

// Of a CollectiveSpec or a Request. An all-to-all of one count: each rank sends as much to each, and all know it.
template <class Call>
bool IsEven(const Call& call) {
  return call.kind == CollectiveKind::kAllToAll && call.counts.size() == 1 && call.receives.empty();
}

constexpr size_t SizeOf(Type type) {
  constexpr size_t kSizes[kTypes] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1};
  FUSEWIRE_DCHECK(static_cast<uint8_t>(type) < kTypes);
  return kSizes[static_cast<uint8_t>(type)];
}

// "f32", "sum"; "type 77" for an unknown number, which a peer may have sent.
std::string TypeName(Type type);
std::string OpName(Op op);
std::string KindName(CollectiveKind kind);

// into[i] = into[i] op from[i], for `count` elements. Must be associative; it is called in the order of ranks.
struct UserFunction {
  void (*combine)(void* into, const void* from, size_t count, void* context) = nullptr;
  void* context = nullptr;
};

struct Reduction {
  Op op = Op::kSum;
  Type type = Type::kF32;
  UserFunction user;  // of Op::kUser
};

// Ok, or kInvalid: C may pass any number.
Status CheckType(Type type);
// Ok, or kInvalid with an alternative: for bits of a float, the sum of bools, a user's op without its function.
Status CheckReduction(const Reduction& reduction);

}  // namespace fusewire::collective
