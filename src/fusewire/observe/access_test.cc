// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace fusewire::observe {
namespace {

using testing::HasSubstr;

constexpr int64_t kNowMs = 1'800'000'000'000, kSecondMs = 1000;
const Here kHere{"10.0.0.7:9477", {}};

Request Signed(const std::string& secret, const std::string& nonce, int64_t then_ms = kNowMs) {
  Request request;
  request.target = request.path = "/status.json";
  request.host = "10.0.0.7:9477";
  const std::string time = std::to_string(then_ms);
  request.authorization =
      "Fusewire " + time + ":" + nonce + ":" + ProofOf(secret, time, nonce, request.host, request.target);
  return request;
}

TEST(Access, WithoutASecretAddressesAndLocalhostMayBeAsked) {
  Access access("", 0);
  Request request;
  request.host = "127.0.0.1:5";
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 0);
  request.host = "rebound.example.com:5";
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 421);
}

TEST(Access, AProofCountsOnceForItsTimeAndItsRequest) {
  Access access("secret", 0);
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), kHere, kNowMs).status, 0);
  EXPECT_THAT(access.Check(Signed("secret", "0123456789abcdef"), kHere, kNowMs).reason, HasSubstr("has been used"));
  EXPECT_EQ(access.Check(Signed("secret", "1123456789abcdef"), kHere, kNowMs + 30 * kSecondMs).status, 0);
  EXPECT_THAT(access.Check(Signed("secret", "2123456789abcdef"), kHere, kNowMs + 31 * kSecondMs).reason,
              HasSubstr("older than 30 s"));
  EXPECT_THAT(access.Check(Signed("secret", "2123456789abcdef", kNowMs + 40 * kSecondMs), kHere, kNowMs).reason,
              HasSubstr("clocks"));
  Request other = Signed("secret", "3123456789abcdef");
  other.target = "/ring.json";
  EXPECT_THAT(access.Check(other, kHere, kNowMs).reason, HasSubstr("proof is wrong"));
  other = Signed("secret", "3123456789abcdef");
  other.host = "10.0.0.8:9477";
  EXPECT_EQ(access.Check(other, kHere, kNowMs).status, 401);
}

TEST(Access, AProofIsForThePlaceThatItNames) {
  Access access("secret", 0);
  EXPECT_THAT(access.Check(Signed("secret", "0123456789abcdef"), {"10.0.0.8:9477", {}}, kNowMs).reason,
              HasSubstr("is for 10.0.0.7:9477, and this is 10.0.0.8:9477"));
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), {"10.0.0.7:9478", {}}, kNowMs).status, 401);
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), {}, kNowMs).status, 401);
  const Here behind_nat{"172.17.0.2:9477", {"10.0.0.7:9477"}};
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), behind_nat, kNowMs).status, 0);
}

TEST(Access, AProofFromBeforeIsNotForThisProcess) {
  Access access("secret", kNowMs);
  EXPECT_THAT(access.Check(Signed("secret", "0123456789abcdef", kNowMs - 1), kHere, kNowMs + 1).reason,
              HasSubstr("was made before"));
  EXPECT_EQ(access.Check(Signed("secret", "0123456789abcdef"), kHere, kNowMs + 1).status, 0);
}

TEST(Access, StrangersTakeNoPlaceOfANonce) {
  Access access("secret", 0);
  char nonce[32];
  for (size_t i = 0; i < 2 * Access::kNoncesMax; ++i) {
    std::snprintf(nonce, sizeof(nonce), "%016zx", i);
    ASSERT_EQ(access.Check(Signed("guess", nonce), kHere, kNowMs).status, 401);
  }
  EXPECT_EQ(access.Check(Signed("secret", "ffffffffffffffff"), kHere, kNowMs).status, 0);
}

TEST(Access, AMalformedProofIsRefusedWithTheReason) {
  Access access("secret", 0);
  EXPECT_THAT(access.Check(Signed("guess", "0123456789abcdef"), kHere, kNowMs).reason,
              HasSubstr("FUSEWIRE_SECRET differs"));
  Request request = Signed("secret", "0123");
  EXPECT_THAT(access.Check(request, kHere, kNowMs).reason, HasSubstr("nonce"));
  for (const char* words : {"", "Bearer secret", "Fusewire", "Fusewire 1", "Fusewire 1:2", "Fusewire a:b:c",
                            "Fusewire -5:0123456789abcdef:", "Fusewire 99999999999999999999:0123456789abcdef:"}) {
    request.authorization = words;
    EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 401) << words;
  }
}

TEST(Access, TheTokenIsForMetricsAlone) {
  Access access("secret", 0);
  Request request;
  request.target = request.path = "/metrics";
  request.host = "10.0.0.7:9477";
  request.authorization = "Bearer " + TokenOf("secret");
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 0);
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 0);
  request.authorization = "Bearer " + TokenOf("guess");
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 401);
  request.authorization = "Bearer " + TokenOf("secret");
  request.target = request.path = "/status.json";
  EXPECT_EQ(access.Check(request, kHere, kNowMs).status, 401);
}

TEST(Access, NoncesAreForgottenAndBounded) {
  Access access("secret", 0);
  char nonce[32];
  for (size_t i = 0; i < Access::kNoncesMax; ++i) {
    std::snprintf(nonce, sizeof(nonce), "%016zx", i);
    ASSERT_EQ(access.Check(Signed("secret", nonce), kHere, kNowMs).status, 0) << i;
  }
  EXPECT_THAT(access.Check(Signed("secret", "ffffffffffffffff"), kHere, kNowMs).reason, HasSubstr("too many"));
  EXPECT_EQ(access.Check(Signed("secret", "ffffffffffffffff", kNowMs + 61 * kSecondMs), kHere, kNowMs + 61 * kSecondMs)
                .status,
            0);
}

}  // namespace
}  // namespace fusewire::observe
