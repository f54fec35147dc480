// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Several incoming tensors of one message: each description is read in turn, and each content lands in its memory.
// Home: any thread. Owns: the memory into which they land. Fails: Begin and EndOfMessage, with the error in the
// description or the segments; Finish, with the first tensor that can't be made.
#pragma once

#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/tensor.h"

namespace fusewire::tf {

class TensorLandings {
 public:
  // The message's segments; null: it has none.
  explicit TensorLandings(const rpc::SegmentSizes* sizes) : sizes_(sizes) {}

  // Reads the next one.
  Status Begin(VarReader* reader, const TensorPlace& place);
  // After all have been read: checks that no segment is left. The sizes are not used afterwards.
  Status EndOfMessage();
  pipe::Landing Where() { return pipe::Landing::Into(places_.data(), places_.size()); }
  size_t size() const { return landings_.size(); }
  // After all has landed. For tensors in host memory only; stops at the first that can't be made.
  TfStatus Finish(const TensorPlace& place, std::vector<tensorflow::Tensor>* tensors);

 private:
  const rpc::SegmentSizes* sizes_;
  std::vector<TensorLanding> landings_;
  std::vector<Bytes> places_;
};

}  // namespace fusewire::tf
