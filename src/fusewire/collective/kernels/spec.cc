// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/spec.h"

#include <string>

#include "fusewire/base/check.h"

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
    return refused("booleans cannot be summed").Next("use or, and, xor, or sum them as u8");
  }
  return Status::Ok();
}

namespace {

// The pieces of a message are segments of a frame, which has at most 65535; some are reserved.
constexpr size_t kPiecesMax = 60000;

// The address of the first byte. Empty pieces are skipped: they may have any address, or none.
const void* Start(const Pieces& pieces) {
  for (size_t i = 0; i < pieces.count(); ++i) {
    if (pieces.at(i).bytes > 0) return pieces.at(i).data;
  }
  return nullptr;
}

bool Touch(const Pieces& one, const Pieces& other) {
  return one.bytes() > 0 && other.bytes() > 0 && Start(one) == Start(other);
}

// The number of elements that this rank's arrays must have; -1: the array is not used.
struct Sizes {
  int64_t input = 0;
  int64_t output = 0;
};
Sizes SizesOf(const CollectiveSpec& spec, int ranks, int rank) {
  const bool root = rank == spec.root;
  const auto sum = static_cast<int64_t>(SumOf(spec.counts));
  auto first = [&spec] { return static_cast<int64_t>(spec.counts[0]); };
  auto mine = [&spec, rank] { return static_cast<int64_t>(spec.counts[static_cast<size_t>(rank)]); };
  switch (spec.kind) {
    case CollectiveKind::kBarrier: return {-1, -1};
    case CollectiveKind::kAllReduce: return {first(), first()};
    case CollectiveKind::kReduce: return {first(), root ? first() : -1};
    case CollectiveKind::kBroadcast: return {root ? first() : -1, first()};
    case CollectiveKind::kReduceScatter: return {sum, mine()};
    case CollectiveKind::kAllGather: return {mine(), sum};
    case CollectiveKind::kGather: return {mine(), root ? sum : -1};
    case CollectiveKind::kScatter: return {root ? sum : -1, mine()};
    case CollectiveKind::kAllToAll:
      if (IsEven(spec)) return {sum * ranks, sum * ranks};
      return {sum, static_cast<int64_t>(SumOf(spec.receives))};
  }
  return {};
}

Status CheckWholeElements(const Pieces& pieces, size_t element_bytes) {
  if (pieces.count() > kPiecesMax)
    return Status::Invalid("an array has " + std::to_string(pieces.count()) + " pieces")
        .Next("give at most " + std::to_string(kPiecesMax));
  for (size_t i = 0; i < pieces.count(); ++i) {
    if (pieces.at(i).bytes % element_bytes == 0) continue;
    return Status::Invalid("piece " + std::to_string(i) + " has " + std::to_string(pieces.at(i).bytes) +
                           " bytes, which cut an element of " + std::to_string(element_bytes))
        .Next("give pieces of whole elements");
  }
  return Status::Ok();
}

}  // namespace

Status CheckSpec(const CollectiveSpec& spec, int ranks, int rank, Arrays* arrays) {
  FUSEWIRE_DCHECK(static_cast<uint8_t>(spec.kind) < kKinds);
  FUSEWIRE_TRY(Reduces(spec.kind) ? CheckReduction(spec.reduction) : CheckType(spec.reduction.type));
  const bool one = spec.kind == CollectiveKind::kAllReduce || spec.kind == CollectiveKind::kReduce ||
                   spec.kind == CollectiveKind::kBroadcast || IsEven(spec);
  const size_t needed = spec.kind == CollectiveKind::kBarrier ? 0 : one ? 1 : static_cast<size_t>(ranks);
  if (spec.root < 0 || spec.root >= ranks) {
    return Status::Invalid(KindName(spec.kind) + ": `root` is " + std::to_string(spec.root) + ", and `ranks` is " +
                           std::to_string(ranks))
        .Next("give a rank from 0 to " + std::to_string(ranks - 1));
  }
  auto check_length = [&](const char* field, size_t length, size_t wanted) -> Status {
    if (length == wanted) return Status::Ok();
    return Status::Invalid(KindName(spec.kind) + ": `" + field + "` has " + std::to_string(length) + " numbers, not " +
                           std::to_string(wanted) + ", for " + std::to_string(ranks) + " ranks")
        .Next("see the table at Request in schedule.h");
  };
  FUSEWIRE_TRY(check_length("counts", spec.counts.size(), needed));
  FUSEWIRE_TRY(check_length("receives", spec.receives.size(),
                            spec.kind == CollectiveKind::kAllToAll && !IsEven(spec) ? needed : 0));
  const auto element = static_cast<int64_t>(SizeOf(spec.reduction.type));
  const Sizes sizes = SizesOf(spec, ranks, rank);
  arrays->input = spec.from;
  arrays->output = spec.to;
  arrays->in_place = Touch(spec.from, spec.to) && sizes.input == sizes.output;
  if (spec.from.bytes() == 0 && sizes.input > 0 && spec.kind != CollectiveKind::kAllToAll) {
    arrays->input = spec.to;
    arrays->in_place = sizes.output >= 0;
  }
  for (const Pieces* pieces : {&arrays->input, &arrays->output}) {
    const bool is_input = pieces == &arrays->input;
    const int64_t wants = is_input ? sizes.input : sizes.output;
    // In place, only the larger array is given.
    if (wants < 0 || (arrays->in_place && wants < (is_input ? sizes.output : sizes.input))) continue;
    if (pieces->bytes() != static_cast<uint64_t>(wants * element)) {
      return Status::Invalid(KindName(spec.kind) + ": the " + (is_input ? "input" : "output") + " has " +
                             std::to_string(pieces->bytes()) + " bytes, not " + std::to_string(wants * element))
          .Next("see the table at Request in schedule.h");
    }
  }
  for (const Pieces* pieces : {&arrays->input, &arrays->output})
    FUSEWIRE_TRY(CheckWholeElements(*pieces, SizeOf(spec.reduction.type)));
  return Status::Ok();
}

}  // namespace fusewire::collective
