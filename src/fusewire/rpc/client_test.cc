// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/client.h"

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

std::string PatternText(size_t size, uint64_t seed) {
  Buffer bytes = PatternBuffer(size, seed);
  return ConstBytes(bytes.bytes()).ToString();
}

void ExpectEcho(RpcWorld* world, size_t head_bytes, const std::vector<size_t>& sizes, uint64_t seed) {
  SCOPED_TRACE("head of " + std::to_string(head_bytes) + " bytes, " + std::to_string(sizes.size()) +
               " segments, seed " + std::to_string(seed));
  ProbeCall call(kEcho, PatternText(head_bytes, seed));
  call.body = PatternSegments(sizes, seed);
  ASSERT_TRUE(world->Ask(&call));
  ASSERT_TRUE(call.status.ok()) << call.status.ToString();
  EXPECT_EQ(call.reply_head, call.request_head);
  EXPECT_TRUE(AreSegments(call.reply_body, sizes, seed));
  EXPECT_EQ(call.dones, 1);
}

std::vector<size_t> RandomSizes(uint64_t seed, size_t count, size_t size_max) {
  Random random(seed);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(random.Chance(0.2) ? 0 : random.Between(1, size_max));
  return sizes;
}

TEST(Client, CarriesEveryShapeOfMessage) {
  for (bool split : {false, true}) {
    SCOPED_TRACE(split ? "split" : "whole");
    WorldOptions options;
    if (split) options.faults = Splitting();
    RpcWorld world(std::move(options));
    uint64_t large_copies = ReadCopyCounts().large_copies;
    for (size_t head_bytes : {0, 1, 7, 40, 4095, 16000}) {
      ExpectEcho(&world, head_bytes, {}, head_bytes + 1);
      ExpectEcho(&world, head_bytes, {0}, head_bytes + 2);
      ExpectEcho(&world, head_bytes, {1}, head_bytes + 3);
      ExpectEcho(&world, head_bytes, {0, 0, 0}, head_bytes + 4);
      ExpectEcho(&world, head_bytes, {0, 5, 0, 300000, 0, 16384, 511, 512, 513, 0}, head_bytes + 5);
      ExpectEcho(&world, head_bytes, {size_t{3} << 20}, head_bytes + 6);
    }
    ExpectEcho(&world, 10, RandomSizes(1, 1000, 1), 100);
    ExpectEcho(&world, 10, RandomSizes(2, 1000, 3000), 200);
    ExpectEcho(&world, 10, std::vector<size_t>(1000, 0), 300);
    // Around the sizes where a message is sent another way: express, by view, in chunks.
    for (size_t edge : {512, 16 * 1024 - 40, 16 * 1024, 256 * 1024}) {
      for (size_t size = edge - 2; size <= edge + 2; ++size) ExpectEcho(&world, 0, {size}, size);
    }
    EXPECT_EQ(ReadCopyCounts().large_copies, large_copies);
    EXPECT_EQ(world.client->Snapshot().connects, 1u);
    EXPECT_TRUE(world.IsClean());
  }
}

TEST(Client, CarriesHeadsUpToTheLimit) {
  RpcWorld world;
  for (size_t head_bytes : {16 * 1024, 100 * 1000, 1 << 20}) ExpectEcho(&world, head_bytes, {}, head_bytes);
  ExpectEcho(&world, (1 << 20) - 8 * 1000, RandomSizes(3, 1000, 100), 9);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, MovesALargeBodyWithoutACopy) {
  RpcWorld world;
  uint64_t large_copies = ReadCopyCounts().large_copies;
  ExpectEcho(&world, 3, {size_t{64} << 20}, 1);
  ExpectEcho(&world, 3, {(size_t{30} << 20) + 1, 0, (size_t{20} << 20) + 3, 7}, 2);
  EXPECT_EQ(ReadCopyCounts().large_copies, large_copies);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, GivesTheRequestBackWhenTheNetworkIsDoneWithIt) {
  RpcWorld world;
  static int released;
  released = 0;
  std::vector<uint8_t> memory(1 << 20, 7);
  ProbeCall call(kEcho);
  call.body.push_back(Buffer::Wrap(Bytes(memory.data(), memory.size()), nullptr, [](void*, Bytes) { ++released; }));
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(call.body.empty());
}

