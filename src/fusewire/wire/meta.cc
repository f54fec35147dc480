// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/meta.h"

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/wire/coder.h"

namespace fusewire::wire {
namespace {

constexpr uint16_t kDeadFlag = 1;
constexpr uint16_t kEncodedFlag = 2;
constexpr size_t kTensorBytesMin = 16;  // without a name and without dimensions

// Not in the middle of a UTF-8 character.
void AppendCutText(const std::string& text, std::string* out) {
  size_t size = std::min(text.size(), kStatusTextBytesMax);
  if (size < text.size()) {
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;
  }
  AppendText(out, text.data(), size);
}

void AppendTensor(const TensorMeta& meta, std::string* out) {
  FUSEWIRE_CHECK(meta.dims.size() <= UINT16_MAX);
  Append(out, meta.type);
  Append(out, static_cast<uint16_t>((meta.dead ? kDeadFlag : 0) | (meta.encoded ? kEncodedFlag : 0)));
  Append(out, static_cast<uint16_t>(meta.dims.size()));
  AppendText(out, meta.name);
  Append(out, meta.bytes);
  for (int64_t dim : meta.dims) Append(out, dim);
}

Status ReadTensor(Reader* reader, TensorMeta* meta) {
  meta->type = reader->Number<uint16_t>();
  const uint16_t flags = reader->Number<uint16_t>();
  const uint16_t rank = reader->Number<uint16_t>();
  const ConstBytes name = reader->Text();
  meta->bytes = reader->Number<uint64_t>();
  const ConstBytes dims = reader->Take(rank * sizeof(int64_t));
  if (!reader->ok()) return Truncated("tensor");
  if ((flags & ~(kDeadFlag | kEncodedFlag)) != 0) {
    return Status::Corrupt("tensor: flags " + std::to_string(flags) + ", limit " +
                           std::to_string(kDeadFlag | kEncodedFlag));
  }
  meta->dead = (flags & kDeadFlag) != 0;
  meta->encoded = (flags & kEncodedFlag) != 0;
  if (meta->dead && meta->bytes != 0) return Status::Corrupt("tensor: dead, but bytes " + std::to_string(meta->bytes));
  meta->name.assign(reinterpret_cast<const char*>(name.data), name.size);
  meta->dims.resize(rank);
  for (size_t i = 0; i < rank; ++i) meta->dims[i] = Load<int64_t>(dims.data + i * sizeof(int64_t));
  Result<int64_t> count = ElementCount(*meta);
  return count.status();
}

}  // namespace

void AppendStatus(const Status& status, std::string* out) {
  Append(out, status.app_code());
  AppendCutText(status.cause(), out);
  AppendCutText(status.peer(), out);
  AppendCutText(status.phase(), out);
  AppendCutText(status.next(), out);
}

Status DecodeStatus(Code code, ConstBytes in, Status* out) {
  Reader reader(in);
  const uint32_t app_code = reader.Number<uint32_t>();
  const ConstBytes cause = reader.Text();
  const ConstBytes peer = reader.Text();
  const ConstBytes phase = reader.Text();
  const ConstBytes next = reader.Text();
  if (!reader.ok()) return Truncated("status");
  if (!reader.left().empty()) {
    return Status::Corrupt("status: " + std::to_string(reader.left().size) + " bytes behind its end");
  }
  if (app_code != 0 && code != Code::kApplication) {
    return Status::Corrupt("status: app_code " + std::to_string(app_code) + " with code " + CodeName(code));
  }
  Status status =
      code == Code::kApplication ? Status::Application(app_code, cause.ToString()) : Status(code, cause.ToString());
  *out = status.Peer(peer.ToString()).Phase(phase.ToString()).Next(next.ToString());
  return Status();
}

Result<int64_t> ElementCount(const TensorMeta& meta) {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;  // a dimension of 0 makes the tensor empty, however large the others are
  for (int64_t dim : meta.dims) {
    if (dim < 0) return Status::Corrupt("tensor: dimension " + std::to_string(dim) + ", must be at least 0");
    empty |= dim == 0;
    overflow |= __builtin_mul_overflow(count, dim, &count);
  }
  if (empty) return int64_t{0};
  if (overflow) return Status::Corrupt("tensor: dimensions multiply to more than 63 bits");
  return count;
}

void AppendTensors(const std::vector<TensorMeta>& tensors, std::string* out) {
  FUSEWIRE_CHECK(tensors.size() <= UINT16_MAX);
  Append(out, static_cast<uint16_t>(tensors.size()));
  for (const TensorMeta& meta : tensors) AppendTensor(meta, out);
}

Status DecodeTensors(ConstBytes* in, std::vector<TensorMeta>* out) {
  Reader reader(*in);
  const uint16_t count = reader.Number<uint16_t>();
  // Checked before the vector grows: the peer must have sent as many bytes as a count makes us allocate.
  if (!reader.ok() || reader.left().size < count * kTensorBytesMin) return Truncated("tensors");
  std::vector<TensorMeta> tensors(count);
  for (TensorMeta& meta : tensors) FUSEWIRE_TRY(ReadTensor(&reader, &meta));
  *in = reader.left();
  *out = std::move(tensors);
  return Status();
}

}  // namespace fusewire::wire
