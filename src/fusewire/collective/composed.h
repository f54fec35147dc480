// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What takes several collectives of a group: sparse rows, and arrays of f32 that travel compressed. All ranks call the
// same, in the same order. Home: any thread but a home; they wait. Owns: buffers and residuals. Fails: as the group.
#ifndef FUSEWIRE_COLLECTIVE_COMPOSED_H_
#define FUSEWIRE_COLLECTIVE_COMPOSED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/compression.h"
#include "fusewire/collective/group.h"
#include "fusewire/collective/sparse.h"

namespace fusewire {
namespace collective {

// As in sparse.h, over messages.
Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, Group* group,
                                   int64_t timeout_ns = 0);

// An array of f32 that is added up again and again, made smaller for the wire both ways. What is lost one time is added
// the next: here of what this rank sends, and of the block that it reduces for all. All ranks get the same bits.
//   block r of each rank --compressed--> rank r adds them up --compressed--> all ranks
class CompressedAllReduce {
 public:
  // Afterwards the group must not shrink; make another one then.
  CompressedAllReduce(Group* group, Compression compression, size_t count, bool average);
  // In place; `count` elements.
  Status Run(float* array, int64_t timeout_ns = 0);
  // What this rank sends in one run.
  size_t sent_bytes() const;

 private:
  Group* const group_;
  const Compression compression_;
  const size_t ranks_, rank_;
  const bool average_;
  std::vector<size_t> starts_;  // elements of each rank's block
  std::vector<size_t> packed_;  // its compressed bytes
  std::vector<float> lost_, reduced_lost_;
  std::vector<uint8_t> out_, in_;
  std::vector<float> reduced_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_COMPOSED_H_