// ---- errors ----

TEST(Client, ATypedErrorKeepsEveryField) {
  RpcWorld world;
  ProbeCall call(kRefuse);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kApplication);
  EXPECT_EQ(call.status.app_code(), 77u);
  EXPECT_EQ(call.status.cause(), "the table is not here");
  EXPECT_EQ(call.status.peer(), "ps:3 (10.1.2.3:4567)");
  EXPECT_EQ(call.status.phase(), "looking for the table");
  EXPECT_EQ(call.status.next(), "load the table first");
  EXPECT_GE(call.status.age_ms(), 0);
}

TEST(Client, EveryCodeTravels) {
  WorldOptions options;
  options.more_methods = [] {
    std::vector<Method> methods;
    methods.push_back(MakeMethod(10, "fail", [](Request request, Reply reply) {
      reply.Send(Status(static_cast<Code>(request.head.data[0]), "said the handler"));
    }));
    return methods;
  };
  RpcWorld world(std::move(options));
  for (uint8_t code = 1; code <= kCodeMax; ++code) {
    ProbeCall call(10, std::string(1, static_cast<char>(code)));
    ASSERT_TRUE(world.Ask(&call));
    EXPECT_EQ(call.status.code(), static_cast<Code>(code));
    EXPECT_EQ(call.status.cause(), "said the handler");
    // The part that the handler has left open.
    EXPECT_EQ(call.status.peer(), "ps:0 (server:5555)");
    EXPECT_EQ(call.status.phase(), "calling method 10");
  }
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
}

TEST(Client, AMethodThatIsNotThereIsInvalid) {
  RpcWorld world;
  ProbeCall call(kStrange);
  call.body = PatternSegments({300000}, 1);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kInvalid);
  EXPECT_EQ(call.status.cause(), "there is no method 999");
  EXPECT_FALSE(call.status.next().empty());
  ExpectEcho(&world, 5, {100}, 1);
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
}

TEST(Client, AForgottenReplyIsSaidSo) {
  RpcWorld world;
  ProbeCall call(kDrop);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kInternal);
  EXPECT_EQ(call.status.cause(), "the handler dropped the call");
}

// ---- landing ----

TEST(Client, LandsWhereTheCallerSays) {
  WorldOptions options;
  options.faults = Splitting();
  RpcWorld world(std::move(options));
  const size_t size = 700 * 1000;
  std::vector<uint8_t> memory(size + 300, 0xee);
  // Pieces that have nothing to do with the segments, with gaps between them.
  std::vector<Bytes> pieces = {Bytes(memory.data() + 100, 1), Bytes(memory.data() + 101, 0),
                               Bytes(memory.data() + 101, 299999), Bytes(memory.data() + 300200, size - 300000)};
  ProbeCall call(kEcho, "where");
  call.body = PatternSegments({size}, 5);
  call.land = [&](ConstBytes head, const SegmentSizes& sizes) -> Result<pipe::Landing> {
    EXPECT_EQ(head.ToString(), "where");
    EXPECT_EQ(sizes.count(), 1u);
    EXPECT_EQ(sizes.total(), size);
    return pipe::Landing::Into(pieces.data(), pieces.size());
  };
  ASSERT_TRUE(world.Ask(&call));
  ASSERT_TRUE(call.status.ok()) << call.status.ToString();
  EXPECT_TRUE(call.reply_body.empty());
  std::vector<uint8_t> whole(memory.begin() + 100, memory.begin() + 300100);
  whole.insert(whole.end(), memory.begin() + 300200, memory.begin() + static_cast<std::ptrdiff_t>(size) + 200);
  EXPECT_TRUE(HasPattern(ConstBytes(whole.data(), whole.size()), 5));
  for (size_t i = 0; i < 100; ++i) {
    ASSERT_EQ(memory[i], 0xee);
    ASSERT_EQ(memory[300100 + i], 0xee);
    ASSERT_EQ(memory[size + 200 + i], 0xee);
  }
}

