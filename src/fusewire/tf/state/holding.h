// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task holds between steps: variables, those that are references, and tables. They live in a device's resources
// under the names that graphs use; we find them there, copy them while steps run, and make them again.
// Home: any thread. Owns: nothing; a HoldingReader shares what it reads. Fails: with TensorFlow's reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/framework/node_def.pb.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/tensor.h>
#include "fusewire/base/bytes.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

enum class HoldingKind : uint8_t { kVariable = 1, kReference = 2, kTable = 3 };

struct Holding {
  HoldingKind kind = HoldingKind::kVariable;
  std::string device;  // "CPU:0"
  std::string container, name;
  tensorflow::NodeDef node;  // what makes it again; empty for a variable

  // Of all that a task holds.
  auto key() const { return std::tie(device, container, name, kind); }
  bool operator<(const Holding& other) const { return key() < other.key(); }
};

struct Findings {
  std::vector<Holding> holdings;
  // What can't be copied, for people: "the queue sync_token_q". Empty: nothing.
  std::string obstacle;
};
// What a graph, with its functions, holds on this task.
Findings FindHoldings(const tensorflow::GraphDef& graph);
// What an operation makes or finds, by its node. False: nothing that can be copied.
bool HoldingOf(const tensorflow::NodeDef& node, Holding* holding);

// The contents of one holding, read while others write. A reader of a variable shares no buffer with it, so writers
// never copy because of us: each Read looks the buffer up anew, under the variable's shared lock.
class HoldingReader {
 public:
  struct Layout {
    tensorflow::DataType type = tensorflow::DT_INVALID;
    tensorflow::TensorShape shape;
    uint64_t bytes = 0;  // of texts: as a TensorProto
    uint64_t row_bytes() const;
    bool operator==(const Layout& other) const {
      return type == other.type && shape == other.shape && bytes == other.bytes;
    }
  };
  virtual ~HoldingReader() = default;
  // Once, and again when Read has said false. Sets one layout for each tensor; none: it has no value yet.
  virtual TfStatus Begin(std::vector<Layout>* layouts) = 0;
  // False: its shape has changed since Begin.
  virtual bool Read(size_t tensor, uint64_t offset, Bytes out) = 0;
  // The same of these rows, `count` of them, one after the other. Only of a variable of plain numbers.
  virtual bool ReadRows(const uint64_t* rows, size_t count, Bytes out) = 0;
};
// NotFound: the task has no such holding, or not yet.
TfStatus ReadHolding(tensorflow::Device* device, const Holding& holding, std::unique_ptr<HoldingReader>* out);

// The tensor of a layout that a reader has returned, from its bytes. Fails if they don't match.
TfStatus MakeTensor(tensorflow::DataType type, const std::vector<uint64_t>& shape, uint64_t bytes,
                    tensorflow::Tensor* out);
// Whether MakeTensor's result takes its bytes as they are; otherwise they are a TensorProto, for ParseTensor.
bool IsPlain(tensorflow::DataType type);
TfStatus ParseTensor(const std::string& proto, tensorflow::Tensor* out);

// One run of one kernel outside of any graph: how variables without a header of their own, and tables, are reached.
// Owns: the kernel.
class LoneKernel {
 public:
  static TfStatus Make(tensorflow::Device* device, const tensorflow::NodeDef& node, std::unique_ptr<LoneKernel>* out);

  TfStatus Run(std::vector<tensorflow::Tensor> inputs);
  // Of the last run.
  size_t outputs() const { return tensors_.size(); }
  tensorflow::Tensor& output(size_t index) { return tensors_[index]; }
  // Its first output, if that is a reference.
  const tensorflow::TensorValue& reference() const { return reference_; }

 private:
  LoneKernel(tensorflow::Device* device, std::unique_ptr<tensorflow::OpKernel> kernel);

  tensorflow::Device* const device_;
  const std::unique_ptr<tensorflow::OpKernel> kernel_;
  const std::vector<tensorflow::AllocatorAttributes> attributes_;
  std::vector<tensorflow::Tensor> tensors_;
  tensorflow::TensorValue reference_;
};

// Changes of a table: keys with their values, and keys that it no longer has.
struct TableRows {
  tensorflow::Tensor keys, values, gone;
};
// Whether TableLookup can read it: a table with integers as keys and small rows of numbers, which programs write by
// key.
constexpr uint64_t kTableRowBytesMax = 1 << 20;
bool HasKeys(const Holding& holding);
// Reads rows of such a table by their keys, while others write.
class TableLookup {
 public:
  static TfStatus Make(tensorflow::Device* device, const Holding& holding, std::unique_ptr<TableLookup>* out);
  // NotFound: the task has no such table any more.
  struct Found {
    std::vector<int64_t> keys, gone;
    std::string values;  // of the keys, one after the other
  };
  TfStatus Read(const int64_t* keys, size_t count, Found* found);
  // Of keys and values, without a row.
  std::vector<HoldingReader::Layout> layouts() const;
  uint64_t row_bytes() const { return defaults_[0].TotalBytes(); }

 private:
  std::unique_ptr<LoneKernel> finder_;
  tensorflow::Tensor handle_;
  // A table does not say which keys it has, so it is asked twice, with two random defaults: a key that gets both has no
  // row.
  tensorflow::Tensor defaults_[2];
};

// Puts it there, with these tensors, as its reader had them; instead of what is there, if it is not a table. Then a
// table's changes, in their order; a table that is there already may come without tensors.
TfStatus RestoreHolding(tensorflow::Device* device, const Holding& holding, std::vector<tensorflow::Tensor> tensors,
                        std::vector<TableRows> changes = {});

}  // namespace fusewire::tf
