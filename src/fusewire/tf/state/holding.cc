// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/holding.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/lookup_interface.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/resource_handle.h>
#include <tensorflow/core/framework/resource_mgr.h>
#include <tensorflow/core/framework/resource_var.h>
#include <tensorflow/core/framework/tensor.pb.h>
#include <tensorflow/core/framework/types.h>
#include <tensorflow/core/platform/hash.h>
#include <tensorflow/core/platform/random.h>
#include <tensorflow/core/public/version.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Device;
using tensorflow::NodeDef;
using tensorflow::ResourceHandle;
using tensorflow::ResourceMgr;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::Var;

namespace {

const std::set<std::string>& References() {
  static const auto* ops = new std::set<std::string>{"Variable", "VariableV2"};
  return *ops;
}

// Those that can be made again from their attributes alone, and that TensorFlow's own operations export and import. A
// dense table has its empty key as an input, and other libraries may keep their rows elsewhere.
const std::set<std::string>& Tables() {
  static const auto* ops = new std::set<std::string>{"HashTable",
                                                     "HashTableV2",
                                                     "MutableHashTable",
                                                     "MutableHashTableV2",
                                                     "MutableHashTableOfTensors",
                                                     "MutableHashTableOfTensorsV2",
                                                     "TFRA>CuckooHashTableOfTensors"};
  return *ops;
}

// They have a name that others may share, and keep nothing under it between steps.
bool KeepsNothing(const std::string& op) {
  return op == "MutexV2" || op == "ThreadPoolHandle" || op == "BatchFunction" || op == "StatsAggregatorHandle" ||
         op == "StatsAggregatorHandleV2" || op == "SummaryWriter";
}

// Operations that make something for later steps give it a name that others may share. Of a node that leaves it to the
// default, the attribute may be missing.
bool HasName(const std::string& op) {
  const tensorflow::OpDef* def = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &def).ok()) return false;
  return std::any_of(def->attr().begin(), def->attr().end(),
                     [](const auto& attribute) { return attribute.name() == "shared_name"; });
}

std::string TextOf(const NodeDef& node, const char* attribute) {
  const auto found = node.attr().find(attribute);
  return found == node.attr().end() ? std::string() : found->second.s();
}

bool IsSet(const NodeDef& node, const char* attribute) {
  const auto found = node.attr().find(attribute);
  return found != node.attr().end() && found->second.b();
}

// "the FIFOQueueV2 sync_token_q"
std::string Said(const NodeDef& node) {
  const std::string shared = TextOf(node, "shared_name");
  return absl::StrCat("the ", node.op(), " ", shared.empty() ? node.name() : shared);
}

// The node without its place, inputs and marks: what makes the same holding again.
NodeDef MakerOf(const NodeDef& node, const std::string& name) {
  NodeDef maker;
  maker.set_name(name);
  maker.set_op(node.op());
  for (const auto& [attribute, value] : node.attr()) {
    if (!absl::StartsWith(attribute, "_")) (*maker.mutable_attr())[attribute] = value;
  }
  (*maker.mutable_attr())["shared_name"].set_s(name);
  return maker;
}

void FindHolding(const NodeDef& node, Findings* found) {
  const std::string& op = node.op();
  if (op == "PyFunc" || op == "EagerPyFunc") {
    found->obstacle = Said(node);
    return;
  }
  if (!HasName(op) || KeepsNothing(op)) return;
  Holding holding;
  holding.device = node.device().empty() ? "CPU:0" : ShortDevice(node.device());
  holding.container = TextOf(node, "container");
  holding.name = TextOf(node, "shared_name");
  if (op == "VarHandleOp") {
    // One without a name is made anew in each step, and is gone with it.
    if (holding.name == ResourceHandle::ANONYMOUS_NAME) return;
  } else if (References().count(op) == 1) {
    holding.kind = HoldingKind::kReference;
    if (holding.name.empty()) holding.name = node.name();
  } else if (Tables().count(op) == 1) {
    holding.kind = HoldingKind::kTable;
    if (holding.name.empty() && IsSet(node, "use_node_name_sharing")) holding.name = node.name();
    if (holding.name.empty()) found->obstacle = Said(node);
  } else {
    found->obstacle = Said(node);
  }
  if (!absl::StartsWith(holding.device, "CPU:")) found->obstacle = absl::StrCat(Said(node), " on ", holding.device);
  if (!found->obstacle.empty()) return;
  if (holding.kind != HoldingKind::kVariable) holding.node = MakerOf(node, holding.name);
  found->holdings.push_back(std::move(holding));
}

