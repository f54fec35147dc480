// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/meeting.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/random.h"

namespace fusewire {
namespace transport {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int) * kNoteFilesMax);

bool IsLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr) >> 24) == 127;
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

const uint64_t* Probe() {
  static const uint64_t word = SystemRandom64();
  return &word;
}

void TakeFiles(msghdr* message, Packet* packet) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      CopyBytes(Bytes(&file, sizeof(file)), ConstBytes(CMSG_DATA(header) + i * sizeof(int), sizeof(int)));
      Fd owned(file);  // closed here if there are more than fit
      if (packet->file_count < kNoteFilesMax) packet->files[packet->file_count++] = std::move(owned);
    }
  }
}

}  // namespace

Status SendNote(int socket, const Note& note, const int* files, size_t file_count) {
  alignas(cmsghdr) char control[kControlBytes] = {};
  iovec part = {const_cast<Note*>(&note), sizeof(note)};  // sendmsg only reads
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * file_count);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * file_count);
    CopyBytes(Bytes(CMSG_DATA(header), sizeof(int) * file_count), ConstBytes(files, sizeof(int) * file_count));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof(note))) return Status::Ok();
  return Status::FromErrno(Code::kUnavailable, "sendmsg", errno).Phase("meet over shared memory");
}

std::optional<Result<Packet>> ReceiveNote(int socket, NoteKind kind, size_t file_count) {
  Packet packet;
  alignas(cmsghdr) char control[kControlBytes] = {};
  iovec part = {&packet.note, sizeof(packet.note)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (got < 0) return Result<Packet>(Status::FromErrno(Code::kUnavailable, "recvmsg", errno));
  TakeFiles(&message, &packet);
  if (got == 0) return Result<Packet>(Status::Unavailable("the peer closed the connection"));
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Result<Packet>(Status::Overloaded("no descriptors left for what the peer sent")
                              .Next("raise the limit of open files (ulimit -n)"));
  }
  const Note expected;
  const bool good = got == static_cast<ssize_t>(sizeof(Note)) && (message.msg_flags & MSG_TRUNC) == 0 &&
                    packet.note.magic == expected.magic && packet.note.version == expected.version &&
                    packet.note.kind == kind && packet.file_count == file_count;
  if (!good) return Result<Packet>(Status::Corrupt("the peer's greeting is not ours"));
  return Result<Packet>(std::move(packet));
}

Status SendBell(int socket, const reactor::Doorbell& bell, uint32_t bit) {
  Note note;
  note.kind = NoteKind::kBell;
  note.bit = bit;
  const auto [rung, asleep, event] = bell.files();
  const int files[] = {rung, asleep, event};
  return SendNote(socket, note, files, 3);
}

Result<PeerProcess> CheckPeer(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return Status::FromErrno(Code::kUnavailable, "getsockopt", errno);
  if (peer.uid != geteuid()) {
    return Status::Refused("the process at the other end belongs to user " + std::to_string(peer.uid) +
                           ", and we to user " + std::to_string(geteuid()))
        .Next("run both tasks as one user; until then they speak over TCP");
  }
  return PeerProcess{peer.pid, peer.uid};
}

uint64_t ProbeAddress() { return reinterpret_cast<uint64_t>(Probe()); }
uint64_t ProbeWord() { return *Probe(); }

bool CanRead(pid_t pid, uint64_t address, uint64_t word) {
  if (pid <= 0) return false;
  uint64_t found = 0;
  iovec into = {&found, sizeof(found)};
  iovec from = {reinterpret_cast<void*>(address), sizeof(found)};  // NOLINT(performance-no-int-to-ptr): the peer's
  return process_vm_readv(pid, &into, 1, &from, 1, 0) == static_cast<ssize_t>(sizeof(found)) && found == word;
}

UnixAddress MeetingPlace(const std::string& number, uint16_t port) {
  const std::string name = "fusewire/1/" + number + "/" + std::to_string(port);
  UnixAddress address;
  address.storage.sun_family = AF_UNIX;
  // The name begins behind a zero byte: it is none of the file system's, and goes with its socket.
  CopyBytes(Bytes(address.storage.sun_path + 1, sizeof(address.storage.sun_path) - 1), ConstBytes(name));
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
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

}  // namespace transport
}  // namespace fusewire
