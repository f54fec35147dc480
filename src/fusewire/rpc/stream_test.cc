// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Answers in parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/world_test.h"

namespace fusewire::rpc {
namespace {

using testing::HasSubstr;

// A world in which the test streams the answer to one call.
class StreamWorld {
 public:
  explicit StreamWorld(WorldOptions options = WorldOptions()) : world(std::move(options)), call(kHold) {
    world.client->Start(&call);
    EXPECT_TRUE(world.RunUntil([this] { return world.held.size() == 1; }));
  }

  Reply& reply() { return world.held[0].reply; }
  void Send(const std::string& head, const std::vector<size_t>& sizes, uint64_t seed) {
    AtHome(world.server_home, [&] { reply().SendPart(head, PatternSegments(sizes, seed), Count()); });
  }
  void End(Status status, const std::string& head = std::string()) {
    AtHome(world.server_home, [&] { reply().Send(std::move(status), head); });
  }
  Done Count() {
    ++parts_sent;
    return [this](Status status) {
      ++dones;
      last = std::move(status);
    };
  }

  RpcWorld world;
  ProbeCall call;
  int parts_sent = 0;
  int dones = 0;
  Status last;
};

TEST(Stream, PartsComeInOrderAndTheEndComesLast) {
  for (bool split : {false, true}) {
    WorldOptions options;
    if (split) options.faults = Splitting();
    StreamWorld stream(std::move(options));
    std::vector<std::vector<size_t>> shapes = {{}, {0}, {1}, {100, 0, 5}, {16384}, {300000}, {2000000, 7}, {}};
    for (int i = 0; i < 80; ++i) {
      stream.Send(std::to_string(i), shapes[static_cast<size_t>(i) % shapes.size()], static_cast<uint64_t>(i));
    }
    stream.End(Status::Ok(), "the end");  // short: must not overtake the parts
    ASSERT_TRUE(stream.world.Finish(stream.call));
    EXPECT_TRUE(stream.call.status.ok()) << stream.call.status.ToString();
    EXPECT_EQ(stream.call.reply_head, "the end");
    ASSERT_EQ(stream.call.parts.size(), 80u);
    for (size_t i = 0; i < 80; ++i) {
      EXPECT_EQ(stream.call.parts[i].head, std::to_string(i));
      EXPECT_TRUE(AreSegments(stream.call.parts[i].body, shapes[i % shapes.size()], i)) << "part " << i;
    }
    EXPECT_TRUE(stream.world.IsClean());
    EXPECT_EQ(stream.dones, 80);
  }
}

TEST(Stream, PartsLandWhereTheCallerWantsThem) {
  StreamWorld stream;
  std::string memory(300000, '-');
  Bytes place(memory.data(), memory.size());
  int landings = 0;
  stream.call.land_part = [&](ConstBytes head, const SegmentSizes& sizes) -> Result<pipe::Landing> {
    EXPECT_EQ(head.ToString(), "here");
    EXPECT_EQ(sizes.total(), memory.size());
    ++landings;
    return pipe::Landing::Into(&place, 1);
  };
  Buffers expected = PatternSegments({memory.size()}, 7);
  stream.Send("here", {memory.size()}, 7);
  stream.End(Status::Ok());
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_TRUE(stream.call.status.ok()) << stream.call.status.ToString();
  EXPECT_EQ(landings, 1);
  ASSERT_EQ(stream.call.parts.size(), 1u);
  EXPECT_TRUE(stream.call.parts[0].body.empty());
  EXPECT_EQ(memory, ConstBytes(expected[0].bytes()).ToString());
}

TEST(Stream, APartThatCannotLandEndsTheCallOnly) {
  StreamWorld stream;
  stream.call.land_part = [](ConstBytes, const SegmentSizes&) -> Result<pipe::Landing> {
    return Status::Overloaded("no memory for it");
  };
  stream.Send("", {100000}, 7);
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kOverloaded);
  ProbeCall next(kEcho, "still there");
  ASSERT_TRUE(stream.world.Ask(&next));
  EXPECT_TRUE(next.status.ok()) << next.status.ToString();
}

TEST(Stream, AnErrorEndsItAfterTheParts) {
  StreamWorld stream;
  stream.Send("1", {500000}, 1);
  stream.Send("2", {}, 1);
  stream.End(Status::Application(5, "the rest is missing"));
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.app_code(), 5u);
  EXPECT_EQ(stream.call.parts.size(), 2u);
  EXPECT_TRUE(stream.world.IsClean());
}

TEST(Stream, ADroppedReplyEndsItAsABug) {
  StreamWorld stream;
  stream.Send("1", {10}, 1);
  AtHome(stream.world.server_home, [&] { stream.world.held.clear(); });
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kInternal);
  EXPECT_EQ(stream.call.parts.size(), 1u);
}

