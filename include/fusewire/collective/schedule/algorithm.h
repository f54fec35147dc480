// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The algorithms of collectives over messages, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

enum class Algorithm : uint8_t {
  kOneShot = 0,            // all to all at once, every rank reduces everything
  kTwoShot = 1,            // each rank reduces a block for all
  kRecursiveDoubling = 2,  // log2 n exchanges of everything
  kRabenseifner = 3,       // halving, then doubling
  kRing = 4,               // blocks go round, in segments that overlap
  kBinomial = 5,           // a tree: the fewest messages
  kDirect = 6,             // each message directly to its destination
  kBruck = 7,              // log2 n exchanges of all blocks that a rank has, or passes on
  kChain = 8,              // from neighbour to neighbour in segments
  kScatterGather = 9,      // a block to each, then all to all (or to the root)
  kPairwise = 10,          // one partner at a time
  kDissemination = 11,     // a barrier of log2 n rounds
  kTwoLevel = 12,          // among the ranks of each host, and between hosts
  kHalving = 13,           // log2 n exchanges, each of half of what is left
};
constexpr uint8_t kAlgorithms = 14;
std::string AlgorithmName(Algorithm algorithm);

// The algorithms of a collective.
std::vector<Algorithm> AlgorithmsOf(CollectiveKind kind);
bool IsAlgorithmOf(CollectiveKind kind, Algorithm algorithm);
// Whether each element is reduced in the order of ranks: then the bits are the same for every size, and the same as the
// arena's. True for collectives that only move bytes.
bool IsReproducible(CollectiveKind kind, Algorithm algorithm);

}  // namespace fusewire::collective
