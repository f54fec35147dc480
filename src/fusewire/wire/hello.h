// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What two peers say before the first frame: who they are, what they speak, and that they know the secret.
// Home: none, pure functions. Owns: nothing. Fails: Decode* returns kCorrupt (not our protocol) or kRefused (a polite
// no).
//
//   greeting := magic:"FUSEWIRE" version:u16 version_min:u16 kind:u8 zero:u8 body_bytes:u16 body     the prefix never
//   changes hello    := kind 1, dialer first      features:u64 incarnation:u64 nonce:u8[32] chunk_bytes:u32
//   window_bytes:u64
//                                         service:u16 flags:u16 cluster:text name:text      text := bytes:u16 u8[bytes]
//   welcome  := kind 2, the answer        the same body, then proof:u8[32] if both have a secret (flag bit 0)
//   proof    := kind 3, dialer's last     proof:u8[32]; only if a secret is set
//   refusal  := kind 4, instead of any    code:u8 why:text
#ifndef FUSEWIRE_WIRE_HELLO_H_
#define FUSEWIRE_WIRE_HELLO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire {
namespace wire {

constexpr uint16_t kVersion = 1;     // the newest that we speak
constexpr uint16_t kVersionMin = 1;  // the oldest that we speak
constexpr size_t kMagicBytes = 8;
constexpr size_t kGreetingPrefixBytes = 16;
constexpr size_t kGreetingBytesMax = 4096;  // prefix and body
constexpr size_t kNameBytesMax = 512;       // of a cluster or a task
constexpr size_t kRefusalWhyBytesMax = 1024;
constexpr uint32_t kChunkBytesMin = 4096;  // smaller chunks would be mostly headers

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

enum class GreetingKind : uint8_t { kHello = 1, kWelcome = 2, kProof = 3, kRefusal = 4 };

struct GreetingPrefix {
  uint16_t version = kVersion;
  uint16_t version_min = kVersionMin;
  GreetingKind kind = GreetingKind::kHello;
  uint16_t body_bytes = 0;
};

struct Hello {
  uint64_t features = 0;     // bits that both have are on
  uint64_t incarnation = 0;  // drawn once per process: tells a restarted peer from the old one
  Nonce nonce{};
  uint32_t chunk_bytes = 0;   // the largest chunk the sender wants to receive; the smaller of both counts
  uint64_t window_bytes = 0;  // credit that the peer starts with
  uint16_t service = 0;       // whom the pipe serves: 1 rpc, 2 endpoints, ... of the layer above
  bool has_secret = false;
  std::string cluster;  // both must say the same
  std::string name;     // the sender's task, for logs and errors: "worker:3"
};

struct Refusal {
  Code code = Code::kRefused;
  std::string why;
};

// "1 (rpc)", "2 (endpoints)", "7": for words.
std::string ServiceWords(uint16_t service);

// kInvalid if a name is too long or holds control characters, or a number is out of its range: for what a user has set.
Status CheckHello(const Hello& hello);
// Here and below `hello` has passed CheckHello().
std::string EncodeHello(const Hello& hello);
// With a secret the welcome ends with `proof`, which covers everything before it. To make that proof, encode with a
// null one first: the result lacks the proof, but its body_bytes counts it already. Without a secret `proof` must be
// null.
std::string EncodeWelcome(const Hello& hello, const Proof* proof);
std::string EncodeProof(const Proof& proof);
// A `why` of more than kRefusalWhyBytesMax is cut.
std::string EncodeRefusal(const Refusal& refusal);

// Reads kGreetingPrefixBytes. kCorrupt says in words what else it looks like (an HTTP request, a TLS hello, ...); fewer
// bytes are kCorrupt as well, with the same words: for a peer that said little and fell silent.
// kRefused means our protocol in a version that we don't share. Never answer the first; answer the second with a
// refusal. A refusal reads the same in all versions, so its prefix is taken whatever version it has.
Result<GreetingPrefix> DecodeGreetingPrefix(ConstBytes prefix);
// False: whoever says this is no peer of ours, whatever follows. A few bytes are enough.
bool MayBeGreeting(ConstBytes words);
Result<Hello> DecodeHello(ConstBytes body);
struct Welcome {
  Hello hello;
  bool has_proof = false;
  Proof proof{};
};
Result<Welcome> DecodeWelcome(ConstBytes body);
Result<Proof> DecodeProof(ConstBytes body);
Result<Refusal> DecodeRefusal(ConstBytes body);

// HMAC-SHA-256 over a label ("acceptor" or "dialer"), the dialer's hello and the welcome without its proof, as sent.
// Different labels: a proof cannot be sent back to the one who made it.
Proof MakeProof(const std::string& secret, const char* label, ConstBytes hello, ConstBytes welcome_without_proof);
// In constant time.
bool SameProof(const Proof& left, const Proof& right);

// SHA-256 and HMAC of our own: TensorFlow exports BoringSSL's names, so no such library may be linked beside it.
std::array<uint8_t, 32> Sha256(ConstBytes bytes);
std::array<uint8_t, 32> HmacSha256(ConstBytes key, ConstBytes message);

}  // namespace wire
}  // namespace fusewire

#endif  // FUSEWIRE_WIRE_HELLO_H_
