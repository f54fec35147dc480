// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/schedule/algorithm.h"

#include <algorithm>

namespace fusewire::collective {

std::string AlgorithmName(Algorithm algorithm) {
  static constexpr const char* kNames[kAlgorithms] = {
      "one-shot", "two-shot", "recursive-doubling", "rabenseifner", "ring",          "binomial",  "direct",
      "bruck",    "chain",    "scatter-gather",     "pairwise",     "dissemination", "two-level", "halving"};
  const auto number = static_cast<uint8_t>(algorithm);
  return number < kAlgorithms ? kNames[number] : "algorithm " + std::to_string(number);
}

std::vector<Algorithm> AlgorithmsOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kBarrier: return {Algorithm::kDissemination};
    case CollectiveKind::kAllReduce:
      return {Algorithm::kOneShot, Algorithm::kTwoShot,  Algorithm::kRecursiveDoubling, Algorithm::kRabenseifner,
              Algorithm::kRing,    Algorithm::kBinomial, Algorithm::kTwoLevel};
    case CollectiveKind::kReduceScatter: return {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalving};
    case CollectiveKind::kAllGather:
      return {Algorithm::kDirect, Algorithm::kRing, Algorithm::kBruck, Algorithm::kTwoLevel};
    case CollectiveKind::kBroadcast:
      return {Algorithm::kBinomial, Algorithm::kScatterGather, Algorithm::kChain, Algorithm::kTwoLevel};
    case CollectiveKind::kReduce:
      return {Algorithm::kBinomial, Algorithm::kDirect, Algorithm::kScatterGather, Algorithm::kTwoLevel};
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter: return {Algorithm::kDirect};
    case CollectiveKind::kAllToAll: return {Algorithm::kDirect, Algorithm::kPairwise};
  }
  return {};
}

bool IsAlgorithmOf(CollectiveKind kind, Algorithm algorithm) {
  const std::vector<Algorithm> all = AlgorithmsOf(kind);
  return std::find(all.begin(), all.end(), algorithm) != all.end();
}

bool IsReproducible(CollectiveKind kind, Algorithm algorithm) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return algorithm == Algorithm::kOneShot || algorithm == Algorithm::kTwoShot;
    case CollectiveKind::kReduceScatter: return algorithm == Algorithm::kDirect;
    case CollectiveKind::kReduce: return algorithm == Algorithm::kDirect || algorithm == Algorithm::kScatterGather;
    default: return true;
  }
}

}  // namespace fusewire::collective