std::string ContainerOf(Device* device, const Holding& holding) {
  return holding.container.empty() ? device->resource_manager()->default_container() : holding.container;
}

HoldingReader::Layout LayoutOf(const Tensor& tensor) { return {tensor.dtype(), tensor.shape(), tensor.TotalBytes()}; }

void Copy(const Tensor& from, uint64_t offset, Bytes out) {
  std::memcpy(out.data, from.tensor_data().data() + offset, out.size);
}

// Of plain numbers, in place.
class LiveReader : public HoldingReader {
 public:
  LiveReader(tensorflow::mutex* mutex, Tensor* tensor, const bool* is_initialized)
      : mutex_(mutex), tensor_(tensor), is_initialized_(is_initialized) {}
  void Move(tensorflow::mutex* mutex, Tensor* tensor) {
    mutex_ = mutex;
    tensor_ = tensor;
  }

  TfStatus Begin(std::vector<Layout>* layouts) override {
    tensorflow::tf_shared_lock lock(*mutex_);
    layouts->clear();
    if (!HasValue()) return TfStatus();
    text_.clear();
    layout_ = LayoutOf(*tensor_);
    if (!IsPlain(layout_.type)) {
      tensorflow::TensorProto proto;
      tensor_->AsProtoTensorContent(&proto);
      text_ = proto.SerializeAsString();
      layout_.bytes = text_.size();
    }
    layouts->push_back(layout_);
    return TfStatus();
  }

  bool ReadRows(const uint64_t* rows, size_t count, Bytes out) override {
    const uint64_t row_bytes = layout_.row_bytes();
    tensorflow::tf_shared_lock lock(*mutex_);
    if (!HasValue() || !(LayoutOf(*tensor_) == layout_)) return false;
    for (size_t i = 0; i < count; ++i)
      Copy(*tensor_, rows[i] * row_bytes, out.Sub(i * static_cast<size_t>(row_bytes), static_cast<size_t>(row_bytes)));
    return true;
  }

  bool Read(size_t, uint64_t offset, Bytes out) override {
    if (!IsPlain(layout_.type)) {
      std::memcpy(out.data, text_.data() + offset, out.size);
      return true;
    }
    tensorflow::tf_shared_lock lock(*mutex_);
    if (!HasValue() || !(LayoutOf(*tensor_) == layout_)) return false;
    Copy(*tensor_, offset, out);
    return true;
  }

 private:
  bool HasValue() const { return tensor_->IsInitialized() && (is_initialized_ == nullptr || *is_initialized_); }

  tensorflow::mutex* mutex_;
  Tensor* tensor_;
  const bool* const is_initialized_;
  Layout layout_;
  std::string text_;  // all of it, if it is not plain numbers
};

class VariableReader final : public LiveReader {
 public:
  explicit VariableReader(TfRef<Var> variable)
      : LiveReader(variable->mu(), variable->tensor(), &variable->is_initialized), variable_(std::move(variable)) {}

 private:
  const TfRef<Var> variable_;
};

// The type under which the devices' resources keep a reference variable. The class is not in TensorFlow's headers.
uint64_t ReferenceType() { return tensorflow::Hash64("N10tensorflow9LegacyVarE"); }

