// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_writer.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {
namespace {

// Up to this a segment is copied beside its header: cheaper than one more part for the kernel to look at.
constexpr size_t kCopySegmentBytes = 512;

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

}  // namespace fusewire::pipe
