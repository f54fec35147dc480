// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/out_queue.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace pipe {

Bytes OutQueue::Append(size_t size) {
  if (blocks_.empty() || blocks_.back().size - blocks_.back().used < size)
    blocks_.emplace_back(std::max(size, kBlockBytes));
  Block& block = blocks_.back();
  Bytes room(block.memory.get() + block.used, size);
  bool joins = !pieces_.empty() && pieces_.back().data + pieces_.back().size == room.data && block.used > 0;
  if (joins) {
    pieces_.back().size += size;
  } else {
    pieces_.push_back({room.data, size});
  }
  block.used += size;
  bytes_ += size;
  appended_ += size;
  block.last = appended_;
  return room;
}

void OutQueue::AppendReference(ConstBytes bytes) {
  if (bytes.empty()) return;
  pieces_.push_back({bytes.data, bytes.size});
  bytes_ += bytes.size;
  appended_ += bytes.size;
}

void OutQueue::AppendEnd(Buffers owners, Done done) {
  ends_.push_back({appended_, std::move(owners), std::move(done)});
}

size_t OutQueue::Offer(ConstBytes* parts, size_t count, size_t bytes_max) {
  size_t filled = 0;
  size_t skip = front_written_ + offered_;
  for (const Piece& piece : pieces_) {
    if (filled == count || bytes_max == 0) break;
    if (skip >= piece.size) {
      skip -= piece.size;
      continue;
    }
    size_t size = std::min(piece.size - skip, bytes_max);
    parts[filled++] = ConstBytes(piece.data + skip, size);
    bytes_max -= size;
    offered_ += size;
    skip = 0;
  }
  return filled;
}

void OutQueue::Written(size_t bytes) {
  FUSEWIRE_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  offered_ -= std::min(bytes, offered_);
  written_ += bytes;
  size_t left = bytes + front_written_;
  while (!pieces_.empty() && left >= pieces_.front().size) {
    left -= pieces_.front().size;
    pieces_.pop_front();
  }
  front_written_ = left;
  while (!blocks_.empty() && blocks_.front().last <= written_) {
    if (blocks_.size() == 1 && pieces_.empty() && blocks_.front().size == kBlockBytes) {
      blocks_.front().used = 0;  // keep one for the next turn
      break;
    }
    if (blocks_.size() == 1) break;  // there may be room left in it
    blocks_.pop_front();
  }
  FireEnds();
}

void OutQueue::FireEnds() {
  while (!ends_.empty() && ends_.front().position <= written_) {
    End end = std::move(ends_.front());
    ends_.pop_front();
    end.owners.clear();  // before Done: the caller may reuse the memory inside it
    if (end.done) end.done(Status::Ok());
  }
}

void OutQueue::Fail(const Status& why) {
  pieces_.clear();
  blocks_.clear();
  front_written_ = 0;
  written_ = appended_;
  bytes_ = 0;
  offered_ = 0;
  while (!ends_.empty()) {
    End end = std::move(ends_.front());
    ends_.pop_front();
    end.owners.clear();
    if (end.done) end.done(why);
  }
}

void OutQueue::Trim() {
  if (pieces_.empty()) {
    blocks_.clear();
    pieces_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
}

}  // namespace pipe
}  // namespace fusewire
