// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Encodes frames, one behind the other: whole messages, a long one chunk by chunk, and the pipe's own frames between.
// The other side of FrameReader; does no I/O itself.
// Home: the pipe's. Owns: the message whose chunks are under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/fifo.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

// The bytes to write, in wire order: small pieces are copied side by side into blocks, large ones held by reference.
// Owns its blocks, and every Buffer until the network is done with it; a queue that is empty has no block.
class OutQueue {
 public:
  // Room for `size` bytes at the end, to be filled at once.
  Bytes Append(size_t size);
  // Bytes of another's memory; it must stay valid until they are written.
  void AppendReference(ConstBytes bytes);
  // The Buffers to give back, and the Done to call, once everything appended so far is written.
  void AppendEnd(Buffers owners, Done done);

  // Offers the network up to `count` parts behind what it was offered before, at most `bytes_max` bytes; returns how
  // many.
  size_t Offer(ConstBytes* parts, size_t count, size_t bytes_max);
  // The network has left what it did not take of its last offer: it is offered again.
  void TakeBackOffers() { offered_ = 0; }
  // The first `bytes` bytes are written: gives back memory and fires Dones as they pass.
  void Written(size_t bytes);
  // Nothing will be written any more.
  void Fail(const Status& why);

  size_t bytes() const { return bytes_; }
  size_t parts() const { return parts_.size(); }
  bool empty() const { return bytes_ == 0; }
  // Gives back memory that an idle queue does not need.
  void Trim();

 private:
  struct Block {
    std::unique_ptr<uint8_t[]> memory;
    size_t size;
    size_t used = 0;
    uint64_t last = 0;  // the stream position behind the last byte in it
  };
  struct End {
    uint64_t position;
    Buffers owners;
    Done done;
  };

  void FireEnds();
  void DcheckSums() const;

  Fifo<ConstBytes> parts_;
  Fifo<Block> blocks_;
  Fifo<End> ends_;
  size_t front_written_ = 0;  // of the first part
  size_t bytes_ = 0;
  size_t offered_ = 0;     // of them
  uint64_t appended_ = 0;  // stream positions
  uint64_t written_ = 0;
};

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
