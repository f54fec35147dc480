// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The body of one message while it comes in.
// Home: the pipe's. Owns: the meta, and the view's memory if the body does not come at once. Fails: Begin, without
// memory.
#pragma once

#include <cstdint>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class Body {
 public:
  // The header is complete, the body is not.
  Status Begin(const wire::FrameHeader& header, Buffer meta, const Landing& landing);
  bool active() const { return active_; }
  uint64_t left() const { return left_; }
  const wire::FrameHeader& header() const { return header_; }
  ConstBytes meta() const { return meta_.bytes(); }
  ConstBytes view() const { return view_.bytes(); }

  // Takes bytes of the body that came through other memory than the receiver's; no more than left().
  void Fill(ConstBytes bytes);
  // Where the next `limit` bytes at the most should go; 0 parts if they are not wanted anywhere.
  size_t Where(Bytes* parts, size_t parts_max, uint64_t limit) const;
  // The first `bytes` of Where() are filled.
  void Advance(uint64_t bytes);
  // The rest goes nowhere: the receiver's memory is not touched again.
  void Abandon();
  void End();

 private:
  bool active_ = false;
  bool discard_ = false;
  wire::FrameHeader header_;
  Buffer meta_;
  Buffer view_;
  Bytes view_part_;
  const Bytes* parts_ = nullptr;
  size_t count_ = 0;
  size_t index_ = 0;   // of the part that is being filled
  size_t offset_ = 0;  // in it
  uint64_t left_ = 0;
};

}  // namespace fusewire::pipe