bool HasReference(Device* device, const std::string& container, const std::string& name) {
  ResourceHandle handle;
  handle.set_container(container);
  handle.set_name(name);
  handle.set_hash_code(ReferenceType());
  tensorflow::ResourceBase* found = nullptr;
  if (!device->resource_manager()->Lookup(handle, &found).ok()) return false;
  found->Unref();
  return true;
}

// Whether it still has that name: a variable that was made under it is found.
bool KnowsReferences(Device* device) {
  static const bool knows = [device] {
    NodeDef node;
    node.set_name("fusewire.probe");
    node.set_op("VariableV2");
    (*node.mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    (*node.mutable_attr())["shape"].mutable_shape();
    (*node.mutable_attr())["container"].set_s(node.name());
    (*node.mutable_attr())["shared_name"].set_s(node.name());
    std::unique_ptr<LoneKernel> maker;
    const bool is_made = LoneKernel::Make(device, node, &maker).ok() && maker->Run({}).ok();
    const bool is_found = is_made && HasReference(device, node.name(), node.name());
    if (is_made) device->resource_manager()->Cleanup(node.name()).IgnoreError();
    return is_found;
  }();
  return knows;
}

// The kernel's class is not in TensorFlow's headers: its output is all that we get, and no share of the variable. So it
// is asked again for each piece, as a program may clear the device's containers. It would make a variable that is not
// there, with a shape that the next program may not want.
class ReferenceReader final : public LiveReader {
 public:
  ReferenceReader(std::unique_ptr<LoneKernel> kernel, Device* device, const Holding& holding)
      : LiveReader(nullptr, nullptr, nullptr),
        kernel_(std::move(kernel)),
        device_(device),
        container_(ContainerOf(device, holding)),
        name_(holding.name),
        is_known_(KnowsReferences(device)) {}

  TfStatus Begin(std::vector<Layout>* layouts) override {
    layouts->clear();
    const TfStatus located = Locate();
    if (absl::IsNotFound(located)) return TfStatus();
    TF_RETURN_IF_ERROR(located);
    return LiveReader::Begin(layouts);
  }
  bool ReadRows(const uint64_t* rows, size_t count, Bytes out) override {
    return Locate().ok() && LiveReader::ReadRows(rows, count, out);
  }
  bool Read(size_t tensor, uint64_t offset, Bytes out) override {
    return Locate().ok() && LiveReader::Read(tensor, offset, out);
  }

 private:
  TfStatus Locate() {
    if (is_known_ && !HasReference(device_, container_, name_)) return absl::NotFoundError(name_);
    TF_RETURN_IF_ERROR(kernel_->Run({}));
    const tensorflow::TensorValue& value = kernel_->reference();
    if (value.tensor == nullptr) return absl::InternalError("a variable without a reference");
    Move(value.mutex_if_ref, value.tensor);
    return TfStatus();
  }

  const std::unique_ptr<LoneKernel> kernel_;
  Device* const device_;
  const std::string container_, name_;
  const bool is_known_;
};

// A table makes its own copy, under its own lock.
class TableReader final : public HoldingReader {
 public:
  TableReader(std::unique_ptr<LoneKernel> exporter, Tensor handle)
      : exporter_(std::move(exporter)), handle_(std::move(handle)) {}

  TfStatus Begin(std::vector<Layout>* layouts) override {
    layouts->clear();
    // Fails while the table has not been filled: there is nothing to keep then.
    if (!exporter_->Run({handle_}).ok() || exporter_->outputs() != 2) return TfStatus();
    texts_.assign(2, std::string());
    for (size_t i = 0; i < 2; ++i) {
      const Tensor& exported = exporter_->output(i);
      Layout layout = LayoutOf(exported);
      if (!IsPlain(layout.type)) {
        tensorflow::TensorProto proto;
        exported.AsProtoTensorContent(&proto);
        texts_[i] = proto.SerializeAsString();
        layout.bytes = texts_[i].size();
      }
      layouts->push_back(std::move(layout));
    }
    return TfStatus();
  }

  bool ReadRows(const uint64_t*, size_t, Bytes) override { return false; }
  bool Read(size_t tensor, uint64_t offset, Bytes out) override {
    const Tensor& exported = exporter_->output(tensor);
    if (IsPlain(exported.dtype())) {
      Copy(exported, offset, out);
    } else {
      std::memcpy(out.data, texts_[tensor].data() + offset, out.size);
    }
    return true;
  }

 private:
  const std::unique_ptr<LoneKernel> exporter_;
  const Tensor handle_;
  std::vector<std::string> texts_;
};

Tensor HandleOf(Device* device, const Holding& holding) {
  Tensor handle(tensorflow::DT_RESOURCE, TensorShape());
  handle.scalar<ResourceHandle>()() =
      tensorflow::MakeResourceHandle(ContainerOf(device, holding), holding.name, *device,
                                     tensorflow::TypeIndex::Make<tensorflow::lookup::LookupInterface>(), {}, {});
  return handle;
}

// A kernel that takes a table's handle, and so many inputs in all. `types`: how it calls the types of keys and values.
TfStatus TableKernel(Device* device, const Holding& holding, const char* op, int inputs, std::vector<const char*> types,
                     std::unique_ptr<LoneKernel>* out) {
  NodeDef node;
  node.set_name(holding.name);
  node.set_op(op);
  for (int i = 0; i < inputs; ++i) node.add_input(absl::StrCat("input", i));
  const char* const of_table[] = {"key_dtype", "value_dtype"};
  for (size_t i = 0; i < types.size(); ++i) {
    const auto found = holding.node.attr().find(of_table[i]);
    if (found == holding.node.attr().end())
      return absl::InvalidArgumentError(absl::StrCat("the table ", holding.name, " has no ", of_table[i]));
    (*node.mutable_attr())[types[i]] = found->second;
  }
  return LoneKernel::Make(device, node, out);
}

TfStatus RestoreVariable(Device* device, const Holding& holding, Tensor tensor) {
  Var* found = nullptr;
  TF_RETURN_IF_ERROR(device->resource_manager()->LookupOrCreate<Var>(ContainerOf(device, holding), holding.name, &found,
                                                                     [&tensor](Var** made) {
                                                                       *made = new Var(tensor.dtype());
                                                                       return TfStatus();
                                                                     }));
  TfRef<Var> variable(found);
  tensorflow::mutex_lock lock(*variable->mu());
  *variable->tensor() = std::move(tensor);
  variable->is_initialized = true;
  return TfStatus();
}

TfStatus RestoreReference(Device* device, const Holding& holding, Tensor tensor) {
  std::unique_ptr<LoneKernel> kernel;
  TF_RETURN_IF_ERROR(LoneKernel::Make(device, holding.node, &kernel));
  TF_RETURN_IF_ERROR(kernel->Run({}));
  const tensorflow::TensorValue& value = kernel->reference();
  if (value.tensor == nullptr || value.tensor->dtype() != tensor.dtype())
    return absl::InvalidArgumentError("its value has another type");
  tensorflow::mutex_lock lock(*value.mutex_if_ref);
  *value.tensor = std::move(tensor);
  return TfStatus();
}

TfStatus RestoreTable(Device* device, const Holding& holding, std::vector<Tensor> tensors,
                      std::vector<TableRows> changes) {
  const Tensor handle = HandleOf(device, holding);
  std::unique_ptr<LoneKernel> kernel;
  if (!tensors.empty()) {
    TF_RETURN_IF_ERROR(LoneKernel::Make(device, holding.node, &kernel));
    TF_RETURN_IF_ERROR(kernel->Run({}));
    TF_RETURN_IF_ERROR(TableKernel(device, holding, "LookupTableImportV2", 3, {"Tin", "Tout"}, &kernel));
    TF_RETURN_IF_ERROR(kernel->Run({handle, std::move(tensors[0]), std::move(tensors[1])}));
  }
  if (changes.empty()) return TfStatus();
  std::unique_ptr<LoneKernel> remover;
  TF_RETURN_IF_ERROR(TableKernel(device, holding, "LookupTableInsertV2", 3, {"Tin", "Tout"}, &kernel));
  TF_RETURN_IF_ERROR(TableKernel(device, holding, "LookupTableRemoveV2", 2, {"Tin"}, &remover));
  for (TableRows& rows : changes) {
    if (rows.keys.NumElements() > 0) TF_RETURN_IF_ERROR(kernel->Run({handle, rows.keys, rows.values}));
    if (rows.gone.NumElements() > 0) TF_RETURN_IF_ERROR(remover->Run({handle, rows.gone}));
    rows = TableRows();
  }
  return TfStatus();
}

// Its shape, if there is one in the node. A table of single values has none.
TensorShape RowShapeOf(const Holding& table) {
  TensorShape shape;
  const auto found = table.node.attr().find("value_shape");
  if (found == table.node.attr().end() || !TensorShape::BuildTensorShape(found->second.shape(), &shape).ok())
    return TensorShape();
  return shape;
}

DataType TypeIn(const Holding& table, const char* attribute) {
  const auto found = table.node.attr().find(attribute);
  return found == table.node.attr().end() ? tensorflow::DT_INVALID : found->second.type();
}

}  // namespace

