// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/wire.h"

#include <algorithm>
#include <array>

#include "fusewire/base/check.h"
#include "fusewire/wire/coder.h"

namespace fusewire::wire {
namespace {

// The offset of each field of the header.
enum : size_t {
  kMagicAt = 0,
  kKindAt = 2,
  kFlagsAt = 3,
  kMethodAt = 4,
  kSegmentsAt = 6,
  kAuxAt = 8,
  kMetaBytesAt = 12,
  kSequenceAt = 16,
  kCheckAt = 20,
  kCallAt = 24,
  kBodyBytesAt = 32,
};
static_assert(kBodyBytesAt + sizeof(uint64_t) == kHeaderBytes);

// The limits of a header of one kind. A field that a kind does not use is 0.
struct KindRule {
  const char* name = nullptr;  // null: no such kind
  uint16_t method_max = 0;
  uint16_t segments_max = 0;
  uint32_t aux_max = 0;
  uint32_t meta_bytes_max = 0;
  uint64_t call_max = 0;
  uint64_t body_bytes_max = 0;
  uint64_t body_bytes_min = 0;
};

constexpr size_t kKinds = 32;  // a kind is below this, so that a lookup needs no branch

constexpr std::array<KindRule, kKinds> MakeRules() {
  constexpr uint16_t kAny16 = UINT16_MAX;
  constexpr uint32_t kAny32 = UINT32_MAX;
  constexpr uint64_t kAny64 = UINT64_MAX;
  constexpr uint64_t kWindow = kWindowBytesMax;
  constexpr uint32_t kWords = kGoodbyeBytesMax;
  std::array<KindRule, kKinds> rules{};
  auto at = [&rules](FrameKind kind) -> KindRule& { return rules[static_cast<size_t>(kind)]; };
  // clang-format off
  //                            name          method  segments aux       meta    call    body    at least
  at(FrameKind::kMessage) =   {"message",     kAny16, kAny16,  kAny32,   kAny32, kAny64, kAny64, 0};
  at(FrameKind::kCall) =      {"call",        kAny16, kAny16,  kAny32,   kAny32, kAny64, kAny64, 0};
  at(FrameKind::kReply) =     {"reply",       kAny16, kAny16,  kCodeMax, kAny32, kAny64, kAny64, 0};
  at(FrameKind::kReplyPart) = {"reply part",  kAny16, kAny16,  0,        kAny32, kAny64, kAny64, 0};
  at(FrameKind::kChunk) =     {"chunk",       0,      0,       0,        0,      0,      kAny64, 1};
  at(FrameKind::kCredit) =    {"credit",      0,      0,       0,        0,      kWindow,0,      0};
  at(FrameKind::kWant) =      {"want",        0,      0,       0,        0,      kWindow,0,      0};
  at(FrameKind::kRecall) =    {"recall",      0,      0,       0,        0,      0,      0,      0};
  at(FrameKind::kReturn) =    {"return",      0,      0,       0,        0,      kWindow,0,      0};
  at(FrameKind::kPing) =      {"ping",        0,      0,       0,        0,      kAny64, 0,      0};
  at(FrameKind::kPong) =      {"pong",        0,      0,       0,        0,      kAny64, 0,      0};
  at(FrameKind::kCancel) =    {"cancel",      0,      0,       0,        0,      kAny64, 0,      0};
  at(FrameKind::kGoodbye) =   {"goodbye",     0,      0,       kCodeMax, kWords, 0,      0,      0};
  // clang-format on
  return rules;
}

constexpr std::array<KindRule, kKinds> kRules = MakeRules();

const KindRule& RuleOf(uint8_t kind) { return kRules[kind % kKinds]; }

Status Over(const char* kind, const char* field, uint64_t value, uint64_t limit) {
  std::string text = std::string(kind) + " frame: " + field + " " + std::to_string(value);
  if (limit == 0) return Status::Corrupt(text + ", must be 0");
  return Status::Corrupt(text + ", limit " + std::to_string(limit));
}

// Only for bad frames: finds out why DecodeHeader() refused this one.
[[gnu::cold, gnu::noinline]] Status Explain(const FrameHeader& header, uint16_t magic, const Limits& limits) {
  const uint8_t kind = static_cast<uint8_t>(header.kind);
  if (magic != kFrameMagic) {
    return Status::Corrupt("frame magic " + std::to_string(magic) + ", must be " + std::to_string(kFrameMagic));
  }
  if (!IsKnown(kind)) return Status::Corrupt("frame kind " + std::to_string(kind) + " is unknown");
  const KindRule& rule = RuleOf(kind);
  const bool chunk = header.kind == FrameKind::kChunk;
  const uint64_t body_bytes_max = std::min(rule.body_bytes_max, chunk ? limits.chunk_bytes_max : limits.body_bytes_max);
  const uint32_t meta_bytes_max = std::min(rule.meta_bytes_max, limits.meta_bytes_max);
  const uint16_t segments_max = std::min(rule.segments_max, limits.segments_max);
  if (header.flags != 0) return Over(rule.name, "flags", header.flags, 0);
  if (header.method > rule.method_max) return Over(rule.name, "method", header.method, rule.method_max);
  if (header.aux > rule.aux_max) return Over(rule.name, "aux", header.aux, rule.aux_max);
  if (header.call > rule.call_max) return Over(rule.name, "call", header.call, rule.call_max);
  if (header.segments > segments_max) return Over(rule.name, "segments", header.segments, segments_max);
  if (header.meta_bytes > meta_bytes_max) return Over(rule.name, "meta_bytes", header.meta_bytes, meta_bytes_max);
  if (header.body_bytes > body_bytes_max) return Over(rule.name, "body_bytes", header.body_bytes, body_bytes_max);
  if (header.body_bytes < rule.body_bytes_min) return Status::Corrupt(std::string(rule.name) + " frame: body_bytes 0");
  if (header.meta_bytes < SegmentTableBytes(header.segments)) {
    return Status::Corrupt(std::string(rule.name) + " frame: meta_bytes " + std::to_string(header.meta_bytes) +
                           ", but the table of " + std::to_string(header.segments) + " segments needs " +
                           std::to_string(SegmentTableBytes(header.segments)));
  }
  return Status::Corrupt(std::string(rule.name) + " frame: body_bytes " + std::to_string(header.body_bytes) +
                         ", but segments 0");
}

// The sequence, and the check behind it as 0, as one word for the CRC.
void StoreUnchecked(uint32_t sequence, uint8_t* header_bytes) {
  static_assert(kCheckAt == kSequenceAt + sizeof(sequence));
  Store(header_bytes + kSequenceAt, uint64_t{sequence});
}

uint32_t CheckOf(const uint8_t* header_bytes, ConstBytes meta) {
  uint8_t copy[kHeaderBytes];
  std::memcpy(copy, header_bytes, kHeaderBytes);
  StoreUnchecked(Load<uint32_t>(header_bytes + kSequenceAt), copy);
  uint32_t crc = Crc32c(ConstBytes(copy, kHeaderBytes));
  return meta.empty() ? crc : Crc32c(meta, crc);
}

}  // namespace

bool IsMessage(FrameKind kind) { return static_cast<uint8_t>(kind) - 1u < 4u; }

bool IsKnown(uint8_t kind) { return kind < kKinds && kRules[kind].name != nullptr; }

const char* KindName(FrameKind kind) {
  const uint8_t number = static_cast<uint8_t>(kind);
  return IsKnown(number) ? kRules[number].name : "unknown";
}

void EncodeHeader(const FrameHeader& header, ConstBytes meta, Bytes out) {
  FUSEWIRE_CHECK(out.size >= kHeaderBytes);
  FUSEWIRE_CHECK(meta.size == header.meta_bytes);
  uint8_t* to = out.data;
  // In words of eight bytes, because the CRC reads them right afterwards: with smaller stores this function takes twice
  // as long.
  Store(to + kMagicAt, kFrameMagic | uint64_t{static_cast<uint8_t>(header.kind)} << (8 * kKindAt) |
                           uint64_t{header.flags} << (8 * kFlagsAt) | uint64_t{header.method} << (8 * kMethodAt) |
                           uint64_t{header.segments} << (8 * kSegmentsAt));
  Store(to + kAuxAt, header.aux | uint64_t{header.meta_bytes} << (8 * (kMetaBytesAt - kAuxAt)));
  StoreUnchecked(header.sequence, to);
  Store(to + kCallAt, header.call);
  Store(to + kBodyBytesAt, header.body_bytes);
  uint32_t crc = Crc32c(ConstBytes(to, kHeaderBytes));
  Store(to + kCheckAt, meta.empty() ? crc : Crc32c(meta, crc));
}

Result<FrameHeader> DecodeHeader(ConstBytes in, const Limits& limits) {
  if (in.size < kHeaderBytes) {
    return Status::Corrupt("frame header: " + std::to_string(in.size) + " of " + std::to_string(kHeaderBytes) +
                           " bytes");
  }
  const uint8_t* from = in.data;
  FrameHeader header;
  header.kind = static_cast<FrameKind>(Load<uint8_t>(from + kKindAt));
  header.flags = Load<uint8_t>(from + kFlagsAt);
  header.method = Load<uint16_t>(from + kMethodAt);
  header.segments = Load<uint16_t>(from + kSegmentsAt);
  header.aux = Load<uint32_t>(from + kAuxAt);
  header.meta_bytes = Load<uint32_t>(from + kMetaBytesAt);
  header.sequence = Load<uint32_t>(from + kSequenceAt);
  header.check = Load<uint32_t>(from + kCheckAt);
  header.call = Load<uint64_t>(from + kCallAt);
  header.body_bytes = Load<uint64_t>(from + kBodyBytesAt);

  // Each term is a comparison and an or; a single branch then tests all of them.
  const uint16_t magic = Load<uint16_t>(from + kMagicAt);
  const uint8_t kind = static_cast<uint8_t>(header.kind);
  const KindRule& rule = RuleOf(kind);
  const uint64_t body_bytes_max = header.kind == FrameKind::kChunk ? limits.chunk_bytes_max : limits.body_bytes_max;
  const bool bad = (magic != kFrameMagic) | (kind >= kKinds) | (rule.name == nullptr) | (header.flags != 0) |
                   (header.method > rule.method_max) | (header.aux > rule.aux_max) | (header.call > rule.call_max) |
                   (header.segments > rule.segments_max) | (header.segments > limits.segments_max) |
                   (header.meta_bytes > rule.meta_bytes_max) | (header.meta_bytes > limits.meta_bytes_max) |
                   (header.body_bytes > rule.body_bytes_max) | (header.body_bytes > body_bytes_max) |
                   (header.body_bytes < rule.body_bytes_min) |
                   (header.meta_bytes < SegmentTableBytes(header.segments)) |
                   ((header.segments == 0) & (header.body_bytes != 0) & (rule.segments_max != 0));
  if (__builtin_expect(bad, 0)) return Explain(header, magic, limits);
  return header;
}

Status CheckMeta(ConstBytes header_bytes, const FrameHeader& header, ConstBytes meta) {
  FUSEWIRE_CHECK(header_bytes.size >= kHeaderBytes);
  FUSEWIRE_CHECK(meta.size == header.meta_bytes);
  const uint32_t check = CheckOf(header_bytes.data, meta);
  if (__builtin_expect(check != header.check, 0)) {
    return Status::Corrupt(std::string(KindName(header.kind)) + " frame: check " + std::to_string(header.check) +
                           ", but header and meta give " + std::to_string(check));
  }
  if (header.segments <= 1) return Status();
  uint64_t sum = 0;
  bool overflow = false;
  for (uint16_t i = 0; i < header.segments; ++i) {
    overflow |= __builtin_add_overflow(sum, SegmentBytes(header, meta, i), &sum);
  }
  if (__builtin_expect(overflow | (sum != header.body_bytes), 0)) {
    return Status::Corrupt(std::string(KindName(header.kind)) + " frame: segments add up to " +
                           (overflow ? "more than 64 bits" : std::to_string(sum)) + ", but body_bytes " +
                           std::to_string(header.body_bytes));
  }
  return Status();
}

size_t SegmentTableBytes(uint16_t segments) { return segments > 1 ? segments * sizeof(uint64_t) : 0; }

uint64_t SegmentBytes(const FrameHeader& header, ConstBytes meta, uint16_t index) {
  FUSEWIRE_DCHECK(index < header.segments);
  if (header.segments == 1) return header.body_bytes;
  return Load<uint64_t>(meta.data + index * sizeof(uint64_t));
}

ConstBytes HeadOf(const FrameHeader& header, ConstBytes meta) { return meta.From(SegmentTableBytes(header.segments)); }

void EncodeSegmentBytes(uint64_t bytes, uint16_t index, Bytes meta) {
  FUSEWIRE_DCHECK((index + size_t{1}) * sizeof(uint64_t) <= meta.size);
  Store(meta.data + index * sizeof(uint64_t), bytes);
}

// ---- the head of an error ----

namespace {

// Not in the middle of a UTF-8 character.
void AppendCutText(const std::string& text, std::string* out) {
  size_t size = std::min(text.size(), kStatusTextBytesMax);
  if (size < text.size()) {
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;
  }
  AppendText(out, text.data(), size);
}

}  // namespace

void AppendStatus(const Status& status, std::string* out) {
  Append(out, status.app_code());
  AppendCutText(status.cause(), out);
  AppendCutText(status.peer(), out);
  AppendCutText(status.phase(), out);
  AppendCutText(status.next(), out);
}

Status DecodeStatus(Code code, ConstBytes in, Status* out) {
  Reader reader(in);
  const uint32_t app_code = reader.Number<uint32_t>();
  const ConstBytes cause = reader.Text();
  const ConstBytes peer = reader.Text();
  const ConstBytes phase = reader.Text();
  const ConstBytes next = reader.Text();
  if (!reader.ok()) return Truncated("status");
  if (!reader.left().empty()) {
    return Status::Corrupt("status: " + std::to_string(reader.left().size) + " bytes after its end");
  }
  if (app_code != 0 && code != Code::kApplication) {
    return Status::Corrupt("status: app_code " + std::to_string(app_code) + " with code " + CodeName(code));
  }
  Status status =
      code == Code::kApplication ? Status::Application(app_code, cause.ToString()) : Status(code, cause.ToString());
  *out = status.Peer(peer.ToString()).Phase(phase.ToString()).Next(next.ToString());
  return Status();
}

}  // namespace fusewire::wire
