// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/control_message.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

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

Status SendControl(int socket, const ShmControlMessage& message, const int* files) {
  const auto packet = EncodeControl(message);
  const ssize_t sent = SendPacket(socket, ConstBytes(packet.data(), packet.size()), files, FilesOf(message.kind));
  if (sent == static_cast<ssize_t>(packet.size())) return Status::Ok();
  return Status::FromErrno(Code::kUnavailable, "sendmsg", errno).Phase("meet over shared memory");
}

std::optional<Result<Packet>> ReceiveControl(int socket, ShmControlKind expected) {
  uint8_t bytes[kShmControlBytes + 1];  // one more, so that a longer packet does not look like one of ours
  PassedPacket passed = ReceivePacket(socket, Bytes(bytes, sizeof(bytes)), kShmControlFilesMax);
  if (passed.bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (passed.bytes < 0) return Result<Packet>(Status::FromErrno(Code::kUnavailable, "recvmsg", errno));
  if (passed.bytes == 0) return Result<Packet>(Status::Unavailable("the peer closed the connection"));
  if ((passed.flags & MSG_CTRUNC) != 0) {
    return Result<Packet>(Status::Overloaded("no descriptors are left for those that the peer sent")
                              .Next("raise the limit of open files (ulimit -n)"));
  }
  Result<ShmControlMessage> message =
      DecodeControl(ConstBytes(bytes, static_cast<size_t>(passed.bytes)), passed.files.size(), expected);
  if (!message.ok()) return Result<Packet>(message.status());
  Packet packet;
  packet.message = message.value();
  packet.sender = passed.sender;
  FUSEWIRE_CHECK(passed.files.size() <= packet.files.size());
  std::move(passed.files.begin(), passed.files.end(), packet.files.begin());
  return Result<Packet>(std::move(packet));
}

Status SendBell(int socket, const reactor::Doorbell& bell, uint32_t bit) {
  FUSEWIRE_CHECK(bit < reactor::Doorbell::kBits);
  ShmControlMessage message;
  message.kind = ShmControlKind::kBell;
  message.bit = bit;
  const auto [rung, asleep, event] = bell.files();
  const int files[] = {rung, asleep, event};
  return SendControl(socket, message, files);
}

UnixAddress SocketName(const std::string& number, uint16_t port) {
  return AbstractAddress("fusewire/1/" + number + "/" + std::to_string(port));
}

UnixAddress AbstractAddress(const std::string& name) {
  UnixAddress address;
  address.storage.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address.storage.sun_path) - 1);
  CopyBytes(Bytes(address.storage.sun_path + 1, bytes), ConstBytes(name.data(), bytes));
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

bool IsOwnAddress(const SocketAddress& address) {
  if (IsLoopback(address)) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool own = false;
  for (const ifaddrs* it = all; it != nullptr && !own; it = it->ifa_next) own = SameNumber(it->ifa_addr, address.get());
  freeifaddrs(all);
  return own;
}

std::string NumberOf(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, text, sizeof(text));
  }
  return text;
}

// ---- packets ----

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
