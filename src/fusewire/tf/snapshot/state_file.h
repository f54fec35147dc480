// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task holds, copied while its steps run, and made again elsewhere: as a data file, or as a stream to the server
// to which the task moves. heads/snapshots.h draws it. Home: one thread at a time. Owns: a reader, the tensors that it
// has made. Fails: with what is wrong and where; a file that was cut off or changed yields nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/state/holding.h"

namespace fusewire::tf {

// Where frames go.
class StateSink {
 public:
  virtual ~StateSink() = default;
  virtual TfStatus Append(ConstBytes frame_head, ConstBytes content) = 0;
};

class StateFileSink final : public StateSink {
 public:
  static TfStatus Create(tensorflow::Env* env, const std::string& path, std::unique_ptr<StateFileSink>* out);
  TfStatus Append(ConstBytes frame_head, ConstBytes content) override;
  TfStatus Close();

 private:
  explicit StateFileSink(std::unique_ptr<tensorflow::WritableFile> file) : file_(std::move(file)) {}
  const std::unique_ptr<tensorflow::WritableFile> file_;
};

class StateWriter {
 public:
  // The sink outlives it.
  explicit StateWriter(StateSink* sink) : sink_(sink) {}

  TfStatus AddTitle(const std::string& title);
  struct Added {
    bool has_value = false;  // otherwise there was nothing to copy
    uint64_t rows = 0;       // that AddRows could copy; 0: only the whole
    bool has_keys = false;   // AddKeys could copy some of it
  };
  // Copies it, piece by piece.
  TfStatus Add(tensorflow::Device* device, const Holding& holding, Added* added);
  // Copies these rows, or all if it has another shape than it had.
  TfStatus AddRows(tensorflow::Device* device, const Holding& holding, const std::vector<uint64_t>& rows, Added* added);
  // Copies the rows of these keys. `added` of an earlier Add has said that it has keys.
  TfStatus AddKeys(tensorflow::Device* device, const Holding& holding, const std::vector<int64_t>& keys, Added* added);
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }

 private:
  TfStatus AddFrame(StateFrameKind kind, ConstBytes content);
  // *is_whole: false if the holding changed its shape meanwhile.
  TfStatus AddPieces(HoldingReader* reader, const std::vector<HoldingReader::Layout>& layouts, bool* is_whole);

  StateSink* const sink_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  std::string piece_;
};

// What a holding has: the arguments of RestoreHolding.
struct HeldValue {
  std::vector<tensorflow::Tensor> tensors;
  std::vector<TableRows> changes;
};
using HeldState = std::map<Holding, HeldValue>;

// Adds to a state what frames say, in the order in which they come.
class StateReader {
 public:
  // No holding has more bytes. The state outlives it.
  StateReader(uint64_t bytes_max, HeldState* state) : bytes_max_(bytes_max), state_(state) {}

  // One after the other: `frames` ends with a whole frame.
  TfStatus ReadAll(ConstBytes frames);
  // `frame_head` is what was decoded.
  TfStatus Read(ConstBytes frame_head, const StateFrame& frame, ConstBytes content);
  // In the middle of a holding.
  bool is_open() const { return is_open_; }
  uint32_t crc() const { return crc_; }
  // Those that came since the last call: whole, or tables of which some rows came.
  std::set<Holding> TakeChanged() { return std::exchange(changed_, {}); }

 private:
  TfStatus Begin(ConstBytes content);
  TfStatus Fill(ConstBytes piece);
  TfStatus CloseFull();
  TfStatus BeginPatch(ConstBytes content);
  TfStatus BeginKeys(const HoldingHead& head, HeldValue* table);
  TfStatus Patch(ConstBytes content);
  TfStatus PatchKeys(ConstBytes content);

  const uint64_t bytes_max_;
  HeldState* const state_;
  uint32_t crc_ = 0;
  std::set<Holding> changed_;
  // The one that is being filled.
  bool is_open_ = false;
  Holding holding_;
  std::vector<tensorflow::Tensor> tensors_;
  std::vector<uint64_t> sizes_;
  size_t at_ = 0;
  uint64_t filled_ = 0;
  std::string text_;
  tensorflow::Tensor* patched_ = nullptr;  // whose rows come
  HeldValue* table_ = nullptr;             // whose rows come by their keys
  HoldingReader::Layout table_row_;        // one row of it
};

// Adds what the file has, if it is the one that is meant.
TfStatus ReadState(tensorflow::Env* env, const std::string& path, const std::string& task, const StateFile& file,
                   HeldState* state);

}  // namespace fusewire::tf
