// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Writes a peer's frames for tests, correct or altered by hand, and feeds them to a reader.
// Home: none. Owns: the number of the next frame.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/pipe/frame_reader.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

// `size` bytes that tell where they came from, if `seed` differs.
inline std::string Payload(size_t size, uint32_t seed) {
  std::string bytes(size, 0);
  uint32_t state = seed * 2654435761U + 12345;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// In the order in which they stand here; operator+ may make its right side first, and frames are numbered.
inline std::string Join(std::initializer_list<std::string> parts) {
  std::string joined;
  for (const std::string& part : parts) joined += part;
  return joined;
}

class FrameScript {
 public:
  explicit FrameScript(uint32_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  uint32_t sequence = 0;

  // Any header; sequence and check are filled in.
  std::string Frame(wire::FrameHeader header, const std::string& meta = std::string()) {
    header.sequence = sequence++;
    header.meta_bytes = static_cast<uint32_t>(meta.size());
    std::string bytes(wire::kHeaderBytes, 0);
    wire::EncodeHeader(header, meta, Bytes(bytes.data(), bytes.size()));
    return bytes + meta;
  }

  std::string Control(wire::FrameKind kind, uint64_t call = 0, uint32_t aux = 0,
                      const std::string& meta = std::string()) {
    wire::FrameHeader header;
    header.kind = kind;
    header.call = call;
    header.aux = aux;
    return Frame(header, meta);
  }

  // Header and meta of a message, without any of its body.
  std::string Begin(wire::FrameKind kind, uint64_t call, const std::string& head,
                    const std::vector<uint64_t>& segments) {
    wire::FrameHeader header;
    header.kind = kind;
    header.call = call;
    header.segments = static_cast<uint16_t>(segments.size());
    std::string table(wire::SegmentTableBytes(header.segments), 0);
    for (size_t i = 0; i < segments.size(); ++i) {
      header.body_bytes += segments[i];
      if (!table.empty()) {
        wire::EncodeSegmentBytes(segments[i], static_cast<uint16_t>(i), Bytes(table.data(), table.size()));
      }
    }
    return Frame(header, table + head);
  }

  // A whole message; `between` is called for what stands between its chunks.
  template <class Between>
  std::string Message(wire::FrameKind kind, uint64_t call, const std::string& head,
                      const std::vector<std::string>& segments, Between between) {
    std::vector<uint64_t> sizes;
    std::string body;
    for (const std::string& segment : segments) {
      sizes.push_back(segment.size());
      body += segment;
    }
    std::string bytes = Begin(kind, call, head, sizes);
    for (size_t at = 0; at < body.size(); at += chunk_bytes_) {
      if (at > 0) {
        bytes += between();
        bytes += Chunk(std::min<size_t>(chunk_bytes_, body.size() - at));
      }
      bytes += body.substr(at, chunk_bytes_);
    }
    return bytes;
  }
  std::string Message(wire::FrameKind kind, uint64_t call, const std::string& head,
                      const std::vector<std::string>& segments) {
    return Message(kind, call, head, segments, [] { return std::string(); });
  }

  // The header of a chunk frame.
  std::string Chunk(uint64_t bytes) {
    wire::FrameHeader header;
    header.kind = wire::FrameKind::kChunk;
    header.body_bytes = bytes;
    return Frame(header);
  }

 private:
  const uint32_t chunk_bytes_;
};

// Feeds a stream to a reader as a connection does: bytes that land, then bytes to look at, never more than requested.
// `next` returns how many bytes the network has now, given the number that is left.
template <class Next>
Status FeedAsConnection(FrameReader* reader, ConstBytes stream, Next next) {
  while (!stream.empty()) {
    ConstBytes there = stream.Sub(0, std::clamp<size_t>(next(stream.size), 1, stream.size));
    stream = stream.From(there.size);
    while (!there.empty()) {
      Bytes parts[transport::kLandingPartsMax];
      size_t count = reader->Landing(parts, transport::kLandingPartsMax);
      FUSEWIRE_CHECK(count <= transport::kLandingPartsMax);
      size_t look_ahead = reader->LookAhead();
      FUSEWIRE_CHECK(look_ahead < kCopyBytesMax);
      size_t landed = 0;
      for (size_t i = 0; i < count && !there.empty(); ++i) {
        FUSEWIRE_CHECK(parts[i].size > 0);
        size_t size = std::min(parts[i].size, there.size);
        std::copy_n(there.data, size, parts[i].data);
        there = there.From(size);
        landed += size;
      }
      if (landed > 0) FUSEWIRE_TRY(reader->OnLanded(landed));
      // Memory of its own, so that the address sanitizer finds who looks at it later.
      std::vector<uint8_t> ahead(there.data, there.data + std::min(look_ahead, there.size));
      there = there.From(ahead.size());
      if (!ahead.empty()) FUSEWIRE_TRY(reader->OnBytes(ConstBytes(ahead.data(), ahead.size())));
    }
  }
  return Status::Ok();
}

}  // namespace fusewire::pipe
