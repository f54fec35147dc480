// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/control_message.h"

#include <algorithm>

#include "fusewire/wire/coder.h"

namespace fusewire::collective {
namespace {

constexpr uint8_t kControlVersion = 1;
constexpr size_t kTextBytesMax = 1000;

void AppendShort(std::string* out, const std::string& text) {
  wire::AppendText(out, text.data(), std::min(text.size(), kTextBytesMax));
}

}  // namespace

std::string EncodeControl(const ControlMessage& message) {
  std::string out;
  wire::Append(&out, kControlVersion);
  wire::Append(&out, static_cast<uint8_t>(message.verb));
  wire::Append(&out, message.epoch);
  wire::Append(&out, message.round);
  uint8_t print[kFingerprintBytes];
  EncodeFingerprint(message.print, Bytes(print, sizeof(print)));
  out.append(reinterpret_cast<const char*>(print), sizeof(print));
  wire::Append(&out, static_cast<uint8_t>(message.status.code()));
  AppendShort(&out, message.status.cause());
  AppendShort(&out, message.status.peer());
  AppendShort(&out, message.status.next());
  wire::Append(&out, static_cast<uint32_t>(message.seats.size()));
  for (size_t i = 0; i < message.seats.size(); i += 8) {
    uint8_t bits = 0;
    for (size_t j = i; j < std::min(message.seats.size(), i + 8); ++j) {
      bits = static_cast<uint8_t>(bits | ((message.seats[j] ? 1 : 0) << (j - i)));
    }
    wire::Append(&out, bits);
  }
  return out;
}

Result<ControlMessage> DecodeControl(ConstBytes in) {
  wire::Reader reader(in);
  ControlMessage message;
  const auto version = reader.Number<uint8_t>();
  const auto verb = reader.Number<uint8_t>();
  message.epoch = reader.Number<uint32_t>();
  message.round = reader.Number<uint64_t>();
  const ConstBytes print = reader.Take(kFingerprintBytes);
  const auto code = reader.Number<uint8_t>();
  const ConstBytes cause = reader.Text();
  const ConstBytes peer = reader.Text();
  const ConstBytes next = reader.Text();
  const auto seats = reader.Number<uint32_t>();
  const ConstBytes bits = reader.Take(seats <= kControlSeatsMax ? (seats + 7) / 8 : SIZE_MAX);
  const bool short_enough = std::max({cause.size, peer.size, next.size}) <= kTextBytesMax;
  const bool known = version == kControlVersion && verb >= 1 && verb <= static_cast<uint8_t>(ControlVerb::kDecided);
  const bool says_why = SaysWhy(static_cast<ControlVerb>(verb));
  if (!reader.ok() || !known || says_why != (code != 0) || !short_enough || code > kCodeMax || !reader.left().empty())
    return Status::Corrupt("a control message of " + std::to_string(in.size) + " bytes is malformed: version " +
                           std::to_string(version) + ", verb " + std::to_string(verb));
  message.verb = static_cast<ControlVerb>(verb);
  message.print = FUSEWIRE_TRY(DecodeFingerprint(print));
  if (code != 0) {
    message.status = Status(static_cast<Code>(code), cause.ToString());
    if (!peer.empty()) message.status = message.status.Peer(peer.ToString());
    if (!next.empty()) message.status = message.status.Next(next.ToString());
  }
  message.seats.resize(seats);
  for (uint32_t i = 0; i < seats; ++i) message.seats[i] = (bits.data[i / 8] >> (i % 8) & 1) != 0;
  return message;
}

}  // namespace fusewire::collective
