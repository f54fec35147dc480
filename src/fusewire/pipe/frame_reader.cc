// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {
namespace {

constexpr size_t kLookAheadMin = 512;
constexpr size_t kLookAheadMax = kCopyBytesMax - 1;
// Behind the body bytes of a frame: room for the next header and some small frames, little enough that reading ahead
// into the next frame's body hardly copies anything.
constexpr size_t kLookBehindBody = 256;

}  // namespace

size_t FrameReader::Landing(Bytes* parts, size_t parts_max) const {
  return filling_ == nullptr ? 0 : filling_->Where(parts, parts_max, frame_left_);
}

size_t FrameReader::LookAhead() const {
  Bytes part;
  if (filling_ == nullptr) return look_ahead_;
  return filling_->Where(&part, 1, 1) == 0 ? kLookAheadMax : kLookBehindBody;  // discarded in large pieces
}

Status FrameReader::OnLanded(size_t bytes) {
  FUSEWIRE_CHECK(filling_ != nullptr);
  FUSEWIRE_CHECK(bytes <= frame_left_);
  FUSEWIRE_DCHECK(frame_left_ <= filling_->left());
  filling_->Advance(bytes);
  frame_left_ -= bytes;
  return frame_left_ == 0 ? FinishFrame() : Status::Ok();
}

Status FrameReader::OnBytes(ConstBytes bytes) {
  // A full look means that more is waiting: look further next time.
  if (bytes.size >= look_ahead_) look_ahead_ = std::min(look_ahead_ * 2, kLookAheadMax);
  while (!bytes.empty()) {
    if (filling_ != nullptr) {
      FUSEWIRE_TRY(TakeBody(&bytes));
    } else if (header_filled_ == 0 && bytes.size >= wire::kHeaderBytes) {
      FUSEWIRE_TRY(TakeWholeFrame(&bytes));
    } else if (header_filled_ < wire::kHeaderBytes) {
      FUSEWIRE_TRY(TakeHeader(&bytes));
    } else {
      FUSEWIRE_TRY(TakeMeta(&bytes));
    }
  }
  return Status::Ok();
}

// The usual case: nothing is kept or copied unless the meta is cut off.
Status FrameReader::TakeWholeFrame(ConstBytes* bytes) {
  FUSEWIRE_DCHECK(filling_ == nullptr);
  FUSEWIRE_DCHECK(meta_filled_ == 0);
  const uint8_t* header_bytes = bytes->data;
  FUSEWIRE_TRY(OnHeaderBytes(header_bytes));
  *bytes = bytes->From(wire::kHeaderBytes);
  if (bytes->size < header_.meta_bytes) {
    CopyBytes(Bytes(header_bytes_, sizeof(header_bytes_)), ConstBytes(header_bytes, wire::kHeaderBytes));
    header_filled_ = wire::kHeaderBytes;
    return TakeMeta(bytes);
  }
  ConstBytes meta = bytes->Sub(0, header_.meta_bytes);
  *bytes = bytes->From(meta.size);
  return OnFrame(header_bytes, meta, Buffer(), bytes);
}

Status FrameReader::TakeHeader(ConstBytes* bytes) {
  FUSEWIRE_DCHECK(header_filled_ < wire::kHeaderBytes);
  size_t take = std::min(bytes->size, wire::kHeaderBytes - header_filled_);
  CopyBytes(Bytes(header_bytes_ + header_filled_, take), bytes->Sub(0, take));
  *bytes = bytes->From(take);
  header_filled_ += take;
  if (header_filled_ < wire::kHeaderBytes) return Status::Ok();
  FUSEWIRE_TRY(OnHeaderBytes(header_bytes_));
  return header_.meta_bytes == 0 ? TakeMeta(bytes) : Status::Ok();
}

Status FrameReader::TakeMeta(ConstBytes* bytes) {
  if (meta_.empty() && header_.meta_bytes > 0) {
    meta_ = Buffer::TryAllocate(header_.meta_bytes);
    if (meta_.empty())
      return Status::Overloaded("no memory for a meta of " + std::to_string(header_.meta_bytes) + " bytes");
  }
  FUSEWIRE_DCHECK(header_filled_ == wire::kHeaderBytes);
  FUSEWIRE_DCHECK(meta_.size() == header_.meta_bytes);
  FUSEWIRE_DCHECK(meta_filled_ <= meta_.size());
  size_t take = std::min(bytes->size, meta_.size() - meta_filled_);
  CopyBytes(meta_.bytes().From(meta_filled_), bytes->Sub(0, take));
  *bytes = bytes->From(take);
  meta_filled_ += take;
  if (meta_filled_ < header_.meta_bytes) return Status::Ok();
  header_filled_ = meta_filled_ = 0;
  Buffer meta = std::move(meta_);
  ConstBytes meta_bytes = meta.bytes();
  return OnFrame(header_bytes_, meta_bytes, std::move(meta), bytes);
}

