// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/state_file.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include "fusewire/tf/bridge/status.h"

namespace fusewire::tf {

using tensorflow::Tensor;

namespace {

// Writers of the variable wait for one such copy.
constexpr uint64_t kPieceBytes = 1 << 20;
static_assert(kPieceBytes <= kStateContentBytesMax);
constexpr int kCopiesMax = 10;  // of a holding whose shape changes during each

// Whole rows, where a row fits.
uint64_t PieceBytesOf(const HoldingReader::Layout& layout) {
  const uint64_t row = layout.row_bytes();
  return row == 0 || row > kPieceBytes ? kPieceBytes : kPieceBytes / row * row;
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

TfStatus Damaged(const Status& status) { return absl::DataLossError(status.cause()); }

// One holding as its frames come.
class Coming {
 public:
  explicit Coming(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  TfStatus Begin(ConstBytes content) {
    HoldingHead head;
    Status read = DecodeHoldingHead(content, &head);
    if (!read.ok()) return Damaged(read);
    held_ = Held();
    Holding& holding = held_.holding;
    holding.kind = static_cast<HoldingKind>(head.kind);
    holding.device = head.device.ToString();
    holding.container = head.container.ToString();
    holding.name = head.name.ToString();
    if (!holding.node.ParseFromArray(head.node.data, static_cast<int>(head.node.size)))
      return absl::DataLossError(absl::StrCat(holding.name, " has no sane node"));
    sizes_.clear();
    for (const HeldTensor& tensor : head.tensors) {
      if (tensor.bytes > bytes_max_) return absl::DataLossError(absl::StrCat(holding.name, " is larger than its file"));
      held_.tensors.emplace_back();
      TF_RETURN_IF_ERROR(MakeTensor(static_cast<tensorflow::DataType>(tensor.type), tensor.shape, tensor.bytes,
                                    &held_.tensors.back()));
      sizes_.push_back(tensor.bytes);
    }
    is_open_ = true;
    at_ = filled_ = 0;
    text_.clear();
    return CloseFull();
  }

  TfStatus Fill(ConstBytes piece) {
    if (!is_open_ || piece.size > sizes_[at_] - filled_) return absl::DataLossError("a piece of no variable");
    Tensor& tensor = held_.tensors[at_];
    if (IsPlain(tensor.dtype())) {
      std::copy_n(piece.data, piece.size, static_cast<uint8_t*>(tensor.data()) + filled_);
    } else {
      text_.append(reinterpret_cast<const char*>(piece.data), piece.size);
    }
    filled_ += piece.size;
    return CloseFull();
  }

  bool is_open() const { return is_open_; }
  void Drop() { is_open_ = false; }
  // True, once: all of it has come.
  bool Take(Held* held) {
    if (!is_whole_) return false;
    is_whole_ = false;
    *held = std::move(held_);
    return true;
  }

 private:
  // Goes on to the next tensor that has bytes to come.
  TfStatus CloseFull() {
    while (is_open_ && filled_ == sizes_[at_]) {
      Tensor& tensor = held_.tensors[at_];
      if (!IsPlain(tensor.dtype())) {
        const auto type = tensor.dtype();
        TF_RETURN_IF_ERROR(ParseTensor(text_, &tensor));
        if (tensor.dtype() != type) return absl::DataLossError("a tensor of another type than its head says");
      }
      text_.clear();
      filled_ = 0;
      is_open_ = ++at_ < sizes_.size();
      is_whole_ = !is_open_;
    }
    return TfStatus();
  }

  const uint64_t bytes_max_;
  Held held_;
  std::vector<uint64_t> sizes_;
  size_t at_ = 0;  // the tensor that is being filled
  uint64_t filled_ = 0;
  std::string text_;
  bool is_open_ = false;
  bool is_whole_ = false;
};

// The frames of a file, with their checksums.
class Frames {
 public:
  Frames(const tensorflow::RandomAccessFile* file, uint64_t bytes) : file_(file), bytes_(bytes) {}

  bool done() const { return at_ == bytes_; }
  uint32_t crc() const { return crc_; }
  // The content is valid until the next call.
  TfStatus Next(StateFrame* frame, ConstBytes* content) {
    std::string head(kStateFrameBytes, '\0');
    TF_RETURN_IF_ERROR(Read(&head));
    Status checked = DecodeStateFrame(head, frame);
    if (!checked.ok()) return Damaged(checked);
    content_.resize(frame->bytes);
    TF_RETURN_IF_ERROR(Read(&content_));
    *content = content_;
    checked = CheckStateFrame(head, *frame, *content, &crc_);
    return checked.ok() ? TfStatus() : Damaged(checked);
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
  uint32_t crc_ = 0;
  std::string content_;
};

}  // namespace

TfStatus StateWriter::Create(tensorflow::Env* env, const std::string& path, const std::string& title,
                             std::unique_ptr<StateWriter>* out) {
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(env->NewWritableFile(path, &file));
  out->reset(new StateWriter(std::move(file)));
  return (*out)->AddFrame(StateFrameKind::kTitle, title);
}

TfStatus StateWriter::AddFrame(StateFrameKind kind, ConstBytes content) {
  std::string frame;
  AppendStateFrame(kind, content, &crc_, &frame);
  TF_RETURN_IF_ERROR(file_->Append(frame));
  TF_RETURN_IF_ERROR(file_->Append(View(content)));
  bytes_ += frame.size() + content.size;
  return TfStatus();
}

TfStatus StateWriter::Add(tensorflow::Device* device, const Holding& holding, bool* has_value) {
  *has_value = false;
  std::unique_ptr<HoldingReader> reader;
  TfStatus found = ReadHolding(device, holding, &reader);
  if (absl::IsNotFound(found)) return TfStatus();
  TF_RETURN_IF_ERROR(found);
  for (int copies = 0; copies < kCopiesMax; ++copies) {
    std::vector<HoldingReader::Layout> layouts;
    TF_RETURN_IF_ERROR(reader->Begin(&layouts));
    if (layouts.empty()) return TfStatus();
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kHead, HeadOf(holding, layouts)));
    TF_RETURN_IF_ERROR(AddPieces(reader.get(), layouts, has_value));
    if (*has_value) return TfStatus();
    TF_RETURN_IF_ERROR(AddFrame(StateFrameKind::kDrop, ConstBytes()));
  }
  return absl::AbortedError(
      absl::StrCat(holding.name, " changed its shape during each of ", kCopiesMax, " attempts to copy it"));
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

TfStatus StateWriter::Close() {
  TF_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

TfStatus ReadState(tensorflow::Env* env, const std::string& path, const Manifest& manifest, std::vector<Held>* out) {
  std::unique_ptr<tensorflow::RandomAccessFile> file;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &file));
  Frames frames(file.get(), manifest.bytes);
  Coming coming(manifest.bytes);
  bool has_title = false;
  while (!frames.done()) {
    StateFrame frame;
    ConstBytes content;
    TF_RETURN_IF_ERROR(frames.Next(&frame, &content));
    if (frame.kind == StateFrameKind::kTitle) {
      if (has_title || content.ToString() != EncodeTitle(manifest.task, manifest.generation))
        return absl::DataLossError("a data file of another snapshot than its manifest's");
      has_title = true;
    } else if (!has_title) {
      return absl::DataLossError("a data file without a title");
    } else if (frame.kind == StateFrameKind::kHead) {
      if (coming.is_open()) return absl::DataLossError("a data file with half a variable");
      TF_RETURN_IF_ERROR(coming.Begin(content));
    } else if (frame.kind == StateFrameKind::kPiece) {
      TF_RETURN_IF_ERROR(coming.Fill(content));
    } else {
      coming.Drop();
    }
    Held held;
    if (coming.Take(&held)) out->push_back(std::move(held));
  }
  if (coming.is_open() || !has_title || frames.crc() != manifest.crc)
    return absl::DataLossError("a data file has another checksum than its manifest says");
  return TfStatus();
}

}  // namespace fusewire::tf