TEST(Client, ALandingThatFailsFailsOnlyItsCall) {
  RpcWorld world;
  ProbeCall before(kEcho), failing(kEcho), after(kEcho);
  for (ProbeCall* call : {&before, &failing, &after}) call->body = PatternSegments({600000, 10}, 3);
  failing.land = [](ConstBytes, const SegmentSizes&) -> Result<pipe::Landing> {
    return Status::Overloaded("the arena is full").Next("wait for the step to end");
  };
  for (ProbeCall* call : {&before, &failing, &after}) world.client->Start(call);
  ASSERT_TRUE(world.RunUntil([&] { return before.dones + failing.dones + after.dones == 3; }));
  EXPECT_EQ(failing.status.code(), Code::kOverloaded);
  EXPECT_EQ(failing.status.cause(), "the arena is full");
  EXPECT_EQ(failing.status.next(), "wait for the step to end");
  EXPECT_TRUE(AreSegments(before.reply_body, {600000, 10}, 3));
  EXPECT_TRUE(AreSegments(after.reply_body, {600000, 10}, 3));
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, ALandingThatSaysNoPlaceFailsItsCall) {
  RpcWorld world;
  ProbeCall call(kEcho);
  call.body = PatternSegments({100}, 3);
  call.land = [](ConstBytes, const SegmentSizes&) -> Result<pipe::Landing> { return pipe::Landing::View(); };
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kInvalid);
  ExpectEcho(&world, 1, {10}, 1);
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
}

// An override is asked about every answer that has segments, so that it can count them.
TEST(Client, EmptySegmentsLandToo) {
  RpcWorld world;
  ProbeCall call(kEcho);
  call.body = PatternSegments({0, 0}, 3);
  size_t count = 0;
  call.land = [&](ConstBytes, const SegmentSizes& sizes) -> Result<pipe::Landing> {
    count = sizes.count();
    return pipe::Landing::Into(nullptr, 0);
  };
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(count, 2u);
}

TEST(Client, AnUnwantedBodyIsDiscarded) {
  RpcWorld world;
  for (size_t size : {10, 1000000}) {
    ProbeCall call(kEcho, "head");
    call.body = PatternSegments({size}, 3);
    call.land = [](ConstBytes, const SegmentSizes&) -> Result<pipe::Landing> { return pipe::Landing::Discard(); };
    ASSERT_TRUE(world.Ask(&call));
    EXPECT_TRUE(call.status.ok());
    EXPECT_EQ(call.reply_head, "head");
    EXPECT_TRUE(call.reply_body.empty());
  }
  EXPECT_TRUE(world.IsClean());
}

// ---- limits ----

