// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which clients may query the status port. On loopback, all; beyond it, those that prove with each request that they
// know the cluster's secret:
//   Authorization: Fusewire TIME:NONCE:PROOF
//   PROOF := hex(HMAC-SHA-256(HMAC-SHA-256(secret, "fusewire status"), "TIME\nNONCE\nHOST\nTARGET"))
// TIME is in milliseconds since 1970, NONCE 16 to 64 hexadecimal digits, HOST the Host header: the address and port
// that are asked, and no other place accepts this proof. It is accepted once, within half a minute of its time, by the
// process that has the port now. Prometheus can't make proofs: for /metrics alone, a token that never changes suffices.
//   Authorization: Bearer TOKEN
//   TOKEN := hex(HMAC-SHA-256(HMAC-SHA-256(secret, "fusewire status"), "metrics"))
// Home: the port's thread. Owns: the nonces of the last minute. Fails: with the reason, for the answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/observe/request.h"

namespace fusewire::observe {

std::string ProofOf(const std::string& secret, const std::string& time, const std::string& nonce,
                    const std::string& host, const std::string& target);

std::string TokenOf(const std::string& secret);

// Where a request has arrived, each as "HOST:PORT" (request.h).
struct Here {
  std::string address;
  std::vector<std::string> others;  // at which this process is reached from elsewhere
};

class Access {
 public:
  static constexpr int64_t kMillisecondsMax = 30'000;  // between the clocks of two tasks, and on the way
  static constexpr size_t kNoncesMax = 4096;           // 68 requests a second

  // An empty secret: anyone who can reach the port may query it.
  Access(std::string secret, int64_t opened_ms) : secret_(std::move(secret)), opened_ms_(opened_ms) {}
  Refusal Check(const Request& request, const Here& here, int64_t now_ms);

 private:
  Refusal CheckProof(const Request& request, const Here& here, int64_t now_ms);

  const std::string secret_;
  const int64_t opened_ms_;
  std::map<std::string, int64_t> nonces_;  // until when each is remembered
};

}  // namespace fusewire::observe
