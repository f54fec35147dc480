// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A data file: what a task holds, copied while its steps run, and read again when it starts. heads/snapshots.h draws
// it. Home: one thread at a time. Owns: the open file; a reader, the tensors that it has made. Fails: with what is
// wrong and where; a file that was cut off or changed yields nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/state/holding.h"

namespace fusewire::tf {

class StateWriter {
 public:
  static TfStatus Create(tensorflow::Env* env, const std::string& path, const std::string& title,
                         std::unique_ptr<StateWriter>* out);

  struct Added {
    bool has_value = false;  // otherwise there was nothing to copy
    uint64_t rows = 0;       // that AddRows could copy; 0: only the whole
  };
  // Copies it, piece by piece.
  TfStatus Add(tensorflow::Device* device, const Holding& holding, Added* added);
  // Copies these rows, or all if it has another shape than it had.
  TfStatus AddRows(tensorflow::Device* device, const Holding& holding, const std::vector<uint64_t>& rows, Added* added);
  TfStatus Close();
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }

 private:
  explicit StateWriter(std::unique_ptr<tensorflow::WritableFile> file) : file_(std::move(file)) {}
  TfStatus AddFrame(StateFrameKind kind, ConstBytes content);
  // *is_whole: false if the holding changed its shape meanwhile.
  TfStatus AddPieces(HoldingReader* reader, const std::vector<HoldingReader::Layout>& layouts, bool* is_whole);

  const std::unique_ptr<tensorflow::WritableFile> file_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  std::string piece_;
};

using HeldState = std::map<Holding, std::vector<tensorflow::Tensor>>;
// Adds what the file has, if it is the one that is meant.
TfStatus ReadState(tensorflow::Env* env, const std::string& path, const std::string& task, const StateFile& file,
                   HeldState* state);

}  // namespace fusewire::tf
