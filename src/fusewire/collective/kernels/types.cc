// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

std::string TypeName(Type type) {
  static constexpr const char* kNames[kTypes] = {"i8",  "i16", "i32",  "i64", "u8",  "u16", "u32",
                                                 "u64", "f16", "bf16", "f32", "f64", "bool"};
  const auto number = static_cast<uint8_t>(type);
  return number < kTypes ? kNames[number] : "type " + std::to_string(number);
}

std::string OpName(Op op) {
  static constexpr const char* kNames[kBuiltInOps + 1] = {"sum", "product", "min", "max", "average",
                                                          "and", "or",      "xor", "user"};
  const auto number = static_cast<uint8_t>(op);
  return number <= kBuiltInOps ? kNames[number] : "op " + std::to_string(number);
}

std::string KindName(CollectiveKind kind) {
  static constexpr const char* kNames[kKinds] = {"barrier", "all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                                 "reduce",  "gather",     "scatter",        "all-to-all"};
  const auto number = static_cast<uint8_t>(kind);
  return number < kKinds ? kNames[number] : "collective " + std::to_string(number);
}

Status CheckType(Type type) {
  if (static_cast<uint8_t>(type) < kTypes) return Status::Ok();
  return Status::Invalid(TypeName(type) + ": there is no such type").Next("use a Type of types.h");
}

Status CheckReduction(const Reduction& reduction) {
  FUSEWIRE_TRY(CheckType(reduction.type));
  const auto op = static_cast<uint8_t>(reduction.op);
  // Only a refusal has words: every operation comes through here.
  auto refused = [&reduction](const char* why) {
    return Status::Invalid(OpName(reduction.op) + " of " + TypeName(reduction.type) + ": " + why);
  };
  if (op > kBuiltInOps) return refused("there is no such op").Next("use an Op of types.h");
  if (reduction.op == Op::kUser) {
    if (reduction.user.combine != nullptr) return Status::Ok();
    return refused("no function is given").Next("set Reduction::user.combine");
  }
  const bool bits = reduction.op == Op::kAnd || reduction.op == Op::kOr || reduction.op == Op::kXor;
  const bool real = reduction.type >= Type::kF16 && reduction.type <= Type::kF64;
  if (bits && real) return refused("a float has no bits to combine").Next("use an integer type");
  const bool order = reduction.op == Op::kMin || reduction.op == Op::kMax;
  if (reduction.type == Type::kBool && !bits && !order) {
    return refused("truths are not added up").Next("use or, and, xor, or sum them as u8");
  }
  return Status::Ok();
}

}  // namespace fusewire::collective
