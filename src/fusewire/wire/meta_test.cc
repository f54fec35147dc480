// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/wire.h"

#include <gtest/gtest.h>

#include <string>

#include "fusewire/base/random.h"
#include "fusewire/wire/golden_test.h"

namespace fusewire::wire {
namespace {

std::string Encode(const Status& status) {
  std::string out;
  AppendStatus(status, &out);
  return out;
}

TEST(StatusMeta, HasTheBytesOfTheLaw) {
  const Status status = Status::Refused("wrong cluster").Peer("ps:0").Phase("hello").Next("check the cluster name");
  const std::string drawing =
      "00000000 0d007772 6f6e6720 636c7573 74657204 0070733a 30050068 656c6c6f 16006368 65636b20\n"
      "74686520 636c7573 74657220 6e616d65";
  EXPECT_EQ(Draw(Encode(status)), drawing);
  EXPECT_TRUE(IsDrawnInTheLaw(drawing)) << "not in docs/wire.md";
}

TEST(StatusMeta, ComesBackAsItWasSent) {
  Random random(1);
  for (uint8_t code = 1; code <= kCodeMax; ++code) {
    const auto text = [&random] { return std::string(random.Below(300), static_cast<char>(random.Next())); };
    const Status sent = (static_cast<Code>(code) == Code::kApplication ? Status::Application(77, text())
                                                                       : Status(static_cast<Code>(code), text()))
                            .Peer(text())
                            .Phase(text())
                            .Next(text());
    Status got;
    ASSERT_TRUE(DecodeStatus(static_cast<Code>(code), Encode(sent), &got).ok());
    EXPECT_EQ(got.code(), sent.code());
    EXPECT_EQ(got.app_code(), sent.app_code());
    EXPECT_EQ(got.cause(), sent.cause());
    EXPECT_EQ(got.peer(), sent.peer());
    EXPECT_EQ(got.phase(), sent.phase());
    EXPECT_EQ(got.next(), sent.next());
  }
}

TEST(StatusMeta, ALongTextIsCutBetweenCharacters) {
  Status got;
  ASSERT_TRUE(DecodeStatus(Code::kInvalid, Encode(Status::Invalid(std::string(100000, 'x'))), &got).ok());
  EXPECT_EQ(got.cause(), std::string(kStatusTextBytesMax, 'x'));
  std::string euros = "x";
  while (euros.size() < 2 * kStatusTextBytesMax) euros += "\xe2\x82\xac";
  ASSERT_TRUE(DecodeStatus(Code::kInvalid, Encode(Status::Invalid(euros)), &got).ok());
  EXPECT_LE(got.cause().size(), kStatusTextBytesMax);
  EXPECT_GT(got.cause().size(), kStatusTextBytesMax - 3);
  EXPECT_EQ(got.cause().size() % 3, 1u);
}

TEST(StatusMeta, EveryTruncationIsNoticedAndChangesNothing) {
  const std::string bytes = Encode(Status::Application(3, "cause").Peer("peer").Phase("phase").Next("next"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    Status got = Status::Internal("untouched");
    const Status status = DecodeStatus(Code::kApplication, bytes.substr(0, size), &got);
    EXPECT_EQ(status.cause(), "status: cut off");
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(got.cause(), "untouched");
  }
  Status got;
  EXPECT_EQ(DecodeStatus(Code::kApplication, bytes + "x", &got).cause(), "status: 1 bytes after its end");
  EXPECT_EQ(DecodeStatus(Code::kTimeout, bytes, &got).cause(), "status: app_code 3 with code timeout");
  EXPECT_TRUE(got.ok());
}

}  // namespace
}  // namespace fusewire::wire