TEST(Stream, ACancelStopsIt) {
  WorldOptions options;
  options.faults.bytes_per_second = 100 * 1000 * 1000;
  StreamWorld stream(std::move(options));
  for (int i = 0; i < 10; ++i) stream.Send("part", {1000000}, 1);
  // In the middle of the third part.
  ASSERT_TRUE(stream.world.RunUntil([&] { return stream.call.parts.size() == 2; }));
  stream.world.world.RunFor(5 * kMillisecondNs);
  stream.call.Cancel();
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kCancelled);
  EXPECT_EQ(stream.call.parts.size(), 2u);
  ASSERT_TRUE(stream.world.RunUntil([&] { return stream.world.held[0].unwanted; }));
  Status too_late;
  AtHome(stream.world.server_home, [&] {
    stream.reply().SendPart(ConstBytes(), Buffers(), [&](Status status) { too_late = std::move(status); });
  });
  stream.End(Status::Ok());
  EXPECT_TRUE(stream.world.IsClean());
  EXPECT_EQ(stream.dones, stream.parts_sent) << "each part's done is called, once";
  EXPECT_EQ(too_late.code(), Code::kCancelled);
  EXPECT_EQ(stream.call.parts.size(), 2u);
  ProbeCall next(kEcho, "next");
  ASSERT_TRUE(stream.world.Ask(&next));
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(stream.world.client->Snapshot().connects, 1u);
}

TEST(Stream, ACancelFromInsideAPartStopsIt) {
  StreamWorld stream;
  for (int i = 0; i < 10; ++i) stream.Send("part", {100}, 1);
  stream.call.on_part = [&] { stream.call.Cancel(); };
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kCancelled);
  EXPECT_LE(stream.call.parts.size(), 10u);
  stream.End(Status::Ok());
  EXPECT_TRUE(stream.world.IsClean());
}

TEST(Stream, ACallerThatGoesFreesTheParts) {
  static int released;
  released = 0;
  StreamWorld stream;
  std::vector<uint8_t> memory(1000000, 1);
  AtHome(stream.world.server_home, [&] {
    for (int i = 0; i < 20; ++i) {
      Buffers body;
      body.push_back(Buffer::Wrap(Bytes(memory.data(), memory.size()), nullptr, [](void*, Bytes) { ++released; }));
      stream.reply().SendPart(ConstBytes(), std::move(body), stream.Count());
    }
  });
  ASSERT_TRUE(stream.world.RunUntil([&] { return !stream.call.parts.empty(); }));
  stream.world.world.Cut("client", "server");
  ASSERT_TRUE(stream.world.RunUntil([&] { return stream.world.held[0].unwanted; }));
  EXPECT_EQ(released, 20);
  EXPECT_EQ(stream.dones, 20);
  EXPECT_EQ(stream.last.code(), Code::kUnavailable);
  // Parts and the end that come now go to nobody.
  stream.Send("too late", {10}, 1);
  ASSERT_TRUE(stream.world.RunUntil([&] { return stream.dones == 21; }));
  stream.End(Status::Ok());
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kUnavailable);
}

// A handler that waits for each part's done is stopped by a caller that does not read, and holds a bounded number of
// parts at any time.
TEST(Stream, ASlowReaderStopsASteadyWriter) {
  StreamWorld stream;
  const int parts = 200;
  int in_memory = 0, in_memory_max = 0, sent = 0;
  UniqueFunction<void()> push;
  push = [&] {
    while (sent < parts && in_memory < 4) {
      ++sent;
      in_memory_max = std::max(in_memory_max, ++in_memory);
      stream.reply().SendPart(ConstBytes(), PatternSegments({200000}, 1), [&](Status status) {
        EXPECT_TRUE(status.ok());
        --in_memory;
        push();
      });
    }
    if (sent == parts && in_memory == 0) stream.reply().Send(Status::Ok());
  };
  AtHome(stream.world.server_home, [&] { push(); });
  stream.world.world.PauseHost("client");
  stream.world.world.RunFor(5 * kSecondNs);
  EXPECT_LT(sent, 20);
  stream.world.world.ResumeHost("client");
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_TRUE(stream.call.status.ok());
  EXPECT_EQ(stream.call.parts.size(), 200u);
  EXPECT_EQ(in_memory_max, 4);
  EXPECT_TRUE(stream.world.IsClean());
}

// A handler that does not wait for the dones reaches a limit; then the stream breaks, and its caller gets an error.
TEST(Stream, AnImpatientWriterBreaksItsStreamButLosesNoPartInSilence) {
  WorldOptions options;
  options.server_pipe.queued_bytes_max = 100000;
  StreamWorld stream(std::move(options));
  stream.world.world.PauseHost("client");
  std::string head(1000, 'x');
  AtHome(stream.world.server_home, [&] {
    for (int i = 0; i < 1000; ++i) stream.reply().SendPart(head);
    stream.reply().SendPart(head, Buffers(), stream.Count());
    stream.reply().Send(Status::Ok(), std::string("complete?"));
  });
  stream.world.world.ResumeHost("client");
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_LT(stream.call.parts.size(), 1001u);
  EXPECT_GT(stream.call.parts.size(), 50u);
  EXPECT_EQ(stream.call.status.code(), Code::kOverloaded) << "a stream with a gap must not end well";
  EXPECT_THAT(stream.call.status.ToString(), HasSubstr("done"));
  EXPECT_EQ(stream.dones, 1);
  EXPECT_EQ(stream.last.code(), Code::kOverloaded);
  EXPECT_TRUE(stream.world.IsClean());
}