TEST(Client, RefusesMoreCallsThanItsLimit) {
  WorldOptions options;
  options.client.calls_in_flight_max = 3;
  RpcWorld world(std::move(options));
  std::vector<std::unique_ptr<ProbeCall>> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(std::make_unique<ProbeCall>(kHold));
    world.client->Start(calls.back().get());
  }
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 3 && calls[3]->dones == 1 && calls[4]->dones == 1; }));
  for (int i = 3; i < 5; ++i) {
    EXPECT_EQ(calls[i]->status.code(), Code::kOverloaded);
    EXPECT_THAT(calls[i]->status.cause(), HasSubstr("calls_in_flight_max (3)"));
    EXPECT_FALSE(calls[i]->status.next().empty());
  }
  for (auto& held : world.held) held.reply.Send(Status::Ok());
  ASSERT_TRUE(world.RunUntil([&] { return calls[0]->dones + calls[1]->dones + calls[2]->dones == 3; }));
  ExpectEcho(&world, 1, {}, 1);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, AMessageOverTheLimitsFailsOnlyItsCall) {
  WorldOptions options;
  options.client_pipe.limits.body_bytes_max = 1000000;
  options.server_pipe.limits.body_bytes_max = 1000000;
  RpcWorld world(std::move(options));
  ProbeCall neighbour(kHold);
  world.client->Start(&neighbour);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  ProbeCall long_head(kEcho, std::string((1 << 20) + 1, 'x'));
  ProbeCall long_head_and_table(kEcho, std::string((1 << 20) - 15, 'x')), many_segments(kEcho), long_body(kEcho);
  long_head_and_table.body = PatternSegments({1, 1}, 1);
  many_segments.body = PatternSegments(std::vector<size_t>(65536, 0), 1);
  long_body.body = PatternSegments({1000001}, 1);
  for (ProbeCall* call : {&long_head, &long_head_and_table, &many_segments, &long_body}) {
    ASSERT_TRUE(world.Ask(call));
    EXPECT_EQ(call->status.code(), Code::kInvalid) << call->status.ToString();
    EXPECT_THAT(call->status.cause(), HasSubstr(", limit "));
    EXPECT_FALSE(call->status.next().empty());
  }
  EXPECT_EQ(neighbour.dones, 0);
  world.held[0].reply.Send(Status::Ok());
  ASSERT_TRUE(world.Finish(neighbour));
  EXPECT_TRUE(neighbour.status.ok());
  ExpectEcho(&world, 3, std::vector<size_t>(65535, 1), 1);
  EXPECT_EQ(world.client->Snapshot().connects, 1u);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, AnAnswerOverTheLimitsFailsOnlyItsCall) {
  RpcWorld world;
  ProbeCall long_head(kHold), many_segments(kHold), neighbour(kHold);
  for (ProbeCall* call : {&long_head, &many_segments, &neighbour}) world.client->Start(call);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 3; }));
  AtHome(world.server_home, [&] {
    world.held[0].reply.Send(Status::Ok(), std::string((1 << 20) + 1, 'x'));
    world.held[1].reply.Send(Status::Ok(), ConstBytes(), PatternSegments(std::vector<size_t>(65536, 0), 1));
  });
  for (ProbeCall* call : {&long_head, &many_segments}) {
    ASSERT_TRUE(world.Finish(*call));
    EXPECT_EQ(call->status.code(), Code::kInternal) << call->status.ToString();
    EXPECT_THAT(call->status.cause(), HasSubstr("the handler's answer cannot be sent: "));
  }
  world.held[2].reply.Send(Status::Ok());
  ASSERT_TRUE(world.Finish(neighbour));
  EXPECT_TRUE(neighbour.status.ok());
  EXPECT_TRUE(world.IsClean());
}

// More heads than may wait for a caller that does not read: each call still ends.
TEST(Client, AnAnswerThatFindsNoRoomIsAnError) {
  for (size_t held : {300, 3000}) {
    WorldOptions options;
    options.server_pipe.queued_bytes_max = 200000;
    options.client_pipe.window_bytes = 4096;
    options.client_pipe.receive_budget_bytes = 4096;
    RpcWorld world(std::move(options));
    std::vector<std::unique_ptr<ProbeCall>> calls;
    for (size_t i = 0; i < held; ++i) {
      calls.push_back(std::make_unique<ProbeCall>(kHold));
      world.client->Start(calls.back().get());
    }
    ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == held; }));
    world.world.PauseHost("client");
    std::string head(3000, 'h');
    AtHome(world.server_home, [&] {
      for (auto& one : world.held) one.reply.Send(Status::Ok(), head);
    });
    world.world.RunFor(kSecondNs);
    world.world.ResumeHost("client");
    ASSERT_TRUE(world.RunUntil(
        [&] { return std::all_of(calls.begin(), calls.end(), [](auto& call) { return call->dones == 1; }); }));
    size_t overloaded = 0;
    for (auto& call : calls) {
      if (call->status.ok()) {
        EXPECT_EQ(call->reply_head, head);
      } else {
        EXPECT_EQ(call->status.code(), Code::kOverloaded) << call->status.ToString();
        EXPECT_FALSE(call->status.next().empty());
        ++overloaded;
      }
    }
    EXPECT_GT(overloaded, held / 10);
    EXPECT_TRUE(world.IsClean());
  }
}

TEST(Client, AgreesWithAPeerOfSmallChunks) {
  WorldOptions options;
  options.client_pipe.limits.chunk_bytes_max = 4096;
  RpcWorld world(std::move(options));
  for (size_t size : {1, 4000, 4096, 5000, 10000, 16000, 100000}) ExpectEcho(&world, 10, {size}, size);
  ExpectEcho(&world, 10000, {}, 1);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, ACallMayBeStartedAgainInItsDone) {
  RpcWorld world;
  ProbeCall call(kEcho, "again");
  int left = 100;
  UniqueFunction<void()> again;
  again = [&] {
    EXPECT_EQ(call.reply_head, "again");
    if (--left == 0) return;
    call.then = [&] { again(); };
    world.client->Start(&call);
  };
  call.then = [&] { again(); };
  world.client->Start(&call);
  ASSERT_TRUE(world.RunUntil([&] { return left == 0; }));
  EXPECT_EQ(call.dones, 100);
  EXPECT_TRUE(world.IsClean());
}

