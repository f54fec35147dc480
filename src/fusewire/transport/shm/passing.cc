// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/passing.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr size_t kSenderBytes = CMSG_SPACE(sizeof(ucred));
constexpr size_t kControlBytesMax = kSenderBytes + CMSG_SPACE(sizeof(int) * kPassedFilesMax);

// Both calls take the same structure.
msghdr MessageOf(iovec* part, char* control, size_t control_bytes) {
  FUSEWIRE_CHECK(control_bytes <= kControlBytesMax);
  msghdr message = {};
  message.msg_iov = part;
  message.msg_iovlen = 1;
  if (control_bytes == 0) return message;
  message.msg_control = control;
  message.msg_controllen = control_bytes;
  return message;
}

size_t FileBytes(size_t files) {
  FUSEWIRE_CHECK(files <= kPassedFilesMax);
  return files == 0 ? 0 : CMSG_SPACE(sizeof(int) * files);
}

}  // namespace

ssize_t SendPacket(int socket, ConstBytes bytes, const int* files, size_t file_count) {
  alignas(cmsghdr) char control[kControlBytesMax] = {};
  iovec part = {const_cast<uint8_t*>(bytes.data), bytes.size};  // sendmsg only reads
  msghdr message = MessageOf(&part, control, FileBytes(file_count));
  if (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    const size_t file_bytes = sizeof(int) * file_count;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(file_bytes);
    CopyBytes(Bytes(CMSG_DATA(header), file_bytes), ConstBytes(files, file_bytes));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

PassedPacket ReceivePacket(int socket, Bytes into, size_t files_max) {
  alignas(cmsghdr) char control[kControlBytesMax] = {};
  iovec part = {into.data, into.size};
  msghdr message = MessageOf(&part, control, kSenderBytes + FileBytes(files_max));
  PassedPacket packet;
  do {
    packet.bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (packet.bytes < 0 && errno == EINTR);
  if (packet.bytes < 0) return packet;
  packet.flags = message.msg_flags;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred sender = {};
      CopyBytes(Bytes(&sender, sizeof(sender)), ConstBytes(CMSG_DATA(header), sizeof(sender)));
      packet.sender = sender.pid;
    }
    if (header->cmsg_type != SCM_RIGHTS) continue;
    // Where no sender is named, there is room for more.
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      CopyBytes(Bytes(&file, sizeof(file)), ConstBytes(CMSG_DATA(header) + i * sizeof(int), sizeof(int)));
      packet.files.emplace_back(file);
    }
  }
  return packet;
}

}  // namespace fusewire::transport
