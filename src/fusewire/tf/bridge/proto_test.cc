// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/proto.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <tensorflow/core/protobuf/worker.pb.h>

namespace fusewire::tf {
namespace {

tensorflow::RegisterGraphRequest Request(size_t bytes) {
  tensorflow::RegisterGraphRequest request;
  request.set_session_handle(std::string(bytes, 's'));
  return request;
}

TEST(Protos, AreInTheHeadWhileTheyAreSmall) {
  std::string head = "before";
  Buffers body;
  ASSERT_TRUE(AppendProto(Request(1000), &head, &body));
  EXPECT_TRUE(body.empty());
  EXPECT_EQ(head.substr(0, 6), "before");
  tensorflow::RegisterGraphRequest read;
  ASSERT_TRUE(ParseProto(ConstBytes(head).From(6), body, &read));
  EXPECT_EQ(read.session_handle(), std::string(1000, 's'));
}

TEST(Protos, ThatAreLargeHaveASegmentOfTheirOwn) {
  std::string head = "before";
  Buffers body;
  ASSERT_TRUE(AppendProto(Request(16 * 1024), &head, &body));
  EXPECT_EQ(head, "before");
  ASSERT_EQ(body.size(), 1u);
  tensorflow::RegisterGraphRequest read;
  ASSERT_TRUE(ParseProto(ConstBytes("no protobuf", 11), body, &read));  // the head is not looked at
  EXPECT_EQ(read.session_handle().size(), 16u * 1024);
}

TEST(Protos, OfOtherBytesAreRefused) {
  tensorflow::RegisterGraphRequest read;
  EXPECT_FALSE(ParseProto(ConstBytes("\xff\xff\xff", 3), Buffers(), &read));
  EXPECT_TRUE(ParseProto(ConstBytes(), Buffers(), &read));
  Buffers body;
  body.push_back(Buffer::CopyOf(ConstBytes("\x0a\x7f", 2)));  // a text that is cut off
  EXPECT_FALSE(ParseProto(ConstBytes(), body, &read));
}

}  // namespace
}  // namespace fusewire::tf