TEST(Client, AnAnswerLeavesNothingToTheNext) {
  RpcWorld world;
  ProbeCall call(kEcho, "head");
  call.body = PatternSegments({100, 200000}, 1);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(AreSegments(call.reply_body, {100, 200000}, 1));
  call.head = ConstBytes();
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(call.reply_head, "");
  EXPECT_TRUE(call.reply_body.empty());
  call.head = call.request_head;
  call.body = PatternSegments({5}, 1);
  ASSERT_TRUE(world.Ask(&call));
  call.method = kRefuse;
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_FALSE(call.status.ok());
  EXPECT_EQ(call.reply_head, "");
  EXPECT_TRUE(call.reply_body.empty());
}

// ---- a peer that is not there ----

TEST(Client, WaitsForAPeerThatComesLater) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho, "early");
  world.client->Start(&call);
  world.world.RunFor(5 * kSecondNs);
  EXPECT_EQ(call.dones, 0);
  world.OpenServer();
  ASSERT_TRUE(world.Finish(call, 3 * kSecondNs));
  EXPECT_TRUE(call.status.ok()) << call.status.ToString();
}

TEST(Client, LosesItsPatienceInTime) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  int64_t start_ns = world.now_ns();
  ProbeCall call(kEcho);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_GE(world.now_ns() - start_ns, 10 * kSecondNs);
  EXPECT_LE(world.now_ns() - start_ns, 10 * kSecondNs + kMillisecondNs);
  EXPECT_EQ(call.status.code(), Code::kUnavailable);
  EXPECT_EQ(call.status.cause(), "no connection within 10000 ms, last error: connect: Connection refused");
  EXPECT_EQ(call.status.peer(), "server:5555");
  EXPECT_EQ(call.status.phase(), "calling method 1");
  EXPECT_EQ(call.status.age_ms(), 10000);
  EXPECT_FALSE(call.status.next().empty());
}

TEST(Client, WithoutPatienceFailsWithTheFirstAttempt) {
  WorldOptions options;
  options.with_server = false;
  options.client.patience_ns = 0;
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho);
  int64_t start_ns = world.now_ns();
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_LE(world.now_ns() - start_ns, kMillisecondNs);
  EXPECT_EQ(call.status.code(), Code::kUnavailable);
  EXPECT_EQ(call.status.cause(), "connect: Connection refused");
  EXPECT_FALSE(call.status.next().empty());
  world.OpenServer();
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok()) << call.status.ToString();
}

TEST(Client, WithoutPatienceStillWaitsForTheFirstAttempt) {
  WorldOptions options;
  options.client.patience_ns = 0;
  options.faults.dial_delay_ns_max = 100 * kMillisecondNs;
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_TRUE(call.status.ok()) << call.status.ToString();
}

// A way to the network on which nobody can be dialled while this process has no descriptor left.
class Exhaustible final : public transport::Transport {
 public:
  explicit Exhaustible(std::unique_ptr<transport::Transport> inner) : inner_(std::move(inner)) {}
  Result<std::unique_ptr<transport::Listener>> Listen(reactor::Reactor& home, const transport::Address& address,
                                                      transport::OnIncoming on_incoming) override {
    return inner_->Listen(home, address, std::move(on_incoming));
  }
  std::unique_ptr<transport::Dialing> Dial(reactor::Reactor& home, const transport::Address& address,
                                           int64_t timeout_ns, transport::OnDialed on_dialed) override {
    if (exhausted) return std::make_unique<InVain>(home, std::move(on_dialed));
    return inner_->Dial(home, address, timeout_ns, std::move(on_dialed));
  }
  bool exhausted = true;

