// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/sparse.h"

#include <algorithm>
#include <string>
#include <utility>

namespace fusewire {
namespace collective {
namespace {

// Where a row stands, in the order of its sources.
struct Entry {
  int64_t index;
  const uint8_t* row;
};

int64_t IndexAt(const SparseView& view, size_t row) {
  if (view.index_type == Type::kI64) {
    int64_t index;
    __builtin_memcpy(&index, static_cast<const uint8_t*>(view.indices) + row * sizeof(index), sizeof(index));
    return index;
  }
  int32_t index;
  __builtin_memcpy(&index, static_cast<const uint8_t*>(view.indices) + row * sizeof(index), sizeof(index));
  return index;
}

Status CheckShape(const SparseShape& shape) {
  FUSEWIRE_TRY(CheckReduction(shape.reduction));
  const Op op = shape.reduction.op;
  if (op != Op::kSum && op != Op::kAverage) {
    return Status::Invalid(OpName(op) + " of sparse rows").Next("rows that are missing are zeros: sum or average them");
  }
  if (shape.row_count > 0 && shape.table_rows >= 0) return Status::Ok();
  return Status::Invalid("rows of " + std::to_string(shape.row_count) + " elements in a table of " +
                         std::to_string(shape.table_rows) + " rows")
      .Next("give rows of one element at least, and how many rows the table has");
}

Result<std::vector<Entry>> SortedEntries(const SparseShape& shape, const std::vector<SparseView>& sources) {
  const size_t row_bytes = shape.row_count * SizeOf(shape.reduction.type);
  std::vector<Entry> entries;
  size_t rows = 0;
  for (const SparseView& source : sources) rows += source.rows;
  entries.reserve(rows);
  for (const SparseView& source : sources) {
    if (source.index_type != Type::kI64 && source.index_type != Type::kI32) {
      return Status::Invalid("indices of " + TypeName(source.index_type)).Next("use i32 or i64");
    }
    for (size_t row = 0; row < source.rows; ++row) {
      const int64_t index = IndexAt(source, row);
      if (index < 0 || index >= shape.table_rows) {
        return Status::Invalid("index " + std::to_string(index) + " in a table of " + std::to_string(shape.table_rows) +
                               " rows")
            .Next("indices count from 0 to less than the table's rows");
      }
      entries.push_back({index, static_cast<const uint8_t*>(source.values) + row * row_bytes});
    }
  }
  // Stable: equal indices stay in the order of their sources, so that sums have the same bits everywhere.
  auto less = [](const Entry& a, const Entry& b) { return a.index < b.index; };
  if (!std::is_sorted(entries.begin(), entries.end(), less)) std::stable_sort(entries.begin(), entries.end(), less);
  return entries;
}

}  // namespace

Result<SparseRows> MergeSparse(const SparseShape& shape, const std::vector<SparseView>& sources, uint64_t divisor) {
  FUSEWIRE_TRY(CheckShape(shape));
  Result<std::vector<Entry>> sorted = SortedEntries(shape, sources);
  if (!sorted.ok()) return sorted.status();
  const std::vector<Entry>& entries = sorted.value();
  const Reducer reducer(shape.reduction);
  const size_t row_bytes = shape.row_count * reducer.element_bytes();
  SparseRows merged;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].index != entries[i - 1].index) merged.indices.push_back(entries[i].index);
  }
  merged.values.resize(merged.indices.size() * row_bytes);
  std::vector<const void*> rows;
  size_t next = 0;
  for (size_t row = 0; row < merged.indices.size(); ++row) {
    rows.clear();
    while (next < entries.size() && entries[next].index == merged.indices[row]) rows.push_back(entries[next++].row);
    ReduceCall call;
    call.to = merged.values.data() + row * row_bytes;
    call.sources = rows.data();
    call.sources_count = rows.size();
    call.count = shape.row_count;
    call.divisor = divisor;
    reducer.Reduce(call);
  }
  return merged;
}

Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, int rank, int ranks,
                                   GatherBytes gather) {
  const auto n = static_cast<size_t>(ranks);
  const size_t row_bytes = shape.row_count * SizeOf(shape.reduction.type);
  Result<SparseRows> own = MergeSparse(shape, {mine}, 1);
  // Who cannot take part says so to all, instead of leaving them waiting.
  int64_t said[4] = {own.ok() ? static_cast<int64_t>(own.value().indices.size()) : -1, static_cast<int64_t>(row_bytes),
                     static_cast<int64_t>(shape.reduction.type), shape.table_rows};
  std::vector<int64_t> heard(n * 4);
  FUSEWIRE_TRY(gather(std::vector<size_t>(n, sizeof(said)), Pieces(said, sizeof(said)),
                      Pieces(heard.data(), heard.size() * sizeof(int64_t))));
  if (!own.ok()) return own.status();
  std::vector<size_t> index_bytes, value_bytes;
  for (size_t other = 0; other < n; ++other) {
    const int64_t* theirs = &heard[other * 4];
    if (theirs[0] < 0 || theirs[0] > shape.table_rows || theirs[1] != said[1] || theirs[2] != said[2] ||
        theirs[3] != said[3]) {
      return Status::Invalid("rank " + std::to_string(other) + " wants " + std::to_string(theirs[0]) + " rows of " +
                             std::to_string(theirs[1]) + " bytes in a table of " + std::to_string(theirs[3]) +
                             ", rank " + std::to_string(rank) + " rows of " + std::to_string(said[1]) +
                             " in a table of " + std::to_string(said[3]))
          .Peer("rank " + std::to_string(other))
          .Phase("sparse all-reduce")
          .Next("give the same table on all ranks; -1 rows means that the rank refused its own");
    }
    index_bytes.push_back(static_cast<size_t>(theirs[0]) * sizeof(int64_t));
    value_bytes.push_back(static_cast<size_t>(theirs[0]) * row_bytes);
  }
  SparseRows& rows = own.value();
  size_t all_rows = 0;
  for (const size_t bytes : index_bytes) all_rows += bytes / sizeof(int64_t);
  std::vector<int64_t> indices(all_rows);
  std::vector<uint8_t> values(all_rows * row_bytes);
  FUSEWIRE_TRY(gather(index_bytes, Pieces(rows.indices.data(), rows.indices.size() * sizeof(int64_t)),
                      Pieces(indices.data(), indices.size() * sizeof(int64_t))));
  FUSEWIRE_TRY(
      gather(value_bytes, Pieces(rows.values.data(), rows.values.size()), Pieces(values.data(), values.size())));
  SparseView all;
  all.indices = indices.data();
  all.values = values.data();
  all.rows = all_rows;
  return MergeSparse(shape, {all}, shape.reduction.op == Op::kAverage ? n : 1);
}

Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, Arena* arena,
                                   int64_t deadline_ns) {
  return AllReduceSparse(shape, mine, arena->rank(), arena->ranks(),
                         [arena, deadline_ns](const std::vector<size_t>& bytes, const Pieces& from, const Pieces& to) {
                           return arena->AllGather(bytes, from, to, deadline_ns);
                         });
}

}  // namespace collective
}  // namespace fusewire
