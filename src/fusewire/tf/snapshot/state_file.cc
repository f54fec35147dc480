// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/state_file.h"

#include <algorithm>

#include <absl/strings/str_cat.h>
#include "fusewire/tf/bridge/status.h"

namespace fusewire::tf {

using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

// Writers of the variable wait for one such copy.
constexpr uint64_t kPieceBytes = 1 << 20;
// With the numbers of rows of four bytes.
static_assert(kPieceBytes + 10 * (kPieceBytes / 4) <= kStateContentBytesMax);
static_assert(kTableRowBytesMax <= kPieceBytes);
constexpr int kCopiesMax = 10;  // of a holding whose shape changes during each

// Whole rows, where a row fits.
uint64_t PieceBytesOf(const HoldingReader::Layout& layout) {
  const uint64_t row = layout.row_bytes();
  return row == 0 || row > kPieceBytes ? kPieceBytes : kPieceBytes / row * row;
}

// Those that can be copied one by one: small enough for a frame, and not empty.
uint64_t RowsOf(const std::vector<HoldingReader::Layout>& layouts) {
  const HoldingReader::Layout& layout = layouts[0];
  const bool has_rows = layouts.size() == 1 && IsPlain(layout.type) && layout.shape.dims() > 0;
  const bool is_small = layout.row_bytes() > 0 && layout.row_bytes() <= kPieceBytes;
  return has_rows && is_small ? static_cast<uint64_t>(layout.shape.dim_size(0)) : 0;
}

std::string HeadOf(const Holding& holding, const std::vector<HoldingReader::Layout>& layouts) {
  const std::string node = holding.node.SerializeAsString();
  HoldingHead head;
  head.kind = static_cast<uint8_t>(holding.kind);
  head.device = holding.device;
  head.container = holding.container;
  head.name = holding.name;
  head.node = node;
  for (const HoldingReader::Layout& layout : layouts) {
    HeldTensor tensor;
    tensor.type = static_cast<uint32_t>(layout.type);
    for (int64_t dim : layout.shape.dim_sizes()) tensor.shape.push_back(static_cast<uint64_t>(dim));
    tensor.bytes = layout.bytes;
    head.tensors.push_back(std::move(tensor));
  }
  std::string out;
  AppendHoldingHead(head, &out);
  return out;
}

ConstBytes ContentOf(const std::vector<int64_t>& keys) { return ConstBytes(keys.data(), kKeyBytes * keys.size()); }

TfStatus Damaged(const Status& status) { return absl::DataLossError(status.cause()); }

Holding NamedBy(const HoldingHead& head) {
  Holding holding;
  holding.kind = static_cast<HoldingKind>(head.kind);
  holding.device = head.device.ToString();
  holding.container = head.container.ToString();
  holding.name = head.name.ToString();
  return holding;
}

// The frames of a file.
class Frames {
 public:
  Frames(const tensorflow::RandomAccessFile* file, uint64_t bytes) : file_(file), bytes_(bytes) {}

  bool done() const { return at_ == bytes_; }
  // Head and content are valid until the next call.
  TfStatus Next(ConstBytes* head, StateFrame* frame, ConstBytes* content) {
    head_.resize(kStateFrameBytes);
    TF_RETURN_IF_ERROR(Read(&head_));
    const Status read = DecodeStateFrame(head_, frame);
    if (!read.ok()) return Damaged(read);
    content_.resize(frame->bytes);
    TF_RETURN_IF_ERROR(Read(&content_));
    *head = head_;
    *content = content_;
    return TfStatus();
  }

 private:
  TfStatus Read(std::string* out) {
    if (out->size() > bytes_ - at_) return absl::DataLossError("a data file ends within a frame");
    absl::string_view read;
    TF_RETURN_IF_ERROR(file_->Read(at_, out->size(), &read, out->data()));
    if (read.size() != out->size()) return absl::DataLossError("a data file is shorter than its manifest says");
    if (read.data() != out->data()) std::copy(read.begin(), read.end(), out->begin());
    at_ += out->size();
    return TfStatus();
  }

  const tensorflow::RandomAccessFile* const file_;
  const uint64_t bytes_;
  uint64_t at_ = 0;
  std::string head_, content_;
};

}  // namespace

TfStatus StateFileSink::Create(tensorflow::Env* env, const std::string& path, std::unique_ptr<StateFileSink>* out) {
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(env->NewWritableFile(path, &file));
  out->reset(new StateFileSink(std::move(file)));
  return TfStatus();
}

TfStatus StateFileSink::Append(ConstBytes frame_head, ConstBytes content) {
  TF_RETURN_IF_ERROR(file_->Append(View(frame_head)));
  return file_->Append(View(content));
}