Status FrameReader::OnHeaderBytes(const uint8_t* header_bytes) {
  Result<wire::FrameHeader> header = wire::DecodeHeader(ConstBytes(header_bytes, wire::kHeaderBytes), limits_);
  if (!header.ok()) return header.status();
  header_ = header.value();
  return Status::Ok();
}

// `meta_memory` is the memory that `meta` lies in, if it is ours.
Status FrameReader::OnFrame(const uint8_t* header_bytes, ConstBytes meta, Buffer meta_memory, ConstBytes* behind) {
  FUSEWIRE_DCHECK(meta.size == header_.meta_bytes);
  FUSEWIRE_TRY(wire::CheckMeta(ConstBytes(header_bytes, wire::kHeaderBytes), header_, meta));
  if (header_.sequence != sequence_) {
    return Status::Corrupt("frame " + std::to_string(header_.sequence) + " came where frame " +
                           std::to_string(sequence_) + " was due");
  }
  ++sequence_;
  if (wire::IsMessage(header_.kind)) return OnMessageFrame(meta, std::move(meta_memory), behind);
  if (header_.kind == wire::FrameKind::kChunk) return OnChunkFrame();
  return sink_->OnControl(header_, meta);
}

Status FrameReader::OnMessageFrame(ConstBytes meta, Buffer meta_memory, ConstBytes* behind) {
  bool in_chunks = header_.body_bytes > limits_.chunk_bytes_max;
  if (in_chunks && long_.active()) return Status::Corrupt("a second long message begins inside another");
  Result<pipe::Landing> landing = sink_->OnHeader(header_, meta);
  if (!landing.ok()) return landing.status();
  // The whole body lies before us and may be shown as it is, or there is none: no state, no copy.
  bool view = landing.value().mode == Landing::Mode::kView && !in_chunks;
  if (header_.body_bytes == 0 || (view && behind->size >= header_.body_bytes)) {
    FUSEWIRE_CHECK(header_.body_bytes <= kViewBytesMax);
    ConstBytes body = behind->Sub(0, static_cast<size_t>(header_.body_bytes));
    *behind = behind->From(body.size);
    return sink_->OnMessage(header_, meta, body);
  }
  if (header_.body_bytes >= kCopyBytesMax) look_ahead_ = kLookAheadMin;
  if (meta_memory.size() != meta.size) {
    meta_memory = Buffer::CopyOf(meta);
    if (meta_memory.size() != meta.size) {
      return Status::Overloaded("no memory for a meta of " + std::to_string(meta.size) + " bytes");
    }
  }
  FUSEWIRE_DCHECK(filling_ == nullptr);
  filling_ = in_chunks ? &long_ : &short_;
  FUSEWIRE_DCHECK(!filling_->active());
  frame_left_ = std::min<uint64_t>(header_.body_bytes, limits_.chunk_bytes_max);
  return filling_->Begin(header_, std::move(meta_memory), landing.value());
}

Status FrameReader::OnChunkFrame() {
  if (!long_.active()) return Status::Corrupt("a chunk without a message that it belongs to");
  if (header_.body_bytes > long_.left()) {
    return Status::Corrupt("a chunk of " + std::to_string(header_.body_bytes) + " bytes where " +
                           std::to_string(long_.left()) + " were left");
  }
  FUSEWIRE_DCHECK(filling_ == nullptr);
  filling_ = &long_;
  frame_left_ = header_.body_bytes;
  return Status::Ok();
}

Status FrameReader::TakeBody(ConstBytes* bytes) {
  size_t take = static_cast<size_t>(std::min<uint64_t>(bytes->size, frame_left_));
  FUSEWIRE_DCHECK(frame_left_ <= filling_->left());
  filling_->Fill(bytes->Sub(0, take));
  frame_left_ -= take;
  *bytes = bytes->From(take);
  return frame_left_ == 0 ? FinishFrame() : Status::Ok();
}

Status FrameReader::FinishFrame() {
  FUSEWIRE_DCHECK(frame_left_ == 0);
  Body* body = filling_;
  FUSEWIRE_DCHECK(body->active());
  filling_ = nullptr;
  if (body->left() > 0) return Status::Ok();
  Status status = sink_->OnMessage(body->header(), body->meta(), body->view());
  body->End();
  return status;
}

int64_t FrameReader::MetaAgeNs(int64_t now_ns) {
  const uint64_t coming = header_filled_ > 0 ? uint64_t{1} + sequence_ : 0;
  const bool same = std::exchange(meta_seen_, coming) == coming && coming != 0;
  if (!same) meta_since_ns_ = now_ns;
  return now_ns - meta_since_ns_;
}

bool FrameReader::IsFilling(wire::FrameKind kind, uint64_t call) const {
  return filling_ != nullptr && filling_->header().kind == kind && filling_->header().call == call;
}

void FrameReader::Abandon(wire::FrameKind kind, uint64_t call) {
  for (Body* body : {&long_, &short_}) {
    if (body->active() && body->header().kind == kind && body->header().call == call) body->Abandon();
  }
}

// ---- a body that comes in ----

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
