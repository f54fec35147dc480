// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One loop for all-reduce of f32, for all programs: warm up, agree on a number of rounds, time batches of them.
// Prints one line of JSON per size, on rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::bench {

// The measured program; each call ends the process if it fails.
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
  double seconds = 0.2;       // per size
  int ranks = 2;
  std::string wire = "tcp";   // group only
  std::string algorithm;      // "": gloo's ring, or the group's choice
  size_t slot_bytes = 0;      // arena only; 0: its default
  size_t one_shot_bytes = 0;  // likewise
  std::string hosts;          // of the suite paths, where each rank is one: FILE@ADDRESS,... (bench/paths/path_main.cc)
};

// "--bytes 4,64 --seconds 0.2 --ranks 4"; without --bytes, 4 B to 64 MiB. --slot-bytes and --one-shot-bytes apply to
// the arena, --wire to the group, --algorithm to the group (NAME:SEGMENT_BYTES) and gloo, --hosts to these two.
LoopOptions ParseLoopOptions(int argc, char** argv);

void MeasureAllReduce(Group& group, const LoopOptions& options, const std::string& variant);

}  // namespace fusewire::bench