TfStatus StateFileSink::Close() {
  TF_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

TfStatus StateWriter::AddTitle(const std::string& title) { return AddFrame(StateFrameKind::kTitle, title); }

TfStatus StateWriter::AddFrame(StateFrameKind kind, ConstBytes content) {
  std::string head;
  AppendStateFrame(kind, content, &crc_, &head);
  bytes_ += head.size() + content.size;
  return sink_->Append(head, content);
}

TfStatus StateWriter::Add(tensorflow::Device* device, const Holding& holding, Added* added) {
  *added = Added();
  std::unique_ptr<HoldingReader> reader;
  TfStatus found = ReadHolding(device, holding, &reader);
  if (absl::IsNotFound(found)) return TfStatus();
  TF_RETURN_IF_ERROR(found);
  for (int copies = 0; copies < kCopiesMax; ++copies) {
    std::vector<HoldingReader::Layout> layouts;
    TF_RETURN_IF_ERROR(reader->Begin(&layouts));
    if (layouts.empty()) return TfStatus();
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kHead, HeadOf(holding, layouts)));
    TF_RETURN_IF_ERROR(AddPieces(reader.get(), layouts, &added->has_value));
    if (added->has_value) {
      added->rows = RowsOf(layouts);
      added->has_keys = HasKeys(holding);
      return TfStatus();
    }
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kDrop, ConstBytes()));
  }
  return absl::AbortedError(
      absl::StrCat(holding.name, " changed its shape during each of ", kCopiesMax, " attempts to copy it"));
}

TfStatus StateWriter::AddRows(tensorflow::Device* device, const Holding& holding, const std::vector<uint64_t>& rows,
                              Added* added) {
  *added = Added();
  std::unique_ptr<HoldingReader> reader;
  TfStatus found = ReadHolding(device, holding, &reader);
  if (absl::IsNotFound(found)) return TfStatus();
  TF_RETURN_IF_ERROR(found);
  std::vector<HoldingReader::Layout> layouts;
  TF_RETURN_IF_ERROR(reader->Begin(&layouts));
  if (layouts.empty()) return TfStatus();
  added->rows = RowsOf(layouts);
  if (rows.empty() || rows.back() >= added->rows) return Add(device, holding, added);
  const uint64_t row_bytes = layouts[0].row_bytes();
  const size_t rows_max = static_cast<size_t>(std::max<uint64_t>(1, kPieceBytes / row_bytes));
  TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kPatch, HeadOf(holding, layouts)));
  for (size_t at = 0; at < rows.size(); at += rows_max) {
    const size_t count = std::min(rows_max, rows.size() - at);
    piece_.clear();
    AppendRowNumbers(&rows[at], count, &piece_);
    const size_t numbers = piece_.size();
    piece_.resize(numbers + count * static_cast<size_t>(row_bytes));
    const Bytes room(&piece_[numbers], piece_.size() - numbers);
    if (!reader->ReadRows(&rows[at], count, room)) return Add(device, holding, added);
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kRows, piece_));
  }
  added->has_value = true;
  return TfStatus();
}

TfStatus StateWriter::AddKeys(tensorflow::Device* device, const Holding& holding, const std::vector<int64_t>& keys,
                              Added* added) {
  *added = Added();
  std::unique_ptr<TableLookup> lookup;
  TF_RETURN_IF_ERROR(TableLookup::Make(device, holding, &lookup));
  const size_t rows_max = static_cast<size_t>(std::max<uint64_t>(1, kPieceBytes / (kKeyBytes + lookup->row_bytes())));
  for (size_t at = 0; at < keys.size(); at += rows_max) {
    TableLookup::Found rows;
    const TfStatus read = lookup->Read(&keys[at], std::min(rows_max, keys.size() - at), &rows);
    if (absl::IsNotFound(read)) return TfStatus();
    TF_RETURN_IF_ERROR(read);
    if (at == 0) TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kPatch, HeadOf(holding, lookup->layouts())));
    piece_.clear();
    AppendKeyedRows({ContentOf(rows.keys), ContentOf(rows.gone), rows.values}, &piece_);
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kKeys, piece_));
  }
  added->has_value = added->has_keys = true;
  return TfStatus();
}

TfStatus StateWriter::AddPieces(HoldingReader* reader, const std::vector<HoldingReader::Layout>& layouts,
                                bool* is_whole) {
  *is_whole = true;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const uint64_t piece_bytes = PieceBytesOf(layouts[i]);
    for (uint64_t at = 0; at < layouts[i].bytes; at += piece_bytes) {
      piece_.resize(std::min(piece_bytes, layouts[i].bytes - at));
      *is_whole = reader->Read(i, at, Bytes(piece_.data(), piece_.size()));
      if (!*is_whole) return TfStatus();
      TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kPiece, piece_));
    }
  }
  return TfStatus();
}

