// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_writer.h"

#include <algorithm>
#include <utility>

namespace fusewire::pipe {
namespace {

// Up to this a segment is copied beside its header: cheaper than one more part for the kernel to look at.
constexpr size_t kCopySegmentBytes = 512;

constexpr size_t kBlockBytes = 16 * 1024;

// The last block that a queue has given back: mostly one is enough for all queues that this thread writes, one after
// the other, and it stays in the processor's cache.
thread_local std::unique_ptr<uint8_t[]> spare_block;

std::unique_ptr<uint8_t[]> TakeBlock(size_t size) {
  if (size == kBlockBytes && spare_block != nullptr) return std::move(spare_block);
  return std::make_unique_for_overwrite<uint8_t[]>(size);
}

void GiveBackBlock(std::unique_ptr<uint8_t[]> memory, size_t size) {
  if (size == kBlockBytes) spare_block = std::move(memory);
}

}  // namespace

void FrameWriter::AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta) {
  wire::FrameHeader header;
  header.kind = kind;
  header.aux = aux;
  header.call = call;
  header.meta_bytes = static_cast<uint32_t>(meta.size);
  header.sequence = sequence_++;
  Bytes room = out_.Append(wire::kHeaderBytes + meta.size);
  wire::EncodeHeader(header, meta, room);
  CopyBytes(room.From(wire::kHeaderBytes), meta);
}

// Header, segment table and head side by side in a block; then the body, or its first chunk.
uint64_t FrameWriter::AppendMessage(Message* message, ConstBytes head, Done done) {
  FUSEWIRE_DCHECK(message->body.size() <= UINT16_MAX);
  auto segments = static_cast<uint16_t>(message->body.size());
  size_t table_bytes = wire::SegmentTableBytes(segments);
  wire::FrameHeader header;
  header.kind = message->kind;
  header.method = message->method;
  header.segments = segments;
  header.aux = message->aux;
  header.meta_bytes = static_cast<uint32_t>(table_bytes + head.size);
  header.call = message->call;
  header.body_bytes = TotalBytes(message->body);
  header.sequence = sequence_++;
  Bytes room = out_.Append(wire::kHeaderBytes + header.meta_bytes);
  Bytes meta = room.From(wire::kHeaderBytes);
  for (uint16_t i = 0; table_bytes > 0 && i < segments; ++i) wire::EncodeSegmentBytes(message->body[i].size(), i, meta);
  CopyBytes(meta.From(table_bytes), head);
  wire::EncodeHeader(header, meta, room);
  if (header.body_bytes == 0) {
    if (done) out_.AppendEnd(std::move(message->body), std::move(done));
    return WindowCost(header);
  }
  LongSend send{std::move(message->body), std::move(done), 0, 0, header.body_bytes};
  AppendBody(&send, std::min<uint64_t>(send.left, chunk_bytes_));
  if (send.left == 0) {
    out_.AppendEnd(std::move(send.body), std::move(send.done));
  } else {
    FUSEWIRE_CHECK(!has_chunks());  // two long messages cannot be told apart by their chunks
    long_ = std::move(send);
  }
  return WindowCost(header);
}

void FrameWriter::AppendBody(LongSend* send, uint64_t bytes) {
  FUSEWIRE_DCHECK(bytes <= send->left);
  send->left -= bytes;
  while (bytes > 0) {
    FUSEWIRE_DCHECK(send->index < send->body.size());
    FUSEWIRE_DCHECK(send->offset <= send->body[send->index].size());
    Bytes segment = send->body[send->index].bytes().From(send->offset);
    auto size = static_cast<size_t>(std::min<uint64_t>(segment.size, bytes));
    if (size == 0) {
      // An empty segment takes no place.
    } else if (size <= kCopySegmentBytes) {
      CopyBytes(out_.Append(size), segment.Sub(0, size));
    } else {
      out_.AppendReference(segment.Sub(0, size));
    }
    send->offset += size;
    bytes -= size;
    if (send->offset == send->body[send->index].size()) {
      ++send->index;
      send->offset = 0;
    }
  }
}

void FrameWriter::AppendChunk() {
  FUSEWIRE_DCHECK(has_chunks());
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kChunk;
  header.body_bytes = std::min<uint64_t>(long_.left, chunk_bytes_);
  header.sequence = sequence_++;
  wire::EncodeHeader(header, ConstBytes(), out_.Append(wire::kHeaderBytes));
  AppendBody(&long_, header.body_bytes);
  if (long_.left > 0) return;
  out_.AppendEnd(std::move(long_.body), std::move(long_.done));
  long_ = LongSend();
}

void FrameWriter::Fail(const Status& why) {
  LongSend long_send = std::move(long_);
  long_ = LongSend();
  long_send.body.clear();
  if (long_send.done) long_send.done(why);
}

// ---- bytes to write ----

Bytes OutQueue::Append(size_t size) {
  if (blocks_.empty() || blocks_.back().size - blocks_.back().used < size) {
    const size_t block_bytes = std::max(size, kBlockBytes);
    blocks_.Push({TakeBlock(block_bytes), block_bytes});
  }
  Block& block = blocks_.back();
  Bytes room(block.memory.get() + block.used, size);
  bool joins = !parts_.empty() && parts_.back().data + parts_.back().size == room.data && block.used > 0;
  if (joins) {
    parts_.back().size += size;
  } else {
    parts_.Push(ConstBytes(room.data, size));
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
  parts_.Push(bytes);
  bytes_ += bytes.size;
  appended_ += bytes.size;
  DcheckSums();
}

void OutQueue::AppendEnd(Buffers owners, Done done) {
  FUSEWIRE_DCHECK(ends_.empty() || ends_.back().position <= appended_);
  ends_.Push({appended_, std::move(owners), std::move(done)});
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
    left -= parts_.Pop().size;
  }
  front_written_ = left;
  DcheckSums();
  while (!blocks_.empty() && blocks_.front().last <= written_) {
    if (blocks_.size() == 1 && !parts_.empty()) break;  // there may be room left in it
    Block block = blocks_.Pop();
    GiveBackBlock(std::move(block.memory), block.size);
  }
  FireEnds();
}

void OutQueue::FireEnds() {
  while (!ends_.empty() && ends_.front().position <= written_) {
    End end = ends_.Pop();
    end.owners.clear();  // before Done: the caller may reuse the memory inside it
    if (end.done) end.done(Status::Ok());
  }
}

void OutQueue::Fail(const Status& why) {
  parts_.Clear();
  blocks_.Clear();
  front_written_ = 0;
  written_ = appended_;
  bytes_ = 0;
  offered_ = 0;
  DcheckSums();
  while (!ends_.empty()) {
    End end = ends_.Pop();
    end.owners.clear();
    if (end.done) end.done(why);
  }
}

void OutQueue::Trim() {
  parts_.Trim();
  blocks_.Trim();
  ends_.Trim();
}

}  // namespace fusewire::pipe