uint64_t HoldingReader::Layout::row_bytes() const {
  const bool has_rows = IsPlain(type) && shape.dims() > 0 && shape.dim_size(0) > 0;
  return has_rows ? bytes / static_cast<uint64_t>(shape.dim_size(0)) : bytes;
}

bool HoldingOf(const NodeDef& node, Holding* holding) {
  Findings found;
  FindHolding(node, &found);
  if (found.holdings.empty()) return false;
  *holding = std::move(found.holdings[0]);
  return true;
}

Findings FindHoldings(const tensorflow::GraphDef& graph) {
  Findings found;
  for (const NodeDef& node : graph.node()) FindHolding(node, &found);
  for (const auto& function : graph.library().function()) {
    for (const NodeDef& node : function.node_def()) FindHolding(node, &found);
  }
  return found;
}

bool HasKeys(const Holding& holding) {
  const DataType values = TypeIn(holding, "value_dtype");
  const auto elements = static_cast<uint64_t>(RowShapeOf(holding).num_elements());
  const auto element_bytes = static_cast<uint64_t>(std::max(1, tensorflow::DataTypeSize(values)));
  return holding.kind == HoldingKind::kTable && !absl::StartsWith(holding.node.op(), "HashTable") &&
         TypeIn(holding, "key_dtype") == tensorflow::DT_INT64 && tensorflow::DataTypeIsNumeric(values) &&
         IsPlain(values) && elements > 0 && elements <= kTableRowBytesMax / element_bytes;
}

