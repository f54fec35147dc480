// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A data file: what a task holds, copied while its steps run, and read again when it starts. heads/snapshots.h draws
// it. Home: one thread at a time. Owns: the open file; a reader, the tensors that it has made. Fails: with what is
// wrong and where; a file that was cut off or changed yields nothing.
#pragma once

#include <cstdint>
#include <functional>
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

  // Copies it, piece by piece. *has_value: false if there is nothing to copy.
  TfStatus Add(tensorflow::Device* device, const Holding& holding, bool* has_value);
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

struct Held {
  Holding holding;
  std::vector<tensorflow::Tensor> tensors;
};
// The whole file, if it is the one that the manifest means.
TfStatus ReadState(tensorflow::Env* env, const std::string& path, const Manifest& manifest, std::vector<Held>* out);

}  // namespace fusewire::tf
