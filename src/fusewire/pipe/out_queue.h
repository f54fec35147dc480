// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The bytes to write, in wire order: small pieces are copied side by side into blocks, large ones held by reference.
// Home: the pipe's. Owns: its blocks, and every Buffer until the network is done with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"

namespace fusewire::pipe {

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
  bool empty() const { return bytes_ == 0; }
  // Gives back memory that an idle queue does not need.
  void Trim();

 private:
  static constexpr size_t kBlockBytes = 16 * 1024;
  struct Block {
    explicit Block(size_t room) : memory(new uint8_t[room]), size(room) {}
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

  std::deque<ConstBytes> parts_;
  std::deque<Block> blocks_;
  std::deque<End> ends_;
  size_t front_written_ = 0;  // of the first part
  size_t bytes_ = 0;
  size_t offered_ = 0;     // of them
  uint64_t appended_ = 0;  // stream positions
  uint64_t written_ = 0;
};

}  // namespace fusewire::pipe