TfStatus TableLookup::Make(Device* device, const Holding& holding, std::unique_ptr<TableLookup>* out) {
  FUSEWIRE_CHECK(HasKeys(holding));
  auto lookup = std::make_unique<TableLookup>();
  TF_RETURN_IF_ERROR(TableKernel(device, holding, "LookupTableFindV2", 3, {"Tin", "Tout"}, &lookup->finder_));
  lookup->handle_ = HandleOf(device, holding);
  for (Tensor& value : lookup->defaults_) {
    value = Tensor(TypeIn(holding, "value_dtype"), RowShapeOf(holding));
    auto* const bytes = static_cast<uint8_t*>(value.data());
    std::generate_n(bytes, value.TotalBytes(), [] { return static_cast<uint8_t>(tensorflow::random::New64()); });
  }
  *out = std::move(lookup);
  return TfStatus();
}

TfStatus TableLookup::Read(const int64_t* keys, size_t count, Found* found) {
  Tensor asked(tensorflow::DT_INT64, TensorShape({static_cast<int64_t>(count)}));
  std::copy_n(keys, count, asked.flat<int64_t>().data());
  Tensor rows[2];
  for (size_t i = 0; i < 2; ++i) {
    TF_RETURN_IF_ERROR(finder_->Run({handle_, asked, defaults_[i]}));
    rows[i] = std::move(finder_->output(0));
    if (rows[i].TotalBytes() != count * row_bytes() || rows[i].dtype() != defaults_[i].dtype())
      return absl::InternalError("a table whose rows are not of its shape");
  }
  *found = Found();
  for (size_t row = 0; row < count; ++row) {
    // The first answer that is no default.
    absl::string_view value;
    for (size_t i = 0; value.empty() && i < 2; ++i) {
      const absl::string_view answer = rows[i].tensor_data().substr(row * row_bytes(), row_bytes());
      if (answer != defaults_[i].tensor_data()) value = answer;
    }
    (value.empty() ? found->gone : found->keys).push_back(keys[row]);
    found->values.append(value.data(), value.size());
  }
  return TfStatus();
}

