// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/control_message.h"

#include <algorithm>
#include <string>

#include "fusewire/base/check.h"

namespace fusewire::transport {

void EncodeControl(UcxControlMessage message, ConstBytes address, std::vector<uint8_t>* out) {
  FUSEWIRE_CHECK(address.empty() || HasAddress(message.kind));
  FUSEWIRE_CHECK(address.size <= kUcxAddressBytesMax);
  message.address_bytes = static_cast<uint32_t>(address.size);
  AppendBytes(out, ConstBytes(&message, sizeof(message)));
  AppendBytes(out, address);
}

UcxControlReader::State UcxControlReader::OnLanded(size_t bytes) {
  FUSEWIRE_CHECK(bytes <= bytes_.size() - filled_);
  filled_ += bytes;
  const UcxControlMessage expected;
  const auto* magic = reinterpret_cast<const uint8_t*>(&expected.magic);
  if (!std::equal(magic, magic + std::min(filled_, sizeof(expected.magic)), bytes_.data())) return State::kStranger;
  return filled_ < bytes_.size() ? State::kPartial : Decode();
}

UcxControlReader::State UcxControlReader::Decode() {
  FUSEWIRE_CHECK(filled_ >= kUcxControlBytes);
  CopyBytes(Bytes(&message_, sizeof(message_)), ConstBytes(bytes_.data(), sizeof(message_)));
  const UcxControlMessage expected;
  if (message_.version != expected.version) {
    why_ = Status::Corrupt("the version of the peer's control message is " + std::to_string(message_.version) +
                           ", and ours is " + std::to_string(expected.version))
               .Next("run the same version of Fusewire on both sides");
    return State::kCorrupt;
  }
  if (message_.address_bytes > kUcxAddressBytesMax) {
    why_ = Status::Corrupt("the address in the peer's control message has " + std::to_string(message_.address_bytes) +
                           " bytes, and may have " + std::to_string(kUcxAddressBytesMax))
               .Next("check what connects to this port");
    return State::kCorrupt;
  }
  const size_t whole = kUcxControlBytes + message_.address_bytes;
  if (filled_ < whole) {
    bytes_.resize(whole);
    return State::kPartial;
  }
  FUSEWIRE_CHECK(filled_ == whole);
  return State::kWhole;
}

}  // namespace fusewire::transport
