// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A call of the loop as a CollectiveSpec, for our two programs.
#pragma once

#include <cstddef>

#include "bench/collective/loop.h"
#include "bench/harness/harness.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::bench {

inline collective::CollectiveKind KindOf(Collective what) {
  switch (what) {
    case Collective::kAllReduce: return collective::CollectiveKind::kAllReduce;
    case Collective::kAllGather: return collective::CollectiveKind::kAllGather;
    case Collective::kReduceScatter: return collective::CollectiveKind::kReduceScatter;
    case Collective::kAllToAll: return collective::CollectiveKind::kAllToAll;
  }
  Die("no such collective");
}

inline collective::CollectiveSpec SpecOf(const Call& call, int ranks) {
  const auto n = static_cast<size_t>(ranks);
  const size_t part = call.count / n;
  collective::CollectiveSpec spec;
  spec.kind = KindOf(call.what);
  spec.reduction.op = collective::Op::kSum;
  spec.reduction.type = collective::Type::kF32;
  switch (call.what) {
    case Collective::kAllReduce: spec.counts = {call.count}; break;
    case Collective::kAllToAll: spec.counts = {part}; break;
    default: spec.counts.assign(n, part);
  }
  // Pieces are also used for input, which is only read.
  spec.from = collective::Pieces(const_cast<float*>(call.from),
                                 (call.what == Collective::kAllGather ? part : call.count) * sizeof(float));
  spec.to = collective::Pieces(call.to, (call.what == Collective::kReduceScatter ? part : call.count) * sizeof(float));
  return spec;
}

}  // namespace fusewire::bench
