// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Several tensors of one message on their way in: each description is read in turn, each content lands in its place.
// Home: any thread. Owns: the memory that they land in. Fails: Begin and EndOfMessage, naming what is wrong in the
// description or the segments; Finish with the first tensor that cannot be made.
#ifndef FUSEWIRE_TF_BRIDGE_TENSORS_H_
#define FUSEWIRE_TF_BRIDGE_TENSORS_H_

#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/tensor.h"

namespace fusewire {
namespace tf {

class TensorLandings {
 public:
  // The message's segments; null: it has none.
  explicit TensorLandings(const rpc::SegmentSizes* sizes) : sizes_(sizes) {}

  // Reads the next one.
  Status Begin(VarReader* reader, const TensorPlace& place);
  // All have been read: no segment is left over. Afterwards the sizes are not looked at any more.
  Status EndOfMessage();
  pipe::Landing Where() { return pipe::Landing::Into(places_.data(), places_.size()); }
  size_t size() const { return landings_.size(); }
  // All has landed. Tensors in host memory only; those behind the first that cannot be made are not there.
  TfStatus Finish(const TensorPlace& place, std::vector<tensorflow::Tensor>* tensors);

 private:
  const rpc::SegmentSizes* sizes_;
  std::vector<TensorLanding> landings_;
  std::vector<Bytes> places_;
};

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_BRIDGE_TENSORS_H_