 private:
  struct InVain final : transport::Dialing {
    InVain(reactor::Reactor& home, transport::OnDialed on_dialed_in)
        : on_dialed(std::move(on_dialed_in)), soon([this] {
            transport::OnDialed done = std::move(on_dialed);
            done(Status::Overloaded("socket: Too many open files").Next("raise the limit of open files (ulimit -n)"));
          }) {
      home.Arm(&soon, 0);
    }
    transport::OnDialed on_dialed;
    reactor::Timer soon;
  };
  const std::unique_ptr<transport::Transport> inner_;
};

TEST(Client, WithoutADescriptorOfOursCallsFailAtOnce) {
  RpcWorld world;
  auto transport = std::make_unique<Exhaustible>(world.world.MakeTransport("client"));
  Exhaustible* network = transport.get();
  auto task = task::Task::Make(pipe::Options(), reactor::Pool::Around(world.client_home), std::move(transport));
  Client client(*task, {"server", 5555});
  ProbeCall first(kEcho), second(kEcho);
  int64_t start_ns = world.now_ns();
  client.Start(&first);
  client.Start(&second);
  ASSERT_TRUE(world.Finish(first));
  ASSERT_TRUE(world.Finish(second));
  EXPECT_LE(world.now_ns() - start_ns, kMillisecondNs);
  for (ProbeCall* call : {&first, &second}) {
    EXPECT_EQ(call->status.code(), Code::kOverloaded) << call->status.ToString();
    EXPECT_EQ(call->status.next(), "raise the limit of open files (ulimit -n)");
    EXPECT_EQ(call->dones, 1);
  }
  network->exhausted = false;
  ProbeCall third(kEcho);
  client.Start(&third);
  ASSERT_TRUE(world.Finish(third));
  EXPECT_TRUE(third.status.ok()) << third.status.ToString();
}

TEST(Client, AnUnknownNameIsReported) {
  WorldOptions options;
  options.with_server = false;
  RpcWorld world(std::move(options));
  Client client(*world.client_task, {"nowhere", 1});
  ProbeCall call(kEcho);
  client.Start(&call);
  ASSERT_TRUE(world.Finish(call));
  EXPECT_EQ(call.status.code(), Code::kUnavailable);
  EXPECT_THAT(call.status.cause(), HasSubstr("the name does not resolve"));
  EXPECT_THAT(call.status.next(), HasSubstr("name"));
}

TEST(Client, AWrongClusterRefusesEveryCallAtOnce) {
  WorldOptions options;
  options.client_pipe.cluster = "dev";
  options.server_pipe.cluster = "prod";
  RpcWorld world(std::move(options));
  SetLogLevel(LogLevel::kOff);
  ProbeCall one(kEcho), two(kEcho);
  world.client->Start(&one);
  world.client->Start(&two);
  ASSERT_TRUE(world.RunUntil([&] { return one.dones + two.dones == 2; }, kSecondNs));
  SetLogLevel(LogLevel::kWarn);
  EXPECT_EQ(one.status.code(), Code::kRefused);
  EXPECT_THAT(one.status.ToString(), HasSubstr("cluster \"dev\" is not ours"));
  EXPECT_FALSE(one.status.next().empty());
}

struct Fate {
  const char* name;
  UniqueFunction<void(RpcWorld*)> happens;
  int64_t limit_ns;
  const char* cause;
};

// It comes between two attempts, and leaves before the next.
TEST(Client, AWrongClusterRefusesTheImpatientToo) {
  WorldOptions options;
  options.client_pipe.cluster = "another";
  options.client_pipe.backoff_ns_min = options.client_pipe.backoff_ns_max = 2 * kSecondNs;
  options.client.patience_ns = 100 * kMillisecondNs;
  RpcWorld world(std::move(options));
  ProbeCall first(kEcho), second(kEcho);
  ASSERT_TRUE(world.Ask(&first));
  EXPECT_EQ(first.status.code(), Code::kRefused);
  ASSERT_TRUE(world.Ask(&second, kSecondNs));
  EXPECT_EQ(second.status.code(), Code::kRefused) << second.status.ToString();
}

