// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Who may ask the status port. On loopback, everybody who is there; beyond it, those who prove that they know the
// cluster's secret, with each request:
//   Authorization: Fusewire SECONDS:NONCE:PROOF
//   PROOF := hex(HMAC-SHA-256(HMAC-SHA-256(secret, "fusewire status"), "SECONDS\nNONCE\nHOST\nTARGET"))
// SECONDS is the time since 1970, NONCE 16 to 64 hexadecimal digits, HOST the Host header. A proof counts once, for
// half a minute around its time. Prometheus can't make proofs: for /metrics alone, a token that never changes suffices.
//   Authorization: Bearer TOKEN
//   TOKEN := hex(HMAC-SHA-256(HMAC-SHA-256(secret, "fusewire status"), "metrics"))
// Home: the port's thread. Owns: the nonces of the last minute. Fails: with the reason, for the answer.
#ifndef FUSEWIRE_OBSERVE_ACCESS_H_
#define FUSEWIRE_OBSERVE_ACCESS_H_

#include <cstdint>
#include <map>
#include <string>

#include "fusewire/observe/request.h"

namespace fusewire {
namespace observe {

std::string ProofOf(const std::string& secret, const std::string& seconds, const std::string& nonce,
                    const std::string& host, const std::string& target);

std::string TokenOf(const std::string& secret);

class Access {
 public:
  static constexpr int64_t kSecondsMax = 30;  // between the clocks of two tasks, and on the way
  static constexpr size_t kNoncesMax = 4096;  // 68 requests a second

  // An empty secret: everybody may ask who reaches the port.
  explicit Access(std::string secret) : secret_(std::move(secret)) {}
  Refusal Check(const Request& request, int64_t now_s);

 private:
  Refusal CheckProof(const Request& request, int64_t now_s);

  const std::string secret_;
  std::map<std::string, int64_t> nonces_;  // until when each is remembered
};

}  // namespace observe
}  // namespace fusewire

#endif  // FUSEWIRE_OBSERVE_ACCESS_H_
