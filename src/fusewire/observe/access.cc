// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/access.h"

#include <algorithm>
#include <array>

#include "fusewire/base/bytes.h"
#include "fusewire/base/parse.h"
#include "fusewire/wire/hello.h"

namespace fusewire::observe {
namespace {

constexpr std::string_view kScheme = "Fusewire ", kBearer = "Bearer ";
constexpr size_t kNonceDigitsMin = 16, kNonceDigitsMax = 64;

ConstBytes BytesOf(std::string_view text) { return ConstBytes(text.data(), text.size()); }

// In a time that does not depend on where they differ.
bool AreEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

bool IsHex(char letter) { return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f'); }

std::string Sign(const std::string& secret, const std::string& message) {
  const std::array<uint8_t, 32> key = wire::HmacSha256(BytesOf(secret), BytesOf("fusewire status"));
  const std::array<uint8_t, 32> proof = wire::HmacSha256(ConstBytes(key.data(), key.size()), BytesOf(message));
  std::string hex;
  for (const uint8_t byte : proof) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace

std::string TokenOf(const std::string& secret) { return Sign(secret, "metrics"); }

std::string ProofOf(const std::string& secret, const std::string& time, const std::string& nonce,
                    const std::string& host, const std::string& target) {
  return Sign(secret, time + "\n" + nonce + "\n" + host + "\n" + target);
}

Refusal Access::Check(const Request& request, const Here& here, int64_t now_ms) {
  if (secret_.empty()) {
    if (request.host.empty() || IsAddressOrLocalhost(request.host)) return {};
    return {421, "the request names a host that is neither an address nor localhost; ask by the address"};
  }
  const std::string_view given = request.authorization;
  if (request.path == "/metrics" && given.substr(0, kBearer.size()) == kBearer) {
    if (AreEqual(given.substr(kBearer.size()), TokenOf(secret_))) return {};
    return {401, "the token is not that of /metrics: `fusewire top --token` prints it from FUSEWIRE_SECRET"};
  }
  if (given.substr(0, kScheme.size()) == kScheme) return CheckProof(request, here, now_ms);
  return {401, "this port asks for a proof of the cluster's secret: `fusewire top` makes one from FUSEWIRE_SECRET"};
}

Refusal Access::CheckProof(const Request& request, const Here& here, int64_t now_ms) {
  const std::string_view words = std::string_view(request.authorization).substr(kScheme.size());
  const size_t first = words.find(':'), second = words.find(':', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos) return {401, "the proof is not TIME:NONCE:PROOF"};
  const std::string time(words.substr(0, first)), nonce(words.substr(first + 1, second - first - 1));
  int64_t then_ms = 0;
  if (!ParseNumber(time, &then_ms) || then_ms < 0) return {401, "the proof's time is not a number of milliseconds"};
  if (nonce.size() < kNonceDigitsMin || nonce.size() > kNonceDigitsMax ||
      !std::all_of(nonce.begin(), nonce.end(), IsHex))
    return {401, "the proof's nonce is not 16 to 64 hexadecimal digits"};
  if (!AreEqual(words.substr(second + 1), ProofOf(secret_, time, nonce, request.host, request.target)))
    return {401, "the proof is wrong: FUSEWIRE_SECRET differs from this task's, or the request was changed"};
  // The proof is right, so these hosts, times and nonces come from a member of the cluster, now or earlier.
  const std::string place = PlaceOf(request.host);
  if (place != here.address && std::find(here.others.begin(), here.others.end(), place) == here.others.end())
    return {401, "the proof is for " + request.host + ", and this is " + here.address + "; ask by this address"};
  if (then_ms > now_ms + kMillisecondsMax || then_ms < now_ms - kMillisecondsMax)
    return {401, "the proof is older than 30 s, or the two clocks differ by more"};
  if (then_ms < opened_ms_)
    return {401, "the proof was made before this process opened its port, or by a clock that is slow; ask again"};
  for (auto old = nonces_.begin(); old != nonces_.end();) old = old->second < now_ms ? nonces_.erase(old) : ++old;
  if (nonces_.size() >= kNoncesMax) return {401, "too many requests in a minute"};
  if (!nonces_.emplace(nonce, now_ms + 2 * kMillisecondsMax).second) return {401, "the proof has been used"};
  return {};
}

}  // namespace fusewire::observe