TEST(Client, TellsOfALostConnectionAlsoWithoutACall) {
  int lost = 0;
  WorldOptions options;
  options.client.on_down = [&lost](const Status&, bool was_up) { lost += was_up; };
  RpcWorld world(std::move(options));
  ExpectEcho(&world, 1, {}, 1);
  world.KillServer(transport::LoopbackDeath::kReset);
  ASSERT_TRUE(world.RunUntil([&] { return lost > 0; }));
  world.RestartServer();
  ProbeCall held(kHold);
  held.then = [&lost] { EXPECT_EQ(lost, 2); };  // whoever asks for another way in OnDone gets a new one
  world.client->Start(&held);
  ASSERT_TRUE(world.RunUntil([&] { return !world.held.empty(); }));
  world.KillServer(transport::LoopbackDeath::kReset);
  ASSERT_TRUE(world.RunUntil([&] { return held.dones > 0; }));
  EXPECT_EQ(lost, 2);
}

TEST(Client, ALostConnectionIsOneThatWasUpAndNotClosed) {
  int lost = 0;
  WorldOptions options;
  options.with_server = false;
  options.client.patience_ns = 0;
  options.client.on_down = [&lost](const Status&, bool was_up) { lost += was_up; };
  RpcWorld world(std::move(options));
  ProbeCall call(kEcho);
  ASSERT_TRUE(world.Ask(&call));
  EXPECT_EQ(call.status.code(), Code::kUnavailable);
  world.OpenServer();
  ExpectEcho(&world, 1, {}, 1);
  world.client.reset();
  EXPECT_EQ(lost, 0);
}

TEST(Client, APeerThatGoesEndsTheCallsThatItHas) {
  std::vector<Fate> fates;
  fates.push_back({"its process dies", [](RpcWorld* world) { world->KillServer(transport::LoopbackDeath::kReset); },
                   kSecondNs, "Connection reset by peer"});
  fates.push_back({"its power goes", [](RpcWorld* world) { world->KillServer(transport::LoopbackDeath::kSilent); },
                   20 * kSecondNs + 200 * kMillisecondNs, "the peer is silent"});
  fates.push_back({"it stands still", [](RpcWorld* world) { world->world.PauseHost("server"); },
                   20 * kSecondNs + 200 * kMillisecondNs, "the peer is silent"});
  fates.push_back({"the connection is cut", [](RpcWorld* world) { world->world.Cut("client", "server"); }, kSecondNs,
                   "Connection reset by peer"});
  fates.push_back({"it closes half", [](RpcWorld* world) { world->world.HalfClose("server", "client"); }, kSecondNs,
                   "the peer closed the connection"});
  fates.push_back({"it says goodbye", [](RpcWorld* world) { world->server->Close(0); }, kSecondNs,
                   "the peer said goodbye: the server is shutting down"});
  for (Fate& fate : fates) {
    SCOPED_TRACE(fate.name);
    WorldOptions options;
    options.faults.user_timeout_ns = 60 * kSecondNs;  // our heartbeat notices first
    RpcWorld world(std::move(options));
    ExpectEcho(&world, 1, {}, 1);
    std::vector<std::unique_ptr<ProbeCall>> calls;
    for (int i = 0; i < 10; ++i) {
      calls.push_back(std::make_unique<ProbeCall>(kHold));
      if (i % 2 == 1) calls.back()->body = PatternSegments({1000000}, 1);
      world.client->Start(calls.back().get());
    }
    ASSERT_TRUE(world.RunUntil([&] { return world.held.size() >= 3; }));
    int64_t start_ns = world.now_ns();
    fate.happens(&world);
    ASSERT_TRUE(world.RunUntil(
        [&] {
          for (auto& call : calls) {
            if (call->dones == 0) return false;
          }
          return true;
        },
        fate.limit_ns));
    EXPECT_LE(world.now_ns() - start_ns, fate.limit_ns);
    for (auto& call : calls) {
      EXPECT_EQ(call->dones, 1);
      EXPECT_EQ(call->status.code(), Code::kUnavailable) << call->status.ToString();
      EXPECT_THAT(call->status.cause(), HasSubstr(fate.cause));
      EXPECT_EQ(call->status.peer(), "ps:0 (server:5555)");
      EXPECT_FALSE(call->status.phase().empty()) << call->status.ToString();
      EXPECT_FALSE(call->status.next().empty()) << call->status.ToString();
      EXPECT_GE(call->status.age_ms(), 0);
    }
  }
}

