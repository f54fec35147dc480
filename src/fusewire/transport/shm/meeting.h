// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How two processes meet: over a unix socket of packets, with an abstract name, in one network namespace.
//   dialler   hello    the segment, its doorbell (rung, asleep, eventfd), its bit; a word to try process_vm_readv with
//   listener  welcome  a word to try it with; both sides then say in the segment whether they can
//   listener  bell     its doorbell and bit, once the connection has a home: until then the dialler writes unheard; and
//                      once more if the connection goes to another home, before anything is answered
// The socket stays open: its end is the end of the process, or of the connection.
// A name proves nothing, so both sides ask the kernel who is at the other end, and turn other users away.
// Home: none. Owns: nothing but the descriptors that it hands over. Fails: with a Status each.
#ifndef FUSEWIRE_TRANSPORT_SHM_MEETING_H_
#define FUSEWIRE_TRANSPORT_SHM_MEETING_H_

#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire {
namespace transport {

enum class NoteKind : uint16_t { kHello = 1, kWelcome = 2, kBell = 3 };

// One packet.
struct Note {
  uint32_t magic = 0x6d736677;  // "wfsm"
  uint16_t version = 4;
  NoteKind kind = NoteKind::kHello;
  uint32_t ring_bytes = 0;
  uint32_t bit = 0;
  uint64_t probe_address = 0;
  uint64_t probe_word = 0;
};
static_assert(sizeof(Note) == 32, "both ends are one machine's, but perhaps not one build's");

constexpr size_t kNoteFilesMax = 4;

struct Packet {
  Note note;
  std::array<Fd, kNoteFilesMax> files;
  size_t file_count = 0;
};

// Sends without waiting; a peer that does not read is no peer.
Status SendNote(int socket, const Note& note, const int* files, size_t file_count);
// Nothing: none is there yet. kUnavailable: the peer has gone. kCorrupt: it sent something else than `kind` with
// `file_count` files.
std::optional<Result<Packet>> ReceiveNote(int socket, NoteKind kind, size_t file_count);
Status SendBell(int socket, const reactor::Doorbell& bell, uint32_t bit);

struct PeerProcess {
  pid_t pid = 0;  // 0: it is in a pid namespace that we cannot see
  uid_t uid = 0;
};
// kRefused: it belongs to another user.
Result<PeerProcess> CheckPeer(int socket);

// A word of ours that nobody can guess, for peers to read; and whether we can read theirs.
uint64_t ProbeAddress();
uint64_t ProbeWord();
bool CanRead(pid_t pid, uint64_t address, uint64_t word);
// The same. The first time in this process that we cannot, one line of the log says what it costs.
bool CanReadOrTell(pid_t pid, uint64_t address, uint64_t word);

// Where who listens at this address and port is met: at "*" for every address.
struct UnixAddress {
  sockaddr_un storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
UnixAddress MeetingPlace(const std::string& number, uint16_t port);
constexpr char kEverywhere[] = "*";

// Whether the address is one of this network namespace: loopback, or an interface's own.
bool IsOwnAddress(const SocketAddress& address);
// The address without its port, in one way of writing.
std::string NumberOf(const SocketAddress& address);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_SHM_MEETING_H_
