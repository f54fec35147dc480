// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Rows of a large table that only few are touched of: indices and values. Rows of the same index are added up, the
// result is sorted, each index once; whatever the order in which they came, rows are added in the order of their
// sources. Home: any thread. Owns: its result. Fails: with invalid where sizes do not fit or an index is beyond the
// table.
#ifndef FUSEWIRE_COLLECTIVE_SPARSE_H_
#define FUSEWIRE_COLLECTIVE_SPARSE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/collective/arena.h"
#include "fusewire/collective/arithmetic.h"

namespace fusewire {
namespace collective {

// Borrowed: `rows` indices of i32 or i64, and as many rows of `row_count` elements.
struct SparseView {
  Type index_type = Type::kI64;
  const void* indices = nullptr;
  const void* values = nullptr;
  size_t rows = 0;
};

struct SparseRows {
  std::vector<int64_t> indices;  // rising, each once
  std::vector<uint8_t> values;   // a row for each
};

// `table_rows` bounds the indices.
struct SparseShape {
  Reduction reduction;  // sum, or average over `sources` of MergeSparse
  size_t row_count = 0;
  int64_t table_rows = 0;
};

// Sorts and adds up; `divisor` as in ReduceCall.
Result<SparseRows> MergeSparse(const SparseShape& shape, const std::vector<SparseView>& sources, uint64_t divisor);

// All ranks' bytes, bytes[r] of rank r, one after the other.
using GatherBytes = UniqueFunction<Status(const std::vector<size_t>& bytes, const Pieces& from, const Pieces& to)>;

// Every rank's rows, added up, on every rank. Each rank first adds up its own duplicates, so that no row travels twice;
// then all gather all rows, and each rank merges them in the order of ranks.
Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, int rank, int ranks,
                                   GatherBytes gather);
// In memory that they share.
Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, Arena* arena, int64_t deadline_ns);

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_SPARSE_H_
