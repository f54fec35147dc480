// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace fusewire {
namespace observe {
namespace {

using testing::HasSubstr;

constexpr int64_t kNowS = 1'800'000'000;

Request Signed(const std::string& secret, const std::string& nonce, int64_t seconds = kNowS) {
  Request request;
  request.target = request.path = "/status.json";
  request.host = "10.0.0.7:9477";
  const std::string time = std::to_string(seconds);
  request.authorization =
      "Fusewire " + time + ":" + nonce + ":" + ProofOf(secret, time, nonce, request.host, request.target);
  return request;
}

TEST(Access, WithoutASecretAddressesAndLocalhostMayBeAsked) {
  Access access("");
  Request request;
  request.host = "127.0.0.1:5";
  EXPECT_EQ(access.Check(request, kNowS).status, 0);
  request.host = "rebound.example.com:5";
  EXPECT_EQ(access.Check(request, kNowS).status, 421);
}

TEST(Access, AProofCountsOnceForItsTimeAndItsRequest) {
  Access access("secret");
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), kNowS).status, 0);
  EXPECT_THAT(access.Check(Signed("secret", "0123456789abcdef"), kNowS).reason, HasSubstr("has been used"));
  EXPECT_EQ(access.Check(Signed("secret", "1123456789abcdef"), kNowS + 30).status, 0);
  EXPECT_THAT(access.Check(Signed("secret", "2123456789abcdef"), kNowS + 31).reason, HasSubstr("older than 30 s"));
  EXPECT_THAT(access.Check(Signed("secret", "2123456789abcdef", kNowS + 40), kNowS).reason, HasSubstr("clocks"));
  Request other = Signed("secret", "3123456789abcdef");
  other.target = "/ring.json";
  EXPECT_THAT(access.Check(other, kNowS).reason, HasSubstr("proof is wrong"));
  other = Signed("secret", "3123456789abcdef");
  other.host = "10.0.0.8:9477";
  EXPECT_EQ(access.Check(other, kNowS).status, 401);
}

TEST(Access, WhatIsNoProofIsRefusedWithTheReason) {
  Access access("secret");
  EXPECT_THAT(access.Check(Signed("guess", "0123456789abcdef"), kNowS).reason, HasSubstr("FUSEWIRE_SECRET differs"));
  Request request = Signed("secret", "0123");
  EXPECT_THAT(access.Check(request, kNowS).reason, HasSubstr("nonce"));
  for (const char* words : {"", "Bearer secret", "Fusewire", "Fusewire 1", "Fusewire 1:2", "Fusewire a:b:c",
                            "Fusewire -5:0123456789abcdef:", "Fusewire 99999999999999999999:0123456789abcdef:"}) {
    request.authorization = words;
    EXPECT_EQ(access.Check(request, kNowS).status, 401) << words;
  }
}

TEST(Access, TheTokenIsForMetricsAlone) {
  Access access("secret");
  Request request;
  request.target = request.path = "/metrics";
  request.host = "10.0.0.7:9477";
  request.authorization = "Bearer " + TokenOf("secret");
  EXPECT_EQ(access.Check(request, kNowS).status, 0);
  EXPECT_EQ(access.Check(request, kNowS).status, 0);
  request.authorization = "Bearer " + TokenOf("guess");
  EXPECT_EQ(access.Check(request, kNowS).status, 401);
  request.authorization = "Bearer " + TokenOf("secret");
  request.target = request.path = "/status.json";
  EXPECT_EQ(access.Check(request, kNowS).status, 401);
}

TEST(Access, NoncesAreForgottenAndBounded) {
  Access access("secret");
  char nonce[32];
  for (size_t i = 0; i < Access::kNoncesMax; ++i) {
    std::snprintf(nonce, sizeof(nonce), "%016zx", i);
    ASSERT_EQ(access.Check(Signed("secret", nonce), kNowS).status, 0) << i;
  }
  EXPECT_THAT(access.Check(Signed("secret", "ffffffffffffffff"), kNowS).reason, HasSubstr("too many"));
  EXPECT_EQ(access.Check(Signed("secret", "ffffffffffffffff", kNowS + 61), kNowS + 61).status, 0);
}

}  // namespace
}  // namespace observe
}  // namespace fusewire