std::vector<HoldingReader::Layout> TableLookup::layouts() const {
  TensorShape shape({0});
  shape.AppendShape(defaults_[0].shape());
  return {{tensorflow::DT_INT64, TensorShape({0}), 0}, {defaults_[0].dtype(), shape, 0}};
}

TfStatus ReadHolding(Device* device, const Holding& holding, std::unique_ptr<HoldingReader>* out) {
  if (holding.kind == HoldingKind::kVariable) {
    Var* variable = nullptr;
    TF_RETURN_IF_ERROR(device->resource_manager()->Lookup<Var>(ContainerOf(device, holding), holding.name, &variable));
    *out = std::make_unique<VariableReader>(TfRef<Var>(variable));
    return TfStatus();
  }
  std::unique_ptr<LoneKernel> kernel;
  if (holding.kind == HoldingKind::kReference) {
    TF_RETURN_IF_ERROR(LoneKernel::Make(device, holding.node, &kernel));
    *out = std::make_unique<ReferenceReader>(std::move(kernel), device, holding);
    return TfStatus();
  }
  TF_RETURN_IF_ERROR(TableKernel(device, holding, "LookupTableExportV2", 1, {"Tkeys", "Tvalues"}, &kernel));
  *out = std::make_unique<TableReader>(std::move(kernel), HandleOf(device, holding));
  return TfStatus();
}

bool IsPlain(DataType type) { return tensorflow::DataTypeCanUseMemcpy(type); }

TfStatus MakeTensor(DataType type, const std::vector<uint64_t>& shape, uint64_t bytes, Tensor* out) {
  if (!tensorflow::DataType_IsValid(type) || (!IsPlain(type) && type != tensorflow::DT_STRING))
    return absl::DataLossError("a tensor of a type that no snapshot has");
  std::vector<int64_t> dims;
  for (uint64_t dim : shape) {
    if (dim > static_cast<uint64_t>(INT64_MAX)) return absl::DataLossError("a tensor with a dimension below zero");
    dims.push_back(static_cast<int64_t>(dim));
  }
  TensorShape made;
  TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape(dims, &made));
  if (!IsPlain(type)) {
    *out = Tensor(type, TensorShape({0}));  // ParseTensor knows
    return TfStatus();
  }
  const uint64_t elements = static_cast<uint64_t>(made.num_elements());
  const uint64_t element_bytes = static_cast<uint64_t>(tensorflow::DataTypeSize(type));
  if (element_bytes == 0 || bytes % element_bytes != 0 || bytes / element_bytes != elements)
    return absl::DataLossError("a tensor whose bytes don't match its shape");
  *out = Tensor(type, made);
  if (!out->IsInitialized()) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  return TfStatus();
}

TfStatus ParseTensor(const std::string& text, Tensor* out) {
  tensorflow::TensorProto proto;
  if (!proto.ParseFromString(text) || !out->FromProto(proto)) return absl::DataLossError("a malformed tensor");
  return TfStatus();
}

