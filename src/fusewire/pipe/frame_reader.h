// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Cuts a stream of bytes into frames and lands bodies where the receiver wants them; does no I/O itself.
// Home: the pipe's. Owns: at most one unfinished header with its meta, and the state of two bodies: a long one in
// chunks, and a short one that stands between them. Fails: with kCorrupt at the first frame that breaks docs/wire.md,
// with kOverloaded without memory; in both cases for good.
#pragma once

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

// The body of one message while it comes in. Owns the meta, and the view's memory if the body does not come at once.
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

class FrameSink : public FrameHandler {
 public:
  // A frame of the pipe's own, except chunks.
  virtual Status OnControl(const wire::FrameHeader& header, ConstBytes meta) = 0;

 protected:
  ~FrameSink() = default;
};

class FrameReader {
 public:
  FrameReader(const wire::Limits& limits, FrameSink* sink) : limits_(limits), sink_(sink) {}

  // The chunk size that was agreed in the hello.
  void SetChunkBytes(uint32_t chunk_bytes) { limits_.chunk_bytes_max = chunk_bytes; }

  // As in transport::ConnectionHandler.
  size_t Landing(Bytes* parts, size_t parts_max) const;
  size_t LookAhead() const;
  // Of a body that has begun, what has not come yet.
  uint64_t Expected() const { return filling_ != nullptr ? filling_->left() : long_.active() ? long_.left() : 0; }
  // The same of all bodies that have begun: a short one may stand in a long one.
  uint64_t Arriving() const { return (long_.active() ? long_.left() : 0) + (short_.active() ? short_.left() : 0); }
  Status OnLanded(size_t bytes);
  Status OnBytes(ConstBytes bytes);

  // How many frames have begun.
  uint32_t frames() const { return sequence_; }
  // For how long header and meta of the same frame have been coming in, as far as these calls have seen it.
  int64_t MetaAgeNs(int64_t now_ns);

  // Whether the landing is of this message.
  bool IsFilling(wire::FrameKind kind, uint64_t call) const;
  // The message with this kind and call, if its body is coming in: the rest goes nowhere.
  void Abandon(wire::FrameKind kind, uint64_t call);

 private:
  Status TakeWholeFrame(ConstBytes* bytes);
  Status TakeHeader(ConstBytes* bytes);
  Status TakeMeta(ConstBytes* bytes);
  Status OnHeaderBytes(const uint8_t* header_bytes);
  Status OnFrame(const uint8_t* header_bytes, ConstBytes meta, Buffer meta_memory, ConstBytes* behind);
  Status OnMessageFrame(ConstBytes meta, Buffer meta_memory, ConstBytes* behind);
  Status OnChunkFrame();
  Status TakeBody(ConstBytes* bytes);
  Status FinishFrame();

  wire::Limits limits_;
  FrameSink* const sink_;
  wire::FrameHeader header_;  // of the frame that is being read
  // If it did not come at once:
  uint8_t header_bytes_[wire::kHeaderBytes];
  size_t header_filled_ = 0;
  Buffer meta_;
  size_t meta_filled_ = 0;
  uint32_t sequence_ = 0;    // of the next frame
  Body long_;                // in chunks
  Body short_;               // in one frame
  Body* filling_ = nullptr;  // the one whose bytes come now
  uint64_t frame_left_ = 0;  // of them, until the next header
  size_t look_ahead_ = 2048;
  uint64_t meta_seen_ = 0;     // whose meta was coming in at the last MetaAgeNs, counted from 1; or 0
  int64_t meta_since_ns_ = 0;  // when it was seen first
};

}  // namespace fusewire::pipe
