// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages of two peers before the first frame: names, versions, and proofs that they know the secret.
// Home: none, pure functions. Fails: Decode* returns kCorrupt (not our protocol) or kRefused (a
// refusal).
//   greeting := magic:"FUSEWIRE" version:u16 version_min:u16 kind:u8 zero:u8 body_bytes:u16 body
//               these 16 bytes before the body, the prefix, never change
//   hello    := kind 1, dialer first      features:u64 incarnation:u64 nonce:u8[32] chunk_bytes:u32 window_bytes:u64
//                                         service:u16 flags:u16 cluster:text name:text
//   text     := bytes:u16 u8[bytes]
//   challenge := kind 5, acceptor         nonce:u8[32]; only if both have a secret (flag bit 0), else no proof either
//   proof    := kind 3, dialer            proof:u8[32]
//   welcome  := kind 2, acceptor's last   the body of a hello, then proof:u8[32] if both have a secret
//   refusal  := kind 4, instead of any    code:u8 why:text
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::wire {

constexpr uint16_t kVersion = 2;     // the newest version that we support
constexpr uint16_t kVersionMin = 2;  // the oldest version that we support
constexpr size_t kMagicBytes = 8;
constexpr size_t kGreetingPrefixBytes = 16;
constexpr size_t kGreetingBytesMax = 4096;  // prefix and body
constexpr size_t kNameBytesMax = 512;       // of a cluster or a task
constexpr size_t kRefusalWhyBytesMax = 1024;
constexpr uint32_t kChunkBytesMin = 4096;  // smaller chunks would be mostly headers

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

enum class GreetingKind : uint8_t { kHello = 1, kWelcome = 2, kProof = 3, kRefusal = 4, kChallenge = 5 };

struct GreetingPrefix {
  uint16_t version = kVersion;
  uint16_t version_min = kVersionMin;
  GreetingKind kind = GreetingKind::kHello;
  uint16_t body_bytes = 0;
};

struct Hello {
  uint64_t features = 0;     // a feature is on if both sides set its bit
  uint64_t incarnation = 0;  // drawn once per process: distinguishes a restarted peer from the old one
  Nonce nonce{};
  uint32_t chunk_bytes = 0;   // the largest chunk that the sender accepts; the smaller of both values applies
  uint64_t window_bytes = 0;  // initial credit of the peer
  uint16_t service = 0;       // the pipe's service: 1 rpc, 2 endpoints, ...; defined by the layer above
  bool has_secret = false;
  std::string cluster;  // must be the same on both sides
  std::string name;     // the sender's task, for logs and errors: "worker:3"
};

struct Refusal {
  Code code = Code::kRefused;
  std::string why;
};

// "1 (rpc)", "2 (endpoints)", "7": for messages.
std::string ServiceWords(uint16_t service);

// kInvalid if a name is too long or has control characters, or a number is out of range: for a user's settings.
Status CheckHello(const Hello& hello);
// Here and below `hello` has passed CheckHello().
std::string EncodeHello(const Hello& hello);
// With a secret, the welcome ends with `proof`, which covers everything before it. To compute that proof, encode with a
// null proof first: the result lacks the proof, but its body_bytes includes it. Without a secret, `proof` must be
// null.
std::string EncodeWelcome(const Hello& hello, const Proof* proof);
std::string EncodeProof(const Proof& proof);
std::string EncodeChallenge(const Nonce& nonce);
// A `why` of more than kRefusalWhyBytesMax is truncated.
std::string EncodeRefusal(const Refusal& refusal);

// Reads kGreetingPrefixBytes. kCorrupt says what it looks like instead (an HTTP request, a TLS hello, ...); fewer
// bytes are kCorrupt as well, with the same text: for a peer that sent little and fell silent.
// kRefused means our protocol in a version that we don't support. Never answer the first; answer the second with a
// refusal. A refusal is the same in all versions, so its prefix is accepted with any version.
Result<GreetingPrefix> DecodeGreetingPrefix(ConstBytes prefix);
// False: these bytes can't begin a greeting, whatever follows. A few bytes are enough.
bool MayBeGreeting(ConstBytes words);
Result<Hello> DecodeHello(ConstBytes body);
struct Welcome {
  Hello hello;
  bool has_proof = false;
  Proof proof{};
};
Result<Welcome> DecodeWelcome(ConstBytes body);
Result<Proof> DecodeProof(ConstBytes body);
Result<Nonce> DecodeChallenge(ConstBytes body);
Result<Refusal> DecodeRefusal(ConstBytes body);

// HMAC-SHA-256 over a label ("acceptor" or "dialer"), all greetings so far, as sent, with a welcome without its proof;
// and what only the two ends of this connection know (Connection::Binding), which may be nothing. The labels differ, so
// that a proof can't be sent back to its creator; greetings say how long they are, so that the sum has one meaning.
Proof MakeProof(const std::string& secret, const char* label, ConstBytes greetings, ConstBytes binding);
// In constant time.
bool SameProof(const Proof& left, const Proof& right);

// Our own SHA-256 and HMAC: TensorFlow exports BoringSSL's symbols, so we can't link such a library.
std::array<uint8_t, 32> Sha256(ConstBytes bytes);
std::array<uint8_t, 32> HmacSha256(ConstBytes key, ConstBytes message);

}  // namespace fusewire::wire
