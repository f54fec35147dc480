// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One loop for all-reduce of f32, the same for everybody: warm up, agree on a number of rounds, time batches of them.
// Prints one line of JSON per size, on rank 0.
#ifndef FUSEWIRE_BENCH_COLLECTIVE_LOOP_H_
#define FUSEWIRE_BENCH_COLLECTIVE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::bench {

// What is measured; each call ends the process if it fails.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void Barrier() = 0;
  virtual void AllReduce(const float* from, float* to, size_t count) = 0;
  virtual void Broadcast(uint64_t* number) = 0;  // rank 0's
};

struct LoopOptions {
  std::vector<size_t> sizes;  // bytes
  double seconds = 0.2;       // of each size
  int ranks = 2;
  std::string wire = "tcp";   // of a group
  std::string algorithm;      // "": gloo's ring; of a group what it chooses, or a name
  size_t slot_bytes = 0;      // of an arena; 0: its own choice
  size_t one_shot_bytes = 0;  // likewise
};

// "--bytes 4,64 --seconds 0.2 --ranks 4"; without --bytes 4 B to 64 MiB. --slot-bytes and --one-shot-bytes are the
// arena's alone, --wire the group's, --algorithm the group's (NAME:SEGMENT_BYTES) and gloo's.
LoopOptions ParseLoopOptions(int argc, char** argv);

void MeasureAllReduce(Group& group, const LoopOptions& options, const std::string& variant);

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_COLLECTIVE_LOOP_H_
