// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Fewer bytes between workers and parameter servers, where a session asks for it: a pass over the whole graph, before
// it is cut. It adds operations, so it serves every protocol.
// Exact (unique_ids): a lookup's ids that repeat in a batch are sent once, and their row comes once; and the sum of a
// repeated id's gradients is computed by the worker instead of the parameter server.
// Not exact (staleness): a row that the worker has pulled is used again in its next steps (row_cache.h).
// Not exact (compression): rows that are looked up, and gradients, are bfloat16 on the way, or 8 bits with a scale for
// each row (quantize.h). Gradients are what ends in an optimizer's operation or is added to rows of a variable; nothing
// else is touched: checkpoints, initial values, dense reads.
// Home: any thread. Fails: with a status if the session's options fit no graph.
#pragma once

#include <string>
#include <vector>

#include <absl/strings/string_view.h>
#include <tensorflow/core/common_runtime/optimization_registry.h>
#include <tensorflow/core/graph/graph.h>
#include <tensorflow/core/protobuf/config.pb.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

enum class Compression { kOff, kBf16, kInt8 };

struct CompressOptions {
  bool unique_ids = false;
  Compression compression = Compression::kOff;
  int64_t staleness = 0;            // steps for which a row may be used again; needs unique_ids
  std::vector<std::string> tables;  // beginnings of variables' names; empty: all

  bool any() const { return unique_ids || staleness > 0 || compression != Compression::kOff; }
  bool IsNamed(absl::string_view variable) const;
  // "bf16", "int8" or "off"; InvalidArgument for another word.
  TfStatus ReadCompression(absl::string_view word);
  void ReadTables(absl::string_view words);  // with commas between
};
// Of the environment, for sessions whose config says nothing.
void SetCompressByDefault(CompressOptions options);
TfStatus ReadCompressOptions(const tensorflow::ConfigProto& config, CompressOptions* out);
// InvalidArgument if a named table is not a variable of this graph, or has no floats; or for staleness where the
// gradients of workers are gathered. Of the graph that a program has made, not of a step's.
TfStatus CheckOptions(const CompressOptions& options, const tensorflow::GraphDef& graph);

class CompressPass final : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override;
};

struct Compressed {
  int lookups = 0;    // whose ids are sent once
  int caches = 0;     // lookups whose rows are used again
  int sums = 0;       // of gradients that the worker computes now
  int rows = 0;       // tensors that are smaller on their way to a worker
  int gradients = 0;  // and on their way to a parameter server
  bool any() const { return lookups + caches + sums + rows + gradients > 0; }
};
// The nodes have devices.
TfStatus Compress(const CompressOptions& options, tensorflow::Graph* graph, Compressed* out);

}  // namespace fusewire::tf
