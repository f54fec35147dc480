// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How two processes meet: over a unix socket of packets, with an abstract name, in one network namespace. One packet is
// one control message, with its descriptors.
//   dialler   kKnock    a nonce
//   listener  kKnock    its nonce, and the dialler's as the answer, which proves which process it is
//   dialler   kHello    the listener's nonce as the answer; how large the rings are, its bit at its doorbell; a word to
//                       try process_vm_readv with. With it travel the segment and its doorbell (rung, asleep, eventfd)
//   listener  kWelcome  a word to try it with; both sides then show in the segment whether they can read the other's
//                       memory
//   listener  kBell     its bit at its doorbell, and the doorbell, once the connection has a home: until then nobody
//                       reads what the dialler writes. Sent again if the connection moves to another home before
//                       anything is answered
// The socket stays open: its end is the end of the process, or of the connection.
// A name proves nothing, so both sides ask the kernel which process is at the other end, and refuse one of another user
// or container: see peer_process.h.
// Home: none. Owns: nothing but the descriptors that it hands over. Fails: with a Status each.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

enum class ShmControlKind : uint16_t { kHello = 1, kWelcome = 2, kBell = 3, kKnock = 4 };

struct ShmControlMessage {
  uint32_t magic = 0x6d736677;  // "wfsm"
  uint16_t version = 5;
  ShmControlKind kind = ShmControlKind::kHello;
  uint32_t ring_bytes = 0;
  uint32_t bit = 0;
  uint64_t probe_address = 0;
  uint64_t probe_word = 0;
  uint64_t nonce = 0;
  uint64_t answer = 0;
};
constexpr size_t kShmControlBytes = 48;
static_assert(sizeof(ShmControlMessage) == kShmControlBytes,
              "both ends are one machine's, but perhaps not one build's");
static_assert(offsetof(ShmControlMessage, kind) == 6);
static_assert(offsetof(ShmControlMessage, ring_bytes) == 8);
static_assert(offsetof(ShmControlMessage, bit) == 12);
static_assert(offsetof(ShmControlMessage, probe_address) == 16);
static_assert(offsetof(ShmControlMessage, probe_word) == 24);
static_assert(offsetof(ShmControlMessage, nonce) == 32);
static_assert(offsetof(ShmControlMessage, answer) == 40);

// How many descriptors travel with a message of this kind.
constexpr size_t FilesOf(ShmControlKind kind) {
  return kind == ShmControlKind::kHello ? 4 : kind == ShmControlKind::kBell ? 3 : 0;
}
constexpr size_t kShmControlFilesMax = FilesOf(ShmControlKind::kHello);

std::array<uint8_t, kShmControlBytes> EncodeControl(const ShmControlMessage& message);
// kCorrupt: the packet is not a message of this kind with its descriptors.
Result<ShmControlMessage> DecodeControl(ConstBytes packet, size_t file_count, ShmControlKind expected);

struct Packet {
  ShmControlMessage message;
  pid_t sender = 0;
  std::array<Fd, kShmControlFilesMax> files;  // as many as the kind has
};

// Sends without waiting: a peer whose queue is full is treated as gone. `files` are as many as the kind has.
Status SendControl(int socket, const ShmControlMessage& message, const int* files);
// Nothing: none is there yet. kUnavailable: the peer has gone. kCorrupt: it sent anything else.
std::optional<Result<Packet>> ReceiveControl(int socket, ShmControlKind expected);
Status SendBell(int socket, const reactor::Doorbell& bell, uint32_t bit);

// Where a process that listens at this address and port is met: at "*" for every address.
struct UnixAddress {
  sockaddr_un storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
UnixAddress SocketName(const std::string& number, uint16_t port);
// An abstract name: it has a leading zero byte, no file, and ends with its socket.
UnixAddress AbstractAddress(const std::string& name);
constexpr char kEverywhere[] = "*";

// Whether the address is one of this network namespace: loopback, or an interface's own.
bool IsOwnAddress(const SocketAddress& address);
// The address without its port, in one way of writing.
std::string NumberOf(const SocketAddress& address);

// ---- a packet over a unix socket, and descriptors that travel with it; neither call waits, both fail with errno ----

// Somewhat less than what the kernel takes in one packet.
constexpr size_t kPassedFilesMax = 129;

// Bytes sent, or -1.
ssize_t SendPacket(int socket, ConstBytes bytes, const int* files, size_t file_count);

struct PassedPacket {
  ssize_t bytes = -1;     // 0: the other end is closed; -1: see errno
  int flags = 0;          // MSG_TRUNC, MSG_CTRUNC: there was more than fits, or no descriptor left
  pid_t sender = 0;       // where the socket asks for it: SO_PASSCRED
  std::vector<Fd> files;  // may be more than `files_max`
};
PassedPacket ReceivePacket(int socket, Bytes into, size_t files_max);

}  // namespace fusewire::transport
