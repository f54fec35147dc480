// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Encodes frames, one behind the other: whole messages, a long one chunk by chunk, and the pipe's own frames between.
// The other side of FrameReader; does no I/O itself.
// Home: the pipe's. Owns: the message whose chunks are under way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/message.h"
#include "fusewire/pipe/out_queue.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class FrameWriter {
 public:
  // Encodes into `out`, which outlives the writer.
  FrameWriter(OutQueue& out, uint32_t chunk_bytes) : out_(out), chunk_bytes_(chunk_bytes) {}

  // The chunk size that was agreed in the greeting. Before the first message.
  void SetChunkBytes(uint32_t chunk_bytes) {
    FUSEWIRE_CHECK(chunk_bytes > 0);
    FUSEWIRE_CHECK(sequence_ == 0);
    chunk_bytes_ = chunk_bytes;
  }
  uint32_t chunk_bytes() const { return chunk_bytes_; }

  // A frame of the pipe's own.
  void AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta = ConstBytes());
  // A message, or its beginning: then it has_chunks(), and no other that is longer than a chunk may begin. Returns what
  // it counts against the peer's window. `head` replaces message->head.
  uint64_t AppendMessage(Message* message, ConstBytes head, Done done);
  bool has_chunks() const { return long_.left > 0; }
  // The next chunk of the one that has_chunks().
  void AppendChunk();
  // The message that has_chunks(), if there is one, will not be written to its end.
  void Fail(const Status& why);

 private:
  struct LongSend {  // the message whose chunks are under way
    Buffers body;
    Done done;
    size_t index = 0;
    size_t offset = 0;
    uint64_t left = 0;
  };
  void AppendBody(LongSend* send, uint64_t bytes);

  OutQueue& out_;
  uint32_t chunk_bytes_;
  uint32_t sequence_ = 0;  // of the next frame
  LongSend long_;
};

}  // namespace fusewire::pipe
