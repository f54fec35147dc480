// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := a greeting as it comes from a socket
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/wire/hello.h"

namespace fusewire::wire {
namespace {

bool IsControl(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }

// A log entry must be one line of bounded length, whatever the peer sent.
void CheckWords(const Status& status) {
  FUSEWIRE_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kRefused);
  FUSEWIRE_CHECK(!status.cause().empty());
  FUSEWIRE_CHECK(status.cause().size() < 200);
  FUSEWIRE_CHECK(std::none_of(status.cause().begin(), status.cause().end(), IsControl));
}

void CheckSane(const Hello& hello) {
  FUSEWIRE_CHECK(CheckHello(hello).ok());
  FUSEWIRE_CHECK(hello.cluster.size() <= kNameBytesMax);
  FUSEWIRE_CHECK(hello.name.size() <= kNameBytesMax);
}

std::string BodyOf(const std::string& greeting) { return greeting.substr(kGreetingPrefixBytes); }

// There is one way to write each of these, so what was read must be written back to the byte.
void TryHello(ConstBytes body) {
  Result<Hello> hello = DecodeHello(body);
  if (!hello.ok()) return CheckWords(hello.status());
  CheckSane(hello.value());
  FUSEWIRE_CHECK(BodyOf(EncodeHello(hello.value())) == body.ToString());
}

void TryWelcome(ConstBytes body) {
  Result<Welcome> welcome = DecodeWelcome(body);
  if (!welcome.ok()) return CheckWords(welcome.status());
  CheckSane(welcome.value().hello);
  FUSEWIRE_CHECK(welcome.value().has_proof == welcome.value().hello.has_secret);
  const Proof* proof = welcome.value().has_proof ? &welcome.value().proof : nullptr;
  FUSEWIRE_CHECK(BodyOf(EncodeWelcome(welcome.value().hello, proof)) == body.ToString());
}

void TryProof(ConstBytes body) {
  Result<Proof> proof = DecodeProof(body);
  if (!proof.ok()) return CheckWords(proof.status());
  FUSEWIRE_CHECK(BodyOf(EncodeProof(proof.value())) == body.ToString());
}

void TryChallenge(ConstBytes body) {
  Result<Nonce> challenge = DecodeChallenge(body);
  if (!challenge.ok()) return CheckWords(challenge.status());
  FUSEWIRE_CHECK(BodyOf(EncodeChallenge(challenge.value())) == body.ToString());
}

// Words are made fit for a log and may be cut, so it is the second reading that must not differ from the first.
void TryRefusal(ConstBytes body) {
  Result<Refusal> refusal = DecodeRefusal(body);
  if (!refusal.ok()) return CheckWords(refusal.status());
  const std::string& why = refusal.value().why;
  FUSEWIRE_CHECK(refusal.value().code != Code::kOk);
  FUSEWIRE_CHECK(std::none_of(why.begin(), why.end(), IsControl));
  Result<Refusal> again = DecodeRefusal(BodyOf(EncodeRefusal(refusal.value())));
  FUSEWIRE_CHECK(again.ok());
  FUSEWIRE_CHECK(again.value().code == refusal.value().code);
  FUSEWIRE_CHECK(again.value().why == why.substr(0, kRefusalWhyBytesMax));
}

void TryGreeting(ConstBytes in) {
  Result<GreetingPrefix> prefix = DecodeGreetingPrefix(in);
  if (!prefix.ok()) return CheckWords(prefix.status());
  FUSEWIRE_CHECK(in.size >= kGreetingPrefixBytes);
  FUSEWIRE_CHECK(prefix.value().body_bytes <= kGreetingBytesMax - kGreetingPrefixBytes);
  FUSEWIRE_CHECK(prefix.value().version_min <= prefix.value().version);
  const size_t there = std::min<size_t>(in.size - kGreetingPrefixBytes, prefix.value().body_bytes);
  const ConstBytes body = in.Sub(kGreetingPrefixBytes, there);
  switch (prefix.value().kind) {
    case GreetingKind::kHello: return TryHello(body);
    case GreetingKind::kWelcome: return TryWelcome(body);
    case GreetingKind::kProof: return TryProof(body);
    case GreetingKind::kRefusal: return TryRefusal(body);
    case GreetingKind::kChallenge: return TryChallenge(body);
  }
  FUSEWIRE_CHECK(!"a kind that does not exist was taken");
}

}  // namespace
}  // namespace fusewire::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fusewire::AllocatedBytes allocated;
  fusewire::wire::TryGreeting(fusewire::ConstBytes(data, size));
  // Reading it, writing it and comparing: a few copies of a greeting, and no more than one greeting may hold.
  FUSEWIRE_CHECK(allocated.sum() <= 10 * fusewire::wire::kGreetingBytesMax);
  return 0;
}
