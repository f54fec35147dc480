// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/wire/golden_test.h"

namespace fusewire::wire {
namespace {

std::string Encode(const Status& status) {
  std::string out;
  AppendStatus(status, &out);
  return out;
}

std::string Encode(const std::vector<TensorMeta>& tensors) {
  std::string out;
  AppendTensors(tensors, &out);
  return out;
}

TensorMeta Tensor(std::vector<int64_t> dims) {
  TensorMeta meta;
  meta.dims = std::move(dims);
  return meta;
}

bool Same(const TensorMeta& left, const TensorMeta& right) {
  return left.type == right.type && left.dead == right.dead && left.encoded == right.encoded &&
         left.name == right.name && left.bytes == right.bytes && left.dims == right.dims;
}

std::string WhyNot(const std::string& bytes) {
  ConstBytes in(bytes);
  std::vector<TensorMeta> tensors(1);
  tensors[0].name = "untouched";
  const Status status = DecodeTensors(&in, &tensors);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(in.size, bytes.size()) << "moved on after a failure";
    EXPECT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].name, "untouched");
  }
  return status.cause();
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
  EXPECT_EQ(DecodeStatus(Code::kApplication, bytes + "x", &got).cause(), "status: 1 bytes behind its end");
  EXPECT_EQ(DecodeStatus(Code::kTimeout, bytes, &got).cause(), "status: app_code 3 with code timeout");
  EXPECT_TRUE(got.ok());
}

TEST(TensorMeta, HasTheBytesOfTheLaw) {
  TensorMeta gradient = Tensor({2, 3});
  gradient.type = 1;
  gradient.name = "grad";
  gradient.bytes = 24;
  TensorMeta dead = Tensor({});
  dead.type = 9;
  dead.dead = true;
  const std::string drawing =
      "02000100 00000200 04006772 61641800 00000000 00000200 00000000 00000300 00000000 00000900\n"
      "01000000 00000000 00000000 0000";
  EXPECT_EQ(Draw(Encode({gradient, dead})), drawing);
  EXPECT_TRUE(IsDrawnInTheLaw(drawing)) << "not in docs/wire.md";
}

TEST(TensorMeta, ComesBackAsItWasSent) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<TensorMeta> sent(random.Below(5));
    for (TensorMeta& meta : sent) {
      meta.type = static_cast<uint16_t>(random.Next());
      meta.dead = random.Chance(0.2);
      meta.encoded = random.Chance(0.2);
      meta.name = std::string(random.Below(100), static_cast<char>(random.Next()));
      meta.bytes = meta.dead ? 0 : random.Next();
      meta.dims.resize(random.Below(6));
      for (int64_t& dim : meta.dims) dim = static_cast<int64_t>(random.Below(1 << 10));
    }
    const std::string bytes = Encode(sent) + "behind";
    ConstBytes in(bytes);
    std::vector<TensorMeta> got;
    ASSERT_TRUE(DecodeTensors(&in, &got).ok());
    EXPECT_EQ(in.ToString(), "behind");
    ASSERT_EQ(got.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(Same(got[i], sent[i]));
    EXPECT_EQ(Encode(got) + "behind", bytes);
  }
}

TEST(TensorMeta, AnyRankAndAnySize) {
  std::vector<int64_t> ones(200, 1);
  ones[100] = 7;
  std::vector<int64_t> many(UINT16_MAX, 1);
  const std::pair<TensorMeta, int64_t> cases[] = {
      {Tensor({}), 1},
      {Tensor({0}), 0},
      {Tensor({5, 0, 3}), 0},
      {Tensor(ones), 7},
      {Tensor(many), 1},
      {Tensor({INT64_MAX}), INT64_MAX},
      {Tensor({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62},
      {Tensor({INT64_MAX, INT64_MAX, 0}), 0},  // empty, in whatever order
      {Tensor({0, INT64_MAX, INT64_MAX}), 0},
  };
  for (const auto& [meta, count] : cases) {
    Result<int64_t> got = ElementCount(meta);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(got.value(), count);
    EXPECT_EQ(WhyNot(Encode({meta})), "");
  }
}

TEST(TensorMeta, ImpossibleDimensionsAreCorrupt) {
  const char kOver[] = "tensor: dimensions multiply to more than 63 bits";
  const std::pair<std::vector<int64_t>, const char*> cases[] = {
      {{-1}, "tensor: dimension -1, must be at least 0"},
      {{3, INT64_MIN}, "tensor: dimension -9223372036854775808, must be at least 0"},
      {{0, -1}, "tensor: dimension -1, must be at least 0"},
      {{INT64_MAX, 2}, kOver},
      {{int64_t{1} << 32, int64_t{1} << 31}, kOver},
      {{int64_t{1} << 32, int64_t{1} << 32}, kOver},
      {std::vector<int64_t>(200, 2), kOver},
  };
  for (const auto& [dims, cause] : cases) {
    EXPECT_EQ(ElementCount(Tensor(dims)).status().cause(), cause);
    EXPECT_EQ(WhyNot(Encode({Tensor(dims)})), cause);
  }
}

TEST(TensorMeta, EveryTruncationIsNoticedAndChangesNothing) {
  TensorMeta first = Tensor({1, 2, 3});
  first.name = "first";
  const std::string bytes = Encode({first, Tensor({}), Tensor({4})});
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(WhyNot(bytes.substr(0, size)), "") << size;
  EXPECT_EQ(WhyNot(bytes), "");
}

TEST(TensorMeta, CountsThatTheBytesDoNotJustifyAreCorrupt) {
  EXPECT_EQ(WhyNot(Undraw("ffff") + std::string(100, '\0')), "tensors: cut off");
  // rank, then the name, longer than what is there
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0000 ffff 0000 0000000000000000")), "tensor: cut off");
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0000 0000 ffff 0000000000000000")), "tensor: cut off");
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0000 0000 0900 0000000000000000")), "tensor: cut off");
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0000 0000 0000 0000000000000000")), "");
}

TEST(TensorMeta, FlagsSayWhatTheyMay) {
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0400 0000 0000 0000000000000000")), "tensor: flags 4, limit 3");
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0100 0000 0000 0500000000000000")), "tensor: dead, but bytes 5");
  EXPECT_EQ(WhyNot(Undraw("0100 0100 0300 0000 0000 0000000000000000")), "");
}

TEST(TensorMetaDeathTest, MoreThanTheFormatCanSayIsOurBug) {
  std::string out;
  EXPECT_DEATH(AppendTensors(std::vector<TensorMeta>(65536), &out), "tensors.size");
  EXPECT_DEATH(AppendTensors({Tensor(std::vector<int64_t>(65536, 1))}, &out), "dims.size");
}

}  // namespace
}  // namespace fusewire::wire
