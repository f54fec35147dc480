// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/out_queue.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {

Bytes OutQueue::Append(size_t size) {
  if (blocks_.empty() || blocks_.back().size - blocks_.back().used < size)
    blocks_.emplace_back(std::max(size, kBlockBytes));
  Block& block = blocks_.back();
  Bytes room(block.memory.get() + block.used, size);
  bool joins = !parts_.empty() && parts_.back().data + parts_.back().size == room.data && block.used > 0;
  if (joins) {
    parts_.back().size += size;
  } else {
    parts_.emplace_back(room.data, size);
  }
  block.used += size;
  FUSEWIRE_DCHECK(block.used <= block.size);
  bytes_ += size;
  appended_ += size;
  block.last = appended_;
  DcheckSums();
  return room;
}

// The unwritten bytes are exactly those in the parts; the network has some of them.
void OutQueue::DcheckSums() const {
  FUSEWIRE_DCHECK(appended_ - written_ == bytes_);
  FUSEWIRE_DCHECK(offered_ <= bytes_);
  FUSEWIRE_DCHECK(parts_.empty() == (bytes_ == 0));
  FUSEWIRE_DCHECK(parts_.empty() ? front_written_ == 0 : front_written_ < parts_.front().size);
}

void OutQueue::AppendReference(ConstBytes bytes) {
  if (bytes.empty()) return;
  parts_.push_back(bytes);
  bytes_ += bytes.size;
  appended_ += bytes.size;
  DcheckSums();
}

void OutQueue::AppendEnd(Buffers owners, Done done) {
  FUSEWIRE_DCHECK(ends_.empty() || ends_.back().position <= appended_);
  ends_.push_back({appended_, std::move(owners), std::move(done)});
}

size_t OutQueue::Offer(ConstBytes* parts, size_t count, size_t bytes_max) {
  size_t filled = 0;
  size_t skip = front_written_ + offered_;
  for (const ConstBytes& part : parts_) {
    if (filled == count || bytes_max == 0) break;
    if (skip >= part.size) {
      skip -= part.size;
      continue;
    }
    size_t size = std::min(part.size - skip, bytes_max);
    parts[filled++] = ConstBytes(part.data + skip, size);
    bytes_max -= size;
    offered_ += size;
    skip = 0;
  }
  DcheckSums();
  return filled;
}

void OutQueue::Written(size_t bytes) {
  FUSEWIRE_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  offered_ -= std::min(bytes, offered_);
  written_ += bytes;
  size_t left = bytes + front_written_;
  while (!parts_.empty() && left >= parts_.front().size) {
    left -= parts_.front().size;
    parts_.pop_front();
  }
  front_written_ = left;
  DcheckSums();
  while (!blocks_.empty() && blocks_.front().last <= written_) {
    if (blocks_.size() == 1 && parts_.empty() && blocks_.front().size == kBlockBytes) {
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
  parts_.clear();
  blocks_.clear();
  front_written_ = 0;
  written_ = appended_;
  bytes_ = 0;
  offered_ = 0;
  DcheckSums();
  while (!ends_.empty()) {
    End end = std::move(ends_.front());
    ends_.pop_front();
    end.owners.clear();
    if (end.done) end.done(why);
  }
}

void OutQueue::Trim() {
  if (parts_.empty()) {
    blocks_.clear();
    parts_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
}

}  // namespace fusewire::pipe
