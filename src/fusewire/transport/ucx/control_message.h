// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The control messages between two ends over the lower transport, to meet and to end: one at a time.
//   dialler   kHello + its worker's address; then kMove, or kStay and the stream
//   listener  kWelcome + its worker's address, or kNo and the stream; over UCX it sends nothing before kMove
//   either    kEnd, the last one before it closes: the sequence behind its last record
// kWelcome and kMove name the sender's endpoint: an end that knows another one for that worker has one that leads
// nowhere.
// Home: none, plain values. Owns: what has come of a message. Fails: the reader says what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

// Bytes that are kept in a vector until they can be sent or delivered.
inline void AppendBytes(std::vector<uint8_t>* to, ConstBytes bytes) {
  to->insert(to->end(), bytes.data, bytes.data + bytes.size);
}
inline ConstBytes ViewOf(const std::vector<uint8_t>& bytes) { return ConstBytes(bytes.data(), bytes.size()); }

enum class UcxControlKind : uint16_t { kHello = 1, kWelcome = 2, kNo = 3, kMove = 4, kStay = 5, kEnd = 6 };

// As it travels; address_bytes bytes follow it.
struct UcxControlMessage {
  uint32_t magic = 0x78756677;  // "wfux"
  uint16_t version = 1;
  UcxControlKind kind = UcxControlKind::kHello;
  uint32_t address_bytes = 0;
  uint32_t has_rdma = 0;
  uint64_t id = 0;
  uint64_t value = 0;
};
constexpr size_t kUcxControlBytes = 32;
static_assert(sizeof(UcxControlMessage) == kUcxControlBytes, "both ends count on it");
static_assert(offsetof(UcxControlMessage, kind) == 6);
static_assert(offsetof(UcxControlMessage, address_bytes) == 8);
static_assert(offsetof(UcxControlMessage, id) == 16);
static_assert(offsetof(UcxControlMessage, value) == 24);

constexpr size_t kUcxAddressBytesMax = 16 * 1024;

// Whether an address belongs behind a message of this kind.
constexpr bool HasAddress(UcxControlKind kind) {
  return kind == UcxControlKind::kHello || kind == UcxControlKind::kWelcome;
}

// Appends the message to `out`, and `address` where the kind has one.
void EncodeControl(UcxControlMessage message, ConstBytes address, std::vector<uint8_t>* out);

// Puts messages together from the pieces in which they come.
class UcxControlReader {
 public:
  enum class State {
    kPartial,   // there is more to come
    kWhole,     // message() and address()
    kStranger,  // it does not begin like a message; begun() is what came
    kCorrupt,   // why() says what is wrong
  };
  // Where the next bytes are to land: never more than belongs to this message, as far as that is known.
  Bytes room() { return Bytes(bytes_.data(), bytes_.size()).From(filled_); }
  State OnLanded(size_t bytes);
  // After kWhole.
  const UcxControlMessage& message() const { return message_; }
  ConstBytes address() const { return ConstBytes(bytes_.data(), bytes_.size()).From(kUcxControlBytes); }
  ConstBytes begun() const { return ConstBytes(bytes_.data(), filled_); }
  const Status& why() const { return why_; }

 private:
  State Decode();

  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(kUcxControlBytes);
  size_t filled_ = 0;
  UcxControlMessage message_;
  Status why_;
};

}  // namespace fusewire::transport
