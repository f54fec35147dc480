// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/control_message.h"

#include <string>

namespace fusewire::transport {
namespace {

Status WrongControl(const char* field, uint64_t is, uint64_t expected) {
  return Status::Corrupt(std::string("the peer's control message has ") + field + " " + std::to_string(is) + ", not " +
                         std::to_string(expected))
      .Next("run the same version of Fusewire in both tasks");
}

}  // namespace

std::array<uint8_t, kShmControlBytes> EncodeControl(const ShmControlMessage& message) {
  std::array<uint8_t, kShmControlBytes> packet;
  CopyBytes(Bytes(packet.data(), packet.size()), ConstBytes(&message, sizeof(message)));
  return packet;
}

Result<ShmControlMessage> DecodeControl(ConstBytes packet, size_t file_count, ShmControlKind expected) {
  if (packet.size != kShmControlBytes) return WrongControl("a length of", packet.size, kShmControlBytes);
  ShmControlMessage message;
  const ShmControlMessage ours;
  CopyBytes(Bytes(&message, sizeof(message)), packet);
  if (message.magic != ours.magic) return WrongControl("the magic number", message.magic, ours.magic);
  if (message.version != ours.version) return WrongControl("version", message.version, ours.version);
  if (message.kind != expected)
    return WrongControl("kind", static_cast<uint64_t>(message.kind), static_cast<uint64_t>(expected));
  if (file_count != FilesOf(expected)) return WrongControl("a count of descriptors of", file_count, FilesOf(expected));
  return message;
}

}  // namespace fusewire::transport