TEST(Client, FindsItsPeerAgainAfterARestart) {
  for (auto death : {transport::LoopbackDeath::kReset, transport::LoopbackDeath::kSilent}) {
    RpcWorld world;
    for (int round = 0; round < 3; ++round) {
      ExpectEcho(&world, 10, {100000}, 1);
      ProbeCall call(kHold);
      world.client->Start(&call);
      ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
      world.KillServer(death);
      world.RestartServer();
      ASSERT_TRUE(world.Finish(call));
      EXPECT_EQ(call.status.code(), Code::kUnavailable);
    }
    EXPECT_EQ(world.client->Snapshot().connects, 3u);
    ExpectEcho(&world, 10, {100000}, 1);
    EXPECT_TRUE(world.IsClean());
  }
}

TEST(Client, FollowsANameThatMoves) {
  RpcWorld world;
  world.world.PointName("ps", "server");
  Client client(*world.client_task, {"ps", 5555});
  ProbeCall call(kEcho, "one");
  client.Start(&call);
  ASSERT_TRUE(world.Finish(call));
  reactor::Reactor* new_home = world.world.AddHost("new");
  auto task = task::Task::Make(pipe::Options(), reactor::Pool::Around(new_home), world.world.MakeTransport("new"));
  std::vector<Method> methods;
  methods.push_back(EchoMethod());
  auto server = Server::Open(*task, {"", 5555}, std::move(methods));
  ASSERT_TRUE(server.ok());
  world.world.PointName("ps", "new");
  world.KillServer(transport::LoopbackDeath::kReset);
  ProbeCall again(kEcho, "two");
  client.Start(&again);
  ASSERT_TRUE(world.Finish(again));
  // The first try may still have met the dead connection.
  if (!again.status.ok()) {
    client.Start(&again);
    ASSERT_TRUE(world.RunUntil([&] { return again.dones == 2; }));
  }
  EXPECT_TRUE(again.status.ok()) << again.status.ToString();
  EXPECT_EQ(client.Snapshot().connects, 2u);
}

TEST(Client, ThatMeansOneIncarnationTurnsAnotherAway) {
  WorldOptions options;
  options.server_pipe.incarnation = 41;
  options.client.incarnation = 41;
  RpcWorld world(std::move(options));
  ExpectEcho(&world, 10, {100000}, 1);
  ClientOptions other;
  other.incarnation = 40;
  Client client(*world.client_task, {"server", 5555}, other);
  ProbeCall call(kEcho, "meant for somebody else");
  client.Start(&call);
  ASSERT_TRUE(world.Finish(call));
  EXPECT_EQ(call.status.code(), Code::kRefused) << call.status.ToString();
  EXPECT_THAT(call.status.ToString(), HasSubstr("restarted"));
  ExpectEcho(&world, 10, {100000}, 1);
}

// ---- calling back ----

// A caller may hold a lock that its OnDone takes: nothing calls back from inside Start, for this call or another.
TEST(Client, StartNeverCallsBack) {
  RpcWorld world;
  bool inside = false;
  std::vector<std::unique_ptr<ProbeCall>> calls;
  auto start = [&](int64_t timeout_ns) {
    calls.push_back(std::make_unique<ProbeCall>(kHold));
    calls.back()->timeout_ns = timeout_ns;
    calls.back()->then = [&] { EXPECT_FALSE(inside); };
    inside = true;
    world.client->Start(calls.back().get());
    inside = false;
  };
  start(kMillisecondNs);
  ASSERT_TRUE(world.RunUntil([&] { return world.held.size() == 1; }));
  world.world.clock()->Advance(2 * kMillisecondNs);  // the deadline is due, but nobody has looked
  start(kForeverNs);
  start(0);  // ends at once: but not here
  calls[1]->Cancel();
  start(kForeverNs);
  world.client->Close();
  start(kForeverNs);
  ASSERT_TRUE(world.RunUntil(
      [&] { return std::all_of(calls.begin(), calls.end(), [](auto& call) { return call->dones == 1; }); }));
}

}  // namespace
}  // namespace fusewire::rpc
