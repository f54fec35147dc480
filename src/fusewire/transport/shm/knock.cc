// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/knock.h"

#include <string>

namespace fusewire::transport {
namespace {

Status WrongKnock(const std::string& what) {
  return Status::Corrupt("the process at the other end is no rank of this gathering: " + what)
      .Next("run the same version of Fusewire in all ranks");
}

}  // namespace

std::array<uint8_t, kKnockBytes> EncodeKnock(const Knock& knock) {
  std::array<uint8_t, kKnockBytes> packet;
  CopyBytes(Bytes(packet.data(), packet.size()), ConstBytes(&knock, sizeof(knock)));
  return packet;
}

Result<Knock> DecodeKnock(ConstBytes packet, uint32_t count) {
  if (packet.size != kKnockBytes) return WrongKnock("its knock has " + std::to_string(packet.size) + " bytes");
  Knock knock;
  CopyBytes(Bytes(&knock, sizeof(knock)), packet);
  if (knock.magic != Knock().magic) return WrongKnock("its knock begins with other bytes");
  if (knock.count != count) return WrongKnock("it counts " + std::to_string(knock.count) + " ranks");
  if (knock.number >= count) return WrongKnock("its number is " + std::to_string(knock.number));
  return knock;
}

}  // namespace fusewire::transport
