// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One loop for collectives of f32, for all programs: warm up, agree on a number of rounds, time batches of them.
// Prints one line of JSON per collective and size, on rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::bench {

enum class Collective : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

// A collective of two arrays of this rank. `count`: the floats of the larger one, a multiple of the number of ranks.
struct Call {
  Collective what = Collective::kAllReduce;
  const float* from = nullptr;
  float* to = nullptr;
  size_t count = 0;
  bool operator==(const Call&) const = default;
};

// The measured program; each call ends the process if it fails.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void Barrier() = 0;
  virtual void Run(const Call& call) = 0;
  virtual void Broadcast(uint64_t* number) = 0;  // rank 0's
};

struct LoopOptions {
  std::vector<size_t> sizes;  // bytes of the larger array
  std::vector<Collective> collectives = {Collective::kAllReduce};
  double seconds = 0.2;  // per size
  int ranks = 2;
  std::string wire = "tcp";   // group only
  std::string algorithm;      // "": gloo's ring, or the group's choice
  size_t slot_bytes = 0;      // arena only; 0: its default
  size_t one_shot_bytes = 0;  // likewise
  std::string hosts;          // of the suite paths, where each rank is one: FILE@ADDRESS,... (bench/paths/path_main.cc)
};

// "--bytes 4,64 --seconds 0.2 --ranks 4 --collectives allgather,alltoall"; without --bytes, 4 B to 64 MiB. --slot-bytes
// and --one-shot-bytes apply to the arena, --wire to the group, --algorithm to the group (NAME:SEGMENT_BYTES) and gloo,
// --hosts to these two.
LoopOptions ParseLoopOptions(int argc, char** argv);

// Whether this is the peer's "--version", which the suite asks for: it then prints this name, and there is nothing to
// do.
bool PrintedVersion(int argc, char** argv, const std::string& name);

void MeasureCollectives(Group& group, const LoopOptions& options, const std::string& variant);

}  // namespace fusewire::bench
