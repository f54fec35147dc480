// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/run/fingerprint.h"

#include "fusewire/base/check.h"
#include "fusewire/wire/coder.h"

namespace fusewire::collective {
namespace {

bool HasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

}  // namespace

bool Fingerprint::SamePlace(const Fingerprint& other) const {
  return keyed == other.keyed && key == other.key && turn == other.turn && epoch == other.epoch;
}

std::string Fingerprint::Describe() const {
  const CollectiveKind what = static_cast<CollectiveKind>(kind);
  std::string words = KindName(what);
  if (Reduces(what)) words += " " + OpName(static_cast<Op>(op));
  if (what != CollectiveKind::kBarrier) {
    if (what != CollectiveKind::kAllToAll || amount > 0) words += " of " + std::to_string(amount);
    words += " " + TypeName(static_cast<Type>(type));
  }
  if (HasRoot(what)) words += " with root " + std::to_string(root);
  return words + " by " + AlgorithmName(static_cast<Algorithm>(algorithm)) + " in segments of " +
         std::to_string(segment);
}

Fingerprint FingerprintOf(const Request& request, const Reduction& reduction) {
  Fingerprint print;
  print.kind = static_cast<uint8_t>(request.kind);
  print.algorithm = static_cast<uint8_t>(request.algorithm);
  print.segment = static_cast<uint32_t>(request.segment_count);
  if (Reduces(request.kind)) print.op = static_cast<uint8_t>(reduction.op);
  if (HasRoot(request.kind)) print.root = static_cast<uint32_t>(request.root);
  if (request.kind == CollectiveKind::kBarrier) return print;
  print.type = static_cast<uint8_t>(reduction.type);
  if (!request.receives.empty()) return print;  // of an all-to-all: each rank knows only its own counts
  auto digest = [&print](uint64_t number) {
    print.digest = (print.digest ^ number) * 0x9e3779b97f4a7c15ULL;
    print.digest ^= print.digest >> 29;
  };
  for (const size_t count : request.counts) {
    print.amount += count;
    digest(count);
  }
  if (request.algorithm == Algorithm::kTwoLevel) {
    digest(static_cast<uint64_t>(request.between));
    for (const int host : request.hosts) digest(static_cast<uint64_t>(host));
  }
  return print;
}

void EncodeFingerprint(const Fingerprint& from, Bytes out) {
  FUSEWIRE_CHECK(out.size == kFingerprintBytes);
  uint8_t* at = out.data;
  const uint8_t small[6] = {kFingerprintVersion, from.kind, from.op, from.type, from.algorithm, from.keyed};
  for (size_t i = 0; i < sizeof(small); ++i) at[i] = small[i];
  wire::Store(at + 6, from.epoch);
  wire::Store(at + 8, from.root);
  wire::Store(at + 12, from.segment);
  wire::Store(at + 16, from.key);
  wire::Store(at + 24, from.turn);
  wire::Store(at + 32, from.amount);
  wire::Store(at + 40, from.digest);
}

Result<Fingerprint> DecodeFingerprint(ConstBytes in) {
  if (in.size != kFingerprintBytes || in.data[0] != kFingerprintVersion)
    return Status::Corrupt("the head of a collective's first message has " + std::to_string(in.size) +
                           " bytes that are not a fingerprint of version " + std::to_string(kFingerprintVersion));
  Fingerprint print;
  print.kind = in.data[1];
  print.op = in.data[2];
  print.type = in.data[3];
  print.algorithm = in.data[4];
  print.keyed = in.data[5];
  print.epoch = wire::Load<uint16_t>(in.data + 6);
  print.root = wire::Load<uint32_t>(in.data + 8);
  print.segment = wire::Load<uint32_t>(in.data + 12);
  print.key = wire::Load<uint64_t>(in.data + 16);
  print.turn = wire::Load<uint64_t>(in.data + 24);
  print.amount = wire::Load<uint64_t>(in.data + 32);
  print.digest = wire::Load<uint64_t>(in.data + 40);
  return print;
}

}  // namespace fusewire::collective
