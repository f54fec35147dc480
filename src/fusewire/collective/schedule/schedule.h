// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A collective over messages, compiled into steps for one rank: what to send, receive, reduce and copy, in which order.
// Home: any thread, plain values. Owns: its lists. Fails: Compile says what cannot be asked for.
// Whoever runs a schedule needs no knowledge of its algorithm: start all steps of a stage, in their order, and begin
// the next stage when all have ended. Within a stage no step reads or writes what another one writes. The k-th send
// from a to b meets the k-th receive at b from a, and both have the same size.
#ifndef FUSEWIRE_COLLECTIVE_SCHEDULE_SCHEDULE_H_
#define FUSEWIRE_COLLECTIVE_SCHEDULE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire {
namespace collective {

enum class Memory : uint8_t { kInput = 0, kOutput = 1, kScratch = 2 };

// Elements of an array.
struct Span {
  Memory memory = Memory::kInput;
  size_t at = 0;
  size_t count = 0;
};

struct Step {
  enum class Do : uint8_t { kSend, kReceive, kReduce, kCopy };
  Do what = Do::kCopy;
  int peer = -1;           // of a send or a receive
  Span span;               // what is sent, or where the others put their result
  std::vector<Span> from;  // what is reduced, in this order; or copied
  bool last = false;       // of a reduction: all ranks are in it, so an average is divided now
};

using Stage = std::vector<Step>;

struct Schedule {
  std::vector<Stage> stages;
  size_t scratch_count = 0;  // elements
};

enum class Algorithm : uint8_t {
  kOneShot = 0,            // all to all at once, everybody reduces everything
  kTwoShot = 1,            // each rank reduces a block for all
  kRecursiveDoubling = 2,  // log2 n exchanges of everything
  kRabenseifner = 3,       // halving, then doubling
  kRing = 4,               // blocks go round, in segments that overlap
  kBinomial = 5,           // a tree: the fewest messages
  kDirect = 6,             // each message straight to where it belongs
  kBruck = 7,              // log2 n exchanges of all that one has
  kChain = 8,              // from neighbour to neighbour in segments
  kScatterGather = 9,      // a block to each, then all to all (or to the root)
  kPairwise = 10,          // one partner at a time
  kDissemination = 11,     // a barrier of log2 n rounds
  kTwoLevel = 12,          // among the ranks of each host, and between hosts
};
constexpr uint8_t kAlgorithms = 13;
std::string AlgorithmName(Algorithm algorithm);

// Which algorithms a collective has.
std::vector<Algorithm> AlgorithmsOf(CollectiveKind kind);
// Whether the result is the fold in the order of ranks, element by element: the same bits for every size, and the same
// as the arena's. Collectives that only move bytes always are.
bool IsReproducible(CollectiveKind kind, Algorithm algorithm);

// What one rank asks for. The arrays, in elements, blocks one after the other:
//                  input                 output               counts
//   all-reduce     counts[0]             counts[0]            one
//   reduce         counts[0]             counts[0] at root    one
//   broadcast      counts[0] at root     counts[0]            one
//   reduce-scatter sum of counts         counts[rank]         one for each rank
//   all-gather     counts[rank]          sum of counts        likewise
//   gather         counts[rank]          sum, at root         likewise
//   scatter        sum, at root          counts[rank]         likewise
//   all-to-all     sum of counts         sum of receives      sent to each rank; `receives`: received from each
// In place, the smaller of the two arrays is its block within the larger one; of the same size, they are one array. An
// all-to-all is never in place.
struct Request {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  int ranks = 1;
  int rank = 0;
  int root = 0;
  std::vector<size_t> counts;
  std::vector<size_t> receives;
  bool in_place = false;
  size_t segment_count = 64 * 1024;  // elements of a segment, of a ring and a chain
  // Of two levels: the host of each rank, any numbers; none: one host. And what is used between hosts.
  std::vector<int> hosts;
  Algorithm between = Algorithm::kBinomial;
};

constexpr int kScheduleRanksMax = 64 * 1024;

Result<Schedule> Compile(const Request& request);

// What a schedule costs its rank: messages and elements sent, and elements that a reduction reads beyond its first.
struct Load {
  size_t stages = 0;
  size_t messages = 0;
  size_t sent = 0;
  size_t reduced = 0;
};
Load LoadOf(const Schedule& schedule);

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_SCHEDULE_SCHEDULE_H_
