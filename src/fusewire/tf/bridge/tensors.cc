// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensors.h"

#include <string>
#include "fusewire/base/check.h"

namespace fusewire::tf {

Status TensorLandings::Begin(VarReader* reader, const TensorPlace& place) {
  landings_.emplace_back();
  TensorLanding& landing = landings_.back();
  TfStatus begun = landing.Begin(reader, place, [this] {
    return sizes_ != nullptr && places_.size() < sizes_->count() ? sizes_->at(places_.size()) : UINT64_MAX;
  });
  if (!begun.ok()) return NotBegun(begun);
  if (landing.has_segment()) places_.push_back(landing.place());
  FUSEWIRE_DCHECK(places_.size() <= landings_.size());
  return Status::Ok();
}

Status TensorLandings::EndOfMessage() {
  size_t segments = sizes_ != nullptr ? sizes_->count() : 0;
  sizes_ = nullptr;
  return places_.size() == segments ? Status::Ok() : Status::Corrupt("a segment that no tensor names");
}

TfStatus TensorLandings::Finish(const TensorPlace& place, std::vector<tensorflow::Tensor>* tensors) {
  TfStatus status;
  tensors->reserve(tensors->size() + landings_.size());
  for (TensorLanding& landing : landings_) {
    landing.Finish(place, [&status, tensors](const TfStatus& made, const tensorflow::Tensor& tensor) {
      status = made;
      tensors->push_back(tensor);
    });
    if (!status.ok()) break;
  }
  landings_.clear();
  return status;
}

}  // namespace fusewire::tf