TfStatus RestoreHolding(Device* device, const Holding& holding, std::vector<Tensor> tensors,
                        std::vector<TableRows> changes) {
  const size_t count = tensors.size();
  const bool is_table = holding.kind == HoldingKind::kTable;
  if (is_table ? count != 2 && (count != 0 || !HasKeys(holding)) : count != 1 || !changes.empty())
    return absl::DataLossError(absl::StrCat(holding.name, " has ", count, " tensors"));
  switch (holding.kind) {
    case HoldingKind::kVariable: return RestoreVariable(device, holding, std::move(tensors[0]));
    case HoldingKind::kReference: return RestoreReference(device, holding, std::move(tensors[0]));
    case HoldingKind::kTable: return RestoreTable(device, holding, std::move(tensors), std::move(changes));
  }
  return absl::DataLossError(absl::StrCat(holding.name, " is of no known kind"));
}

LoneKernel::LoneKernel(tensorflow::Device* device, std::unique_ptr<tensorflow::OpKernel> kernel)
    : device_(device),
      kernel_(std::move(kernel)),
      attributes_(static_cast<size_t>(std::max(kernel_->num_inputs(), kernel_->num_outputs()))) {}

TfStatus LoneKernel::Make(tensorflow::Device* device, const tensorflow::NodeDef& node,
                          std::unique_ptr<LoneKernel>* out) {
  const tensorflow::OpDef* op = nullptr;
  TF_RETURN_IF_ERROR(tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op));
  tensorflow::NodeDef complete = node;
  tensorflow::AddDefaultsToNodeDef(*op, &complete);
  // shared_ptr: as kernels hold it.
  std::shared_ptr<const tensorflow::NodeProperties> properties;
  TF_RETURN_IF_ERROR(
      tensorflow::NodeProperties::CreateFromNodeDef(complete, tensorflow::OpRegistry::Global(), &properties));
  tensorflow::OpKernel* kernel = nullptr;
  TF_RETURN_IF_ERROR(tensorflow::CreateOpKernel(tensorflow::DeviceType(device->device_type()), device,
                                                device->GetAllocator(tensorflow::AllocatorAttributes()), nullptr,
                                                device->resource_manager(), properties, TF_GRAPH_DEF_VERSION, &kernel));
  out->reset(new LoneKernel(device, std::unique_ptr<tensorflow::OpKernel>(kernel)));
  return TfStatus();
}

TfStatus LoneKernel::Run(std::vector<tensorflow::Tensor> inputs) {
  std::vector<tensorflow::TensorValue> values;
  for (tensorflow::Tensor& input : inputs) values.emplace_back(&input);
  tensorflow::CancellationManager cancellation;
  tensorflow::ScopedStepContainer container(0, [this](const std::string& name) {
    device_->resource_manager()->Cleanup(name).IgnoreError();  // fails if no resource was made
  });
  tensorflow::OpKernelContext::Params params;
  params.device = device_;
  params.resource_manager = device_->resource_manager();
  params.op_kernel = kernel_.get();
  params.inputs = absl::Span<const tensorflow::TensorValue>(values.data(), values.size());
  params.input_alloc_attrs = absl::Span<const tensorflow::AllocatorAttributes>(attributes_.data(), values.size());
  params.output_attr_array = attributes_.data();
  params.frame_iter = tensorflow::FrameAndIter(0, 0);
  params.step_container = &container;
  params.cancellation_manager = &cancellation;
  tensorflow::OpKernelContext context(&params);
  device_->Compute(kernel_.get(), &context);
  TF_RETURN_IF_ERROR(context.status());
  tensors_.clear();
  for (int i = 0; i < context.num_outputs(); ++i) {
    tensorflow::TensorValue value = context.release_output(i);
    tensors_.emplace_back();
    if (value.is_ref()) {
      if (i == 0) reference_ = value;
    } else if (value.tensor != nullptr) {
      tensors_.back() = std::move(*value.tensor);
      delete value.tensor;
    }
  }
  return TfStatus();
}

}  // namespace fusewire::tf