TfStatus StateReader::ReadAll(ConstBytes frames) {
  while (!frames.empty()) {
    StateFrame frame;
    const Status read = DecodeStateFrame(frames, &frame);
    if (!read.ok()) return Damaged(read);
    const ConstBytes behind = frames.From(kStateFrameBytes);
    if (behind.size < frame.bytes) return absl::DataLossError("a frame that is cut off");
    TF_RETURN_IF_ERROR(Read(frames, frame, behind.Sub(0, frame.bytes)));
    frames = behind.From(frame.bytes);
  }
  return TfStatus();
}

TfStatus StateReader::Read(ConstBytes frame_head, const StateFrame& frame, ConstBytes content) {
  const Status checked = CheckStateFrame(frame_head, frame, content, &crc_);
  if (!checked.ok()) return Damaged(checked);
  switch (frame.kind) {
    case StateFrameKind::kHead: return Begin(content);
    case StateFrameKind::kPiece: return Fill(content);
    case StateFrameKind::kPatch: return BeginPatch(content);
    case StateFrameKind::kRows: return Patch(content);
    case StateFrameKind::kKeys: return PatchKeys(content);
    case StateFrameKind::kTitle: return TfStatus();
    default: is_open_ = false; return TfStatus();
  }
}

TfStatus StateReader::Begin(ConstBytes content) {
  if (is_open_) return absl::DataLossError("half a variable");
  HoldingHead head;
  Status read = DecodeHoldingHead(content, &head);
  if (!read.ok()) return Damaged(read);
  holding_ = NamedBy(head);
  if (!holding_.node.ParseFromArray(head.node.data, static_cast<int>(head.node.size)))
    return absl::DataLossError(absl::StrCat(holding_.name, " has an invalid node"));
  sizes_.clear();
  tensors_.clear();
  for (const HeldTensor& tensor : head.tensors) {
    if (tensor.bytes > bytes_max_) return absl::DataLossError(absl::StrCat(holding_.name, " is larger than its file"));
    tensors_.emplace_back();
    TF_RETURN_IF_ERROR(
        MakeTensor(static_cast<tensorflow::DataType>(tensor.type), tensor.shape, tensor.bytes, &tensors_.back()));
    sizes_.push_back(tensor.bytes);
  }
  is_open_ = true;
  at_ = filled_ = 0;
  text_.clear();
  return CloseFull();
}

TfStatus StateReader::Fill(ConstBytes piece) {
  if (!is_open_ || piece.size > sizes_[at_] - filled_) return absl::DataLossError("a piece of no variable");
  Tensor& tensor = tensors_[at_];
  if (IsPlain(tensor.dtype())) {
    std::copy_n(piece.data, piece.size, static_cast<uint8_t*>(tensor.data()) + filled_);
  } else {
    text_.append(reinterpret_cast<const char*>(piece.data), piece.size);
  }
  filled_ += piece.size;
  return CloseFull();
}

// Goes on to the next tensor that has bytes to come.
TfStatus StateReader::CloseFull() {
  while (is_open_ && filled_ == sizes_[at_]) {
    Tensor& tensor = tensors_[at_];
    if (!IsPlain(tensor.dtype())) {
      const auto type = tensor.dtype();
      TF_RETURN_IF_ERROR(ParseTensor(text_, &tensor));
      if (tensor.dtype() != type) return absl::DataLossError("a tensor whose type differs from the one in its head");
    }
    text_.clear();
    filled_ = 0;
    is_open_ = ++at_ < sizes_.size();
    if (!is_open_) {
      changed_.insert(holding_);
      state_->erase(holding_);  // its node may have changed too
      state_->emplace(std::move(holding_), HeldValue{std::move(tensors_), {}});
    }
  }
  return TfStatus();
}

TfStatus StateReader::BeginPatch(ConstBytes content) {
  HoldingHead head;
  Status read = DecodeHoldingHead(content, &head);
  if (!read.ok()) return Damaged(read);
  const auto found = state_->find(NamedBy(head));
  patched_ = nullptr;
  table_ = nullptr;
  if (is_open_ || found == state_->end()) return absl::DataLossError("rows of a variable that no earlier file has");
  if (HasKeys(found->first)) {
    changed_.insert(found->first);
    return BeginKeys(head, &found->second);
  }
  std::vector<Tensor>& tensors = found->second.tensors;
  if (tensors.size() != 1) return absl::DataLossError("rows of what has none");
  Tensor& tensor = tensors[0];
  const HeldTensor& said = head.tensors[0];
  bool is_same = IsPlain(tensor.dtype()) && tensor.dims() > 0 && tensor.TotalBytes() == said.bytes &&
                 static_cast<uint32_t>(tensor.dtype()) == said.type &&
                 said.shape.size() == static_cast<size_t>(tensor.dims());
  for (size_t i = 0; is_same && i < said.shape.size(); ++i)
    is_same = static_cast<uint64_t>(tensor.dim_size(static_cast<int>(i))) == said.shape[i];
  if (!is_same) return absl::DataLossError("rows of a variable of another shape");
  patched_ = &tensor;
  return TfStatus();
}

