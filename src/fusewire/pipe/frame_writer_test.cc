// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/script_test.h"

namespace fusewire::pipe {
namespace {

constexpr uint32_t kThousand = 1000;

Buffers BuffersOf(const std::vector<std::string>& segments) {
  Buffers body;
  for (const std::string& segment : segments) body.push_back(Buffer::CopyOf(segment));
  return body;
}

struct Writing {
  // All that is queued; then it is written.
  std::string Written() {
    std::vector<ConstBytes> parts(1024);
    size_t count = out.Offer(parts.data(), parts.size(), SIZE_MAX);
    std::string bytes;
    for (size_t i = 0; i < count; ++i) bytes += parts[i].ToString();
    out.Written(bytes.size());
    return bytes;
  }
  uint64_t Append(uint64_t call, const std::string& head, const std::vector<std::string>& segments,
                  Done done = nullptr) {
    Message message;
    message.kind = wire::FrameKind::kCall;
    message.call = call;
    message.body = BuffersOf(segments);
    return writer.AppendMessage(&message, head, std::move(done));
  }

  OutQueue out;
  FrameWriter writer{out, kThousand};
  FrameScript script{kThousand};
};

TEST(FrameWriter, WritesAMessageAsTheFormatSays) {
  for (const std::vector<std::string>& segments : std::vector<std::vector<std::string>>{
           {}, {Payload(100, 1)}, {Payload(700, 1), "", Payload(3, 2)}, {"", ""}, {Payload(kThousand, 3)}}) {
    Writing writing;
    const std::string expected = writing.script.Message(wire::FrameKind::kCall, 7, "head", segments);
    EXPECT_EQ(writing.Append(7, "head", segments), expected.size()) << "what it counts against the window";
    EXPECT_FALSE(writing.writer.has_chunks());
    EXPECT_EQ(writing.Written(), expected);
  }
}

TEST(FrameWriter, OtherFramesStandBetweenTheChunksOfALongMessage) {
  Writing writing;
  const std::vector<std::string> segments = {Payload(1500, 1), Payload(10, 2), Payload(900, 3)};
  int done = 0;
  writing.Append(7, "head", segments, [&done](const Status& status) { done += status.ok() ? 1 : 100; });
  std::string written = writing.Written();
  uint64_t between = 0;
  while (writing.writer.has_chunks()) {
    EXPECT_EQ(done, 0);
    writing.writer.AppendControl(wire::FrameKind::kCredit, 0, ++between);
    writing.writer.AppendChunk();
    written += writing.Written();
  }
  EXPECT_EQ(done, 1);
  uint64_t scripted = 0;
  EXPECT_EQ(written, writing.script.Message(wire::FrameKind::kCall, 7, "head", segments, [&] {
    return writing.script.Control(wire::FrameKind::kCredit, ++scripted);
  }));
  EXPECT_EQ(between, 2u);
}

TEST(FrameWriter, FailsTheLongMessageThatIsUnderWayOnce) {
  Writing writing;
  int failed = 0;
  writing.Append(7, "", {Payload(3 * kThousand, 1)},
                 [&failed](const Status& status) { failed += status.ok() ? 100 : 1; });
  writing.Written();
  ASSERT_TRUE(writing.writer.has_chunks());
  writing.writer.Fail(Status::Cancelled("it was given up"));
  EXPECT_FALSE(writing.writer.has_chunks());
  writing.writer.Fail(Status::Cancelled("it was given up"));
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace fusewire::pipe
