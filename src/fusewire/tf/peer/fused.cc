// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/fused.h"

#include <cstring>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/dma_helper.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

using tensorflow::Tensor;

namespace {

constexpr const char* kUrl = "fusewire/receives";

TfStatus WrongReceive(const std::string& what) {
  return absl::DataLossError(absl::StrCat("a fused receive cannot be read: ", what));
}

ConstBytes ContentOf(const Tensor& vector) {
  auto content = vector.tensor_data();
  return ConstBytes(content.data(), content.size());
}

// Not counted as a copy: gRPC copies protobufs in any case.
void Copy(Bytes to, ConstBytes from) {
  if (!from.empty()) std::memcpy(to.data, from.data, from.size);
}

// The content of one tensor, on its way from the answer into its place.
TfStatus Land(VarReader* head, VarReader* segments, const TensorPlace& place, TensorLanding* landing) {
  ConstBytes segment;
  const Status taken = DecodeFusedSegment(head, segments, &segment);
  if (!taken.ok()) return WrongReceive(taken.cause());
  TfStatus begun = landing->Begin(head, place, [segment] { return uint64_t{segment.size}; });
  if (begun.ok() && landing->has_segment()) Copy(landing->place(), segment);
  return begun;
}

}  // namespace

void AskFused(const ParsedKeys& keys, tensorflow::RecvTensorRequest* request) {
  FUSEWIRE_DCHECK(!keys.empty());
  auto text = [](const tensorflow::Rendezvous::ParsedKey& key) {
    return std::string(key.FullKey().data(), key.FullKey().size());
  };
  request->set_rendezvous_key(text(keys.front()));
  request->mutable_transport_options()->set_type_url(kUrl);
  std::string all;
  AppendVarint(&all, keys.size());
  for (const auto& key : keys) AppendText(&all, text(key));
  request->mutable_transport_options()->set_value(all);
}

bool IsFused(const tensorflow::RecvTensorRequest& request) { return request.transport_options().type_url() == kUrl; }

TfStatus ReadFused(const tensorflow::RecvTensorRequest& request, ParsedKeys* keys) {
  const std::string value(request.transport_options().value());
  VarReader reader(ConstBytes(value.data(), value.size()));
  uint64_t count = 0;
  const Status counted = DecodeFusedCount(&reader, &count);
  if (!counted.ok()) return WrongReceive(counted.cause());
  // No reserve: each byte could claim to be a key, which takes some hundred.
  for (keys->clear(); count > 0; --count) {
    absl::string_view text = View(reader.Text());
    TF_RETURN_IF_ERROR(tensorflow::Rendezvous::ParseKey({text.data(), text.size()}, &keys->emplace_back()));
  }
  return reader.ok() && reader.done() ? TfStatus() : WrongReceive("its keys are cut off, or something follows them");
}

TfStatus EncodeFused(std::vector<FusedItem>* items, uint64_t bytes_max, Tensor* answer) {
  std::string head;
  Buffers segments;
  uint64_t bytes = kFusedIntroductionBytes + items->size();  // each item's kind
  for (FusedItem& item : *items) {
    std::string description;
    Buffers content;
    if (item.kind == FusedKind::kValue) {
      TF_RETURN_IF_ERROR(AppendTensor(item.tensor, &description, &content));
      uint64_t content_bytes = content.empty() ? 0 : content[0].size();
      std::string size;
      AppendVarint(&size, content_bytes);
      uint64_t more = size.size() + description.size() + content_bytes;
      if (bytes + more <= bytes_max) {
        bytes += more;
        head.push_back(static_cast<char>(FusedKind::kValue));
        head.append(size).append(description);
        if (!content.empty()) segments.push_back(std::move(content[0]));
        continue;
      }
      item.kind = FusedKind::kApart;
    }
    head.push_back(static_cast<char>(item.kind));
  }
  *answer = Tensor(tensorflow::DT_UINT8, tensorflow::TensorShape({static_cast<int64_t>(bytes)}));
  if (!answer->IsInitialized()) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a fused receive of ", bytes, " bytes"));
  }
  std::string introduction;
  AppendFixed64(&introduction, kFusedMagic);
  AppendFixed64(&introduction, head.size());
  Bytes left(tensorflow::DMAHelper::base(answer), static_cast<size_t>(bytes));
  auto put = [&left](ConstBytes part) {
    Copy(left, part);
    left = left.From(part.size);
  };
  put(ConstBytes(introduction.data(), introduction.size()));
  put(ConstBytes(head.data(), head.size()));
  for (const Buffer& segment : segments) put(segment.bytes());
  return TfStatus();
}

bool IsFusedAnswer(const Tensor& answer) {
  if (answer.dtype() != tensorflow::DT_UINT8 || answer.dims() != 1) return false;
  return IsFusedAnswer(ContentOf(answer));
}

void DecodeFused(const Tensor& answer, const std::vector<TensorPlace>& places, const FusedDone& done) {
  VarReader head{ConstBytes()}, segments{ConstBytes()};
  Status read = DecodeFusedAnswer(ContentOf(answer), &head, &segments);
  TfStatus status = read.ok() ? TfStatus() : WrongReceive(read.cause());
  // `places` may be destroyed in the last call of `done`.
  for (size_t i = 0, count = places.size(); i < count; ++i) {
    FusedKind kind = FusedKind::kValue;
    if (status.ok()) {
      read = DecodeFusedItem(&head, i, count, &kind);
      if (!read.ok()) status = WrongReceive(read.cause());
    }
    TensorLanding landing;
    if (status.ok() && kind == FusedKind::kValue) status = Land(&head, &segments, places[i], &landing);
    if (!status.ok()) {
      done(i, status, FusedKind::kValue, Tensor());
    } else if (kind == FusedKind::kValue) {
      landing.Finish(places[i], [done, i](const TfStatus& landed, const Tensor& tensor) {
        done(i, landed, FusedKind::kValue, tensor);
      });
    } else {
      done(i, TfStatus(), kind, Tensor());
    }
  }
}

}  // namespace fusewire::tf