TfStatus StateReader::BeginKeys(const HoldingHead& head, HeldValue* table) {
  const auto type_of = [&head](size_t i) { return static_cast<tensorflow::DataType>(head.tensors[i].type); };
  const bool has_types = head.tensors.size() == 2 && type_of(0) == tensorflow::DT_INT64 &&
                         tensorflow::DataType_IsValid(type_of(1)) && IsPlain(type_of(1));
  const bool has_shape = has_types && !head.tensors[1].shape.empty() && head.tensors[1].shape[0] == 0;
  if (!has_shape) return absl::DataLossError("rows of a table without their shape");
  table_row_ = {type_of(1), TensorShape(), static_cast<uint64_t>(tensorflow::DataTypeSize(type_of(1)))};
  for (size_t i = 1; i < head.tensors[1].shape.size(); ++i) {
    const uint64_t dim = head.tensors[1].shape[i];
    if (dim == 0 || table_row_.bytes > kStateContentBytesMax / dim)
      return absl::DataLossError("rows of a table that no frame could hold");
    table_row_.bytes *= dim;
    table_row_.shape.AddDim(static_cast<int64_t>(dim));
  }
  if (!table->tensors.empty()) {
    const Tensor& whole = table->tensors[1];
    TensorShape row = whole.shape();
    if (row.dims() > 0) row.RemoveDim(0);
    if (whole.dtype() != table_row_.type || row != table_row_.shape)
      return absl::DataLossError("rows of a table of another shape");
  }
  table_ = table;
  return TfStatus();
}

TfStatus StateReader::PatchKeys(ConstBytes content) {
  if (table_ == nullptr) return absl::DataLossError("rows of no table");
  KeyedRows rows;
  const Status read = DecodeKeyedRows(content, table_row_.bytes, &rows);
  if (!read.ok()) return Damaged(read);
  const auto made = [](tensorflow::DataType type, const TensorShape& shape, ConstBytes bytes) {
    Tensor tensor(type, shape);
    std::copy_n(bytes.data, bytes.size, static_cast<uint8_t*>(tensor.data()));
    return tensor;
  };
  const auto keys = [&made](ConstBytes bytes) {
    return made(tensorflow::DT_INT64, TensorShape({static_cast<int64_t>(bytes.size / kKeyBytes)}), bytes);
  };
  TensorShape shape({static_cast<int64_t>(rows.keys.size / kKeyBytes)});
  shape.AppendShape(table_row_.shape);
  table_->changes.push_back({keys(rows.keys), made(table_row_.type, shape, rows.content), keys(rows.gone)});
  return TfStatus();
}

TfStatus StateReader::Patch(ConstBytes content) {
  if (patched_ == nullptr || patched_->dim_size(0) == 0) return absl::DataLossError("rows of no variable");
  const uint64_t rows_max = static_cast<uint64_t>(patched_->dim_size(0));
  const size_t row_bytes = patched_->TotalBytes() / static_cast<size_t>(rows_max);
  std::vector<uint64_t> rows;
  ConstBytes bytes;
  Status read = DecodeRows(content, rows_max, row_bytes, &rows, &bytes);
  if (!read.ok()) return Damaged(read);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(bytes.data + i * row_bytes, row_bytes, static_cast<uint8_t*>(patched_->data()) + rows[i] * row_bytes);
  return TfStatus();
}

TfStatus ReadState(tensorflow::Env* env, const std::string& path, const std::string& task, const StateFile& file,
                   HeldState* state) {
  std::unique_ptr<tensorflow::RandomAccessFile> open;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &open));
  Frames frames(open.get(), file.bytes);
  StateReader reader(file.bytes, state);
  bool has_title = false;
  while (!frames.done()) {
    ConstBytes head, content;
    StateFrame frame;
    TF_RETURN_IF_ERROR(frames.Next(&head, &frame, &content));
    const bool is_title = frame.kind == StateFrameKind::kTitle;
    if (is_title == has_title) return absl::DataLossError("a data file without its title, or with two");
    TF_RETURN_IF_ERROR(reader.Read(head, frame, content));
    if (is_title && content.ToString() != EncodeTitle(task, file.generation))
      return absl::DataLossError("a data file that belongs to another snapshot");
    has_title = true;
  }
  if (reader.is_open() || !has_title || reader.crc() != file.crc)
    return absl::DataLossError("the checksum of a data file differs from the one in its manifest");
  return TfStatus();
}

}  // namespace fusewire::tf
