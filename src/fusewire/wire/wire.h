// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The frame, which peers exchange after the greeting. docs/wire.md is the specification.
// Home: none, pure functions. Fails: Decode* returns kCorrupt and has then changed nothing.
//   frame  := header meta chunk              all integers little-endian
//   meta   := segment_bytes:u64[segments]    only if segments > 1; else the one segment is the whole body
//             head:u8[...]                   the rest of meta: bytes of the layer above
//   chunk  := u8[min(body_bytes, chunk_bytes)]       the first piece of the body follows its header at once
//   the rest of a body follows in frames of kind kChunk; other frames may stand between them, except messages whose own
//   body does not fit in one chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/wire/limits.h"

namespace fusewire::wire {

enum class FrameKind : uint8_t {
  // Messages of the layer above; they count against the window.
  kMessage = 1,    // call: a tag of the layer above
  kCall = 2,       // call: the caller's CallId; aux: time left in ms, 0 means no deadline
  kReply = 3,      // call: echoed; aux: a Code. Ends the call
  kReplyPart = 4,  // call: echoed; aux: 0. More parts follow
  // The pipe's own; they never wait for the window and carry no body.
  kChunk = 16,    // body_bytes: how many bytes of the current body follow; nothing else is set
  kCredit = 17,   // call: this many more window bytes may be sent
  kWant = 18,     // call: the position, in window bytes from the beginning, that the sender wants to reach
  kRecall = 19,   // please return credit that you do not use
  kReturn = 20,   // call: this many window bytes of credit are returned
  kPing = 21,     // call: any number
  kPong = 22,     // call: echoed
  kCancel = 23,   // call: the CallId that its caller no longer wants
  kGoodbye = 24,  // aux: a Code; meta: the reason, as text. The last frame on this pipe
};

constexpr uint16_t kFrameMagic = 0x5746;  // "FW" in memory
constexpr size_t kHeaderBytes = 40;
constexpr uint32_t kGoodbyeBytesMax = 4096;      // of its words
constexpr uint64_t kWindowBytesMax = INT64_MAX;  // of any credit: a sum of two does not overflow

// Decoded, in the machine's own order.
//   magic:u16 kind:u8 flags:u8 method:u16 segments:u16 aux:u32 meta_bytes:u32 sequence:u32 check:u32 call:u64
//   body_bytes:u64
// `check` is the CRC-32C of the 40 header bytes with check as 0, followed by meta.
struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  uint8_t flags = 0;  // none defined yet: must be 0
  uint16_t method = 0;
  uint16_t segments = 0;
  uint32_t aux = 0;
  uint32_t meta_bytes = 0;
  uint32_t sequence = 0;  // counts the frames of one direction of a pipe, from 0; wraps around
  uint32_t check = 0;     // set by EncodeHeader and DecodeHeader
  uint64_t call = 0;
  uint64_t body_bytes = 0;
};

bool IsMessage(FrameKind kind);  // kMessage, kCall, kReply, kReplyPart
bool IsKnown(uint8_t kind);
const char* KindName(FrameKind kind);

// Writes kHeaderBytes to `out`. `meta` follows the header; its size must be header.meta_bytes.
void EncodeHeader(const FrameHeader& header, ConstBytes meta, Bytes out);
// Reads kHeaderBytes and checks all that can be checked without the meta: magic, kind, flags, lengths, and fields that
// the kind forbids.
Result<FrameHeader> DecodeHeader(ConstBytes in, const Limits& limits);
// Checks the CRC over header and meta, and that the segment table adds up to body_bytes.
// `header_bytes` are the 40 bytes that `header` was decoded from.
Status CheckMeta(ConstBytes header_bytes, const FrameHeader& header, ConstBytes meta);

// The segment table of a message whose meta has been checked.
size_t SegmentTableBytes(uint16_t segments);  // 0 for 0 or 1 segments
uint64_t SegmentBytes(const FrameHeader& header, ConstBytes meta, uint16_t index);
ConstBytes HeadOf(const FrameHeader& header, ConstBytes meta);
void EncodeSegmentBytes(uint64_t bytes, uint16_t index, Bytes meta);

// A call's name on the wire: a slot of the caller's table, and the number of times it has been used. The peer echoes it
// and does not interpret it. An older generation is a late reply; a slot that was never given out is corrupt.
struct CallId {
  uint32_t slot = 0;
  uint32_t generation = 0;
};
inline uint64_t PackCallId(CallId id) { return (static_cast<uint64_t>(id.generation) << 32) | id.slot; }
inline CallId UnpackCallId(uint64_t call) {
  return CallId{static_cast<uint32_t>(call), static_cast<uint32_t>(call >> 32)};
}

// CRC-32C (Castagnoli), with the processor's instruction if it has one. Pass the last result as `seed` to continue.
uint32_t Crc32c(ConstBytes bytes, uint32_t seed = 0);
// Its two ways, separate so that a test can compare them: for every machine, eight bytes at a time, with tables; and
// only where HasCrc32cInstruction().
uint32_t Crc32cByTable(ConstBytes bytes, uint32_t seed);
bool HasCrc32cInstruction();
uint32_t Crc32cByInstruction(ConstBytes bytes, uint32_t seed);

// ---- the head of an error, which all layers above use ----
//   status := app_code:u32 cause:text peer:text phase:text next:text    text := bytes:u16 u8[bytes]

constexpr size_t kStatusTextBytesMax = 8192;  // for each text of a Status that we send; a longer text is truncated

// Appends the texts of an error; its code is in the frame header's aux.
void AppendStatus(const Status& status, std::string* out);
// Reads the peer's status into *out. The result says whether it could be read.
Status DecodeStatus(Code code, ConstBytes in, Status* out);

}  // namespace fusewire::wire