TEST(Stream, APartOverTheLimitsBreaksItsStreamOnly) {
  StreamWorld stream;
  stream.Send("1", {10}, 1);
  stream.Send("2", std::vector<size_t>(65536, 0), 1);
  stream.Send("3", {10}, 1);
  stream.End(Status::Ok());
  ASSERT_TRUE(stream.world.Finish(stream.call));
  EXPECT_EQ(stream.call.status.code(), Code::kInternal) << stream.call.status.ToString();
  EXPECT_EQ(stream.call.parts.size(), 1u);
  EXPECT_TRUE(stream.world.IsClean());
  EXPECT_EQ(stream.dones, 3);
}

TEST(Stream, TwoStreamsShareAConnection) {
  StreamWorld one;
  ProbeCall other(kHold);
  one.world.client->Start(&other);
  ASSERT_TRUE(one.world.RunUntil([&] { return one.world.held.size() == 2; }));
  AtHome(one.world.server_home, [&] {
    for (int i = 0; i < 50; ++i) {
      for (auto& held : one.world.held) {
        held.reply.SendPart(std::to_string(i), PatternSegments({100000}, static_cast<uint64_t>(i)));
      }
    }
    for (auto& held : one.world.held) held.reply.Send(Status::Ok());
  });
  ASSERT_TRUE(one.world.RunUntil([&] { return one.call.dones + other.dones == 2; }));
  for (ProbeCall* call : {&one.call, &other}) {
    ASSERT_EQ(call->parts.size(), 50u);
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_EQ(call->parts[i].head, std::to_string(i));
      EXPECT_TRUE(AreSegments(call->parts[i].body, {100000}, i));
    }
  }
  EXPECT_TRUE(one.world.IsClean());
}

// A done that sends the next part, whatever its status, must not recurse without end.
TEST(Stream, ADoneThatGoesOnAfterAnErrorDoesNotRecurse) {
  StreamWorld stream;
  stream.world.world.Cut("client", "server");
  ASSERT_TRUE(stream.world.RunUntil([&] { return stream.world.held[0].unwanted; }));
  int depth = 0, depth_max = 0, left = 1000;
  UniqueFunction<void()> push;
  push = [&] {
    depth_max = std::max(depth_max, ++depth);
    if (--left > 0) stream.reply().SendPart(ConstBytes(), Buffers(), [&](Status) { push(); });
    --depth;
  };
  AtHome(stream.world.server_home, [&] { push(); });
  ASSERT_TRUE(stream.world.RunUntil([&] { return left == 0; }));
  EXPECT_EQ(depth_max, 1);
  ASSERT_TRUE(stream.world.Finish(stream.call));
}

// Each held the credit that the other's answer needed: both waited for ever.
TEST(Stream, TwoTasksThatStreamToEachOtherDoNotWaitForEachOther) {
  WorldOptions options;
  for (pipe::Options* pipe : {&options.client_pipe, &options.server_pipe}) {
    pipe->window_bytes = 512;
    pipe->receive_budget_bytes = 1000;
  }
  RpcWorld world(std::move(options));
  std::vector<Reply> replies;
  std::vector<Method> methods;
  methods.push_back(MakeMethod(kHold, "hold", [&](Request, Reply reply) { replies.push_back(std::move(reply)); }));
  auto other_server = Server::Open(*world.client_task, {"", 5556}, std::move(methods));
  ASSERT_TRUE(other_server.ok());
  auto other_client = std::make_unique<Client>(*world.server_task, transport::Address{"client", 5556});
  ProbeCall there(kHold), back(kHold);
  there.body = PatternSegments({20000}, 1);
  back.body = PatternSegments({20000}, 2);
  world.client->Start(&there);
  other_client->Start(&back);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() + replies.size() == 2; }));
  int sent = 0;
  auto count = [&sent](const Status& status) { sent += status.ok() ? 1 : 0; };
  world.held[0].reply.SendPart(std::string("part"), PatternSegments({20000}, 3), count);
  replies[0].SendPart(std::string("part"), PatternSegments({20000}, 4), count);
  EXPECT_TRUE(world.RunUntil([&] { return sent == 2; }));
  world.held[0].reply.Send(Status::Ok());
  replies[0].Send(Status::Ok());
  EXPECT_TRUE(world.Finish(there));
  EXPECT_TRUE(world.Finish(back));
  EXPECT_TRUE(world.IsClean());
  other_client.reset();
  other_server.value().reset();
}

}  // namespace
}  // namespace fusewire::rpc
