// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/status.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(TfStatuses, OfTheWireAreThoseThatTensorFlowRecoversFrom) {
  EXPECT_TRUE(ToTf(Status::Ok()).ok());
  EXPECT_TRUE(absl::IsUnavailable(ToTf(Status::Unavailable("reset"))));
  EXPECT_TRUE(absl::IsUnavailable(ToTf(Status::Corrupt("a bad frame"))));  // its pipe is closed: the peer is gone
  EXPECT_TRUE(absl::IsDeadlineExceeded(ToTf(Status::Timeout("too late"))));
  EXPECT_TRUE(absl::IsCancelled(ToTf(Status::Cancelled("by the step"))));
  EXPECT_TRUE(absl::IsInvalidArgument(ToTf(Status::Invalid("a number"))));
  EXPECT_TRUE(absl::IsInternal(ToTf(Status::Application(7, "of a method"))));
  EXPECT_THAT(std::string(ToTf(Status::Unavailable("reset")).message()), HasSubstr("reset"));
}

TEST(TfStatuses, ThatSayWhatToDoNameTheirPage) {
  const Status refused = Status::Refused("another cluster").Next("check the secret");
  EXPECT_THAT(std::string(ToTf(refused).message()),
              EndsWith("; next: check the secret; see: fusewire explain errors#refused"));
  EXPECT_THAT(std::string(ToTf(FromTf(absl::InvalidArgumentError("a shape"))).message()), EndsWith("a shape"));
}

TEST(TfStatuses, GoToOursAndBack) {
  EXPECT_TRUE(FromTf(TfStatus()).ok());
  EXPECT_TRUE(absl::IsUnavailable(ToTf(FromTf(absl::UnavailableError("gone")))));
  EXPECT_TRUE(absl::IsInvalidArgument(ToTf(FromTf(absl::InvalidArgumentError("a shape")))));
  EXPECT_EQ(FromTf(absl::AbortedError("no code of ours")).code(), Code::kCancelled);
}

TEST(TfStatuses, SayWhetherThePeerIsLost) {
  EXPECT_TRUE(IsLost(Status::Unavailable("reset")));
  EXPECT_TRUE(IsLost(Status::Corrupt("a bad frame")));
  EXPECT_FALSE(IsLost(Status::Cancelled("by the step")));
  EXPECT_FALSE(IsLost(Status::Ok()));
}

TEST(TfStatuses, NameTheirTaskAtTheirEnd) {
  EXPECT_TRUE(WithTarget(TfStatus(), "/job:ps/replica:0/task:0", "RunGraph").ok());
  TfStatus with = absl::AbortedError("stopped");
  with.SetPayload("why", absl::Cord("because"));
  TfStatus told = WithTarget(with, "/job:ps/replica:0/task:0", "RunGraph");
  EXPECT_THAT(std::string(told.message()), StartsWith("stopped"));
  EXPECT_THAT(std::string(told.message()), HasSubstr("remote target /job:ps/replica:0/task:0 while calling"));
  EXPECT_TRUE(told.GetPayload("why").has_value());
}

// A status as a peer has sent it, and the field that the error names.
std::string ErrorOf(const std::string& text) {
  VarReader reader{ConstBytes(text)};
  TfStatus out = absl::UnknownError("as it was");
  TfStatus read = ReadTfStatus(&reader, &out);
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_EQ(out.message(), "as it was");
  return std::string(read.message());
}

TEST(TfStatuses, ThatCannotBeReadNameTheField) {
  EXPECT_THAT(ErrorOf(""), EndsWith("it ends before its code"));
  EXPECT_THAT(ErrorOf("\x63"), HasSubstr("its code is 99, and the highest is 16"));
  EXPECT_THAT(ErrorOf(std::string("\x05\x04why", 5)), EndsWith("it ends within its message"));
  EXPECT_THAT(ErrorOf(std::string("\x05\x03why", 5)), EndsWith("it ends before the number of its payloads"));
  EXPECT_THAT(ErrorOf(std::string("\x05\x03why\x41", 6)), HasSubstr("it has 65 payloads of at most 64"));
  EXPECT_THAT(ErrorOf(std::string("\x05\x03why\x02\x01u\x01v", 10)), EndsWith("it ends within payload 2 of 2"));
}

}  // namespace
}  // namespace fusewire::tf
