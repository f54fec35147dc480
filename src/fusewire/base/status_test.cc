// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace fusewire {
namespace {

TEST(Status, OkSaysNothing) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), Code::kOk);
  EXPECT_EQ(ok.app_code(), 0u);
  EXPECT_EQ(ok.cause(), "");
  EXPECT_EQ(ok.age_ms(), -1);
  EXPECT_EQ(ok.ToString(), "ok");
  EXPECT_TRUE(Status(Code::kOk, "ignored").ok());
  // Details of an error do not turn an ok into one.
  EXPECT_TRUE(ok.Peer("p").Phase("f").Next("n").AgeMs(1).ok());
}

TEST(Status, FactoriesGiveTheirCode) {
  const std::pair<Status, Code> all[] = {
      {Status::Invalid("x"), Code::kInvalid},           {Status::Unavailable("x"), Code::kUnavailable},
      {Status::Overloaded("x"), Code::kOverloaded},     {Status::Timeout("x"), Code::kTimeout},
      {Status::Cancelled("x"), Code::kCancelled},       {Status::Corrupt("x"), Code::kCorrupt},
      {Status::Refused("x"), Code::kRefused},           {Status::Internal("x"), Code::kInternal},
      {Status::Application(7, "x"), Code::kApplication}};
  for (const auto& [status, code] : all) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.cause(), "x");
    EXPECT_EQ(status.ToString().rfind(CodeName(code), 0), 0u) << status.ToString();
  }
  EXPECT_EQ(std::get<0>(all[8]).app_code(), 7u);
  EXPECT_STREQ(CodeName(static_cast<Code>(kCodeMax + 1)), "unknown");
  EXPECT_STRNE(CodeName(static_cast<Code>(kCodeMax)), "unknown");
}

TEST(Status, SaysPeerCauseAgeAndNextStep) {
  const Status status = Status::Unavailable("connection reset")
                            .Peer("ps:0 at 10.0.0.7:5555")
                            .Phase("reading")
                            .AgeMs(1250)
                            .Next("wait for the reconnect");
  EXPECT_EQ(status.peer(), "ps:0 at 10.0.0.7:5555");
  EXPECT_EQ(status.phase(), "reading");
  EXPECT_EQ(status.next(), "wait for the reconnect");
  EXPECT_EQ(status.age_ms(), 1250);
  const std::string text = status.ToString();
  for (const char* part : {"unavailable: connection reset", "peer ps:0 at 10.0.0.7:5555", "while reading",
                           "since 1.2 s", "next: wait for the reconnect"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

TEST(Status, WhatIsSaidFirstStays) {
  const Status near = Status::Corrupt("cause").Peer("near").Phase("near").Next("near").AgeMs(1);
  const Status far = near.Peer("far").Phase("far").Next("far").AgeMs(2);
  EXPECT_EQ(far.peer(), "near");
  EXPECT_EQ(far.phase(), "near");
  EXPECT_EQ(far.next(), "near");
  EXPECT_EQ(far.age_ms(), 1);
  EXPECT_EQ(far.AgeMsAtLeast(2).age_ms(), 2);
  EXPECT_EQ(far.AgeMsAtLeast(0).age_ms(), 1);
}

TEST(Status, ACopyThatSaysMoreLeavesTheFirstAlone) {
  const Status first = Status::Timeout("late");
  const Status second = first;  // NOLINT(performance-unnecessary-copy-initialization): the copy is what is tested
  const Status third = first.Peer("p");
  EXPECT_EQ(first.peer(), "");
  EXPECT_EQ(second.peer(), "");
  EXPECT_EQ(third.peer(), "p");
  EXPECT_EQ(third.code(), Code::kTimeout);
}

TEST(Status, NamesTheSystemsErrorAndTheApplicationsNumber) {
  const Status status = Status::FromErrno(Code::kUnavailable, "connect", ECONNREFUSED);
  EXPECT_EQ(status.cause(), "connect: Connection refused");
  EXPECT_EQ(status.Peer("ps:0").Next("start it").system_error(), ECONNREFUSED);
  EXPECT_EQ(Status().system_error(), 0);
  EXPECT_EQ(Status::Application(42, "no such shard").ToString(), "application 42: no such shard");
}

TEST(Status, NamesThePageOfItsCode) {
  EXPECT_EQ(Status::Refused("another cluster").Next("check the name").Explained(),
            "refused: another cluster; next: check the name; see: fusewire explain errors#refused");
  EXPECT_EQ(Status().Explained(), "ok");
}

Result<int> Half(int number) {
  if (number % 2 != 0) return Status::Invalid("odd");
  return number / 2;
}

Status Quarter(int number, int* out) {
  const int half = FUSEWIRE_TRY(Half(number));
  FUSEWIRE_TRY(Half(half).status());
  *out = FUSEWIRE_TRY(Half(half));
  return Status();
}

TEST(Result, IsAValueOrAStatus) {
  EXPECT_TRUE(Half(4).ok());
  EXPECT_TRUE(Half(4).status().ok());
  EXPECT_EQ(Half(4).value(), 2);
  EXPECT_FALSE(Half(3).ok());
  EXPECT_EQ(Half(3).status().cause(), "odd");
}

TEST(Result, TryLeavesWithTheFirstError) {
  int out = -1;
  EXPECT_TRUE(Quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(Quarter(6, &out).cause(), "odd");
  EXPECT_EQ(out, 2);
}

TEST(Result, MovesAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultDeathTest, TheValueOfAnErrorAndAnErrorWithoutOneAreOurBugs) {
  EXPECT_DEATH((void)Half(3).value(), "ok()");
  EXPECT_DEATH((void)Result<int>(Status()), "ok()");
}

}  // namespace
}  // namespace fusewire
