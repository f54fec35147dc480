// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A collective over messages, compiled into one rank's steps: sends, receives, reductions and copies, in order.
// Home: any thread, plain values. Owns: its lists.
// A runner needs no knowledge of the algorithm: it starts all steps of a stage in their order, and the next stage when
// all of them have ended. Within a stage no step reads or writes elements that another one writes. The k-th send from a
// to b meets the k-th receive at b from a, and both have the same size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/collective/kernels/types.h"
#include "fusewire/collective/schedule/algorithm.h"

namespace fusewire::collective {

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
  Span span;               // of a send its source, of any other step its destination
  std::vector<Span> from;  // the sources of a reduction, in this order, or of a copy
  bool last = false;       // of a reduction: its result includes all ranks, so an average is divided now
};

using Stage = std::vector<Step>;

struct Schedule {
  std::vector<Stage> stages;
  size_t scratch_count = 0;  // elements
};

// One rank's request. The sizes of its arrays, in elements; blocks lie one after the other:
//                  input                 output               counts
//   all-reduce     counts[0]             counts[0]            one
//   reduce         counts[0]             counts[0] at root    one
//   broadcast      counts[0] at root     counts[0]            one
//   reduce-scatter sum of counts         counts[rank]         one for each rank
//   all-gather     counts[rank]          sum of counts        likewise
//   gather         counts[rank]          sum, at root         likewise
//   scatter        sum, at root          counts[rank]         likewise
//   all-to-all     sum of counts         sum of receives      sent to each rank; `receives`: received from each
//     an even one  ranks * counts[0]     ranks * counts[0]    one: sent to each rank, and the same at all ranks
// In place, the smaller of the two arrays is its block within the larger one; arrays of the same size are one array. An
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
  // Of two levels: the host of each rank, as any numbers (empty: one host), and the algorithm between hosts.
  std::vector<int> hosts;
  Algorithm between = Algorithm::kBinomial;
};

constexpr int kScheduleRanksMax = 64 * 1024;

}  // namespace fusewire::collective
