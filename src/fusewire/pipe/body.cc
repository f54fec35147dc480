// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/body.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {

Status Body::Begin(const wire::FrameHeader& header, Buffer meta, const Landing& landing) {
  FUSEWIRE_CHECK(!active_);
  FUSEWIRE_DCHECK(meta.size() == header.meta_bytes);
  header_ = header;
  meta_ = std::move(meta);
  discard_ = landing.mode == Landing::Mode::kDiscard;
  parts_ = landing.parts;
  count_ = landing.count;
  index_ = 0;
  offset_ = 0;
  left_ = header.body_bytes;
  active_ = true;
  if (landing.mode == Landing::Mode::kInto) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count_; ++i) sum += parts_[i].size;
    FUSEWIRE_CHECK(sum == header.body_bytes);
  }
  if (landing.mode == Landing::Mode::kView) {
    FUSEWIRE_CHECK(header.body_bytes <= kViewBytesMax);
    view_ = Buffer::TryAllocate(static_cast<size_t>(header.body_bytes));
    if (view_.size() != header.body_bytes) {
      return Status::Overloaded("no memory for a message of " + std::to_string(header.body_bytes) + " bytes");
    }
    view_part_ = view_.bytes();
    parts_ = &view_part_;
    count_ = 1;
  }
  return Status::Ok();
}

void Body::Fill(ConstBytes bytes) {
  FUSEWIRE_DCHECK(active_);
  FUSEWIRE_CHECK(bytes.size <= left_);
  while (!discard_ && !bytes.empty()) {
    Bytes part;
    if (Where(&part, 1, bytes.size) == 0) break;
    CopyBytes(part, bytes.Sub(0, part.size));
    Advance(part.size);
    bytes = bytes.From(part.size);
  }
  if (discard_) left_ -= bytes.size;
}

size_t Body::Where(Bytes* parts, size_t parts_max, uint64_t limit) const {
  FUSEWIRE_DCHECK(active_);
  if (discard_) return 0;
  FUSEWIRE_DCHECK(index_ == count_ || offset_ <= parts_[index_].size);
  size_t filled = 0;
  size_t skip = offset_;
  for (size_t i = index_; i < count_ && filled < parts_max && limit > 0; ++i) {
    size_t size = static_cast<size_t>(std::min<uint64_t>(parts_[i].size - skip, limit));
    if (size > 0) parts[filled++] = parts_[i].Sub(skip, size);
    limit -= size;
    skip = 0;
  }
  return filled;
}

void Body::Advance(uint64_t bytes) {
  FUSEWIRE_CHECK(bytes <= left_);
  left_ -= bytes;
  if (discard_) return;  // they had landed before it was abandoned
  while (bytes > 0) {
    FUSEWIRE_DCHECK(index_ < count_);
    uint64_t step = std::min<uint64_t>(bytes, parts_[index_].size - offset_);
    offset_ += static_cast<size_t>(step);
    bytes -= step;
    if (offset_ == parts_[index_].size) {
      ++index_;
      offset_ = 0;
    }
  }
}

void Body::Abandon() {
  FUSEWIRE_CHECK(active_);
  discard_ = true;
  view_.Drop();  // half of it was never filled, so it must not be shown
  parts_ = nullptr;
  count_ = 0;
}

void Body::End() {
  FUSEWIRE_DCHECK(active_);
  FUSEWIRE_DCHECK(left_ == 0);
  active_ = false;
  meta_.Drop();
  view_.Drop();
  parts_ = nullptr;
  count_ = 0;
}

}  // namespace fusewire::pipe
