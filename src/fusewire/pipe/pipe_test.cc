// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two pipes that keep the rules: order, express, credit, budgets, heartbeats. pipe_faults_test.cc has pipes that do
// not.
#include "fusewire/pipe/pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/pipe/window.h"
#include "fusewire/pipe/world_test.h"

namespace fusewire::pipe {
namespace {

using testing::HasSubstr;
using transport::LoopbackFaults;
using wire::FrameKind;

TEST(Pipe, TellsEachSideItsPeer) {
  Options client_options, server_options;
  client_options.incarnation = 33;
  client_options.name = "worker:3";
  client_options.secret = server_options.secret = "open sesame open";
  PipePair pair(1, {}, client_options, server_options);
  ASSERT_TRUE(pair.Connect());
  EXPECT_EQ(pair.server_receiver.peer.name, "worker:3");
  EXPECT_EQ(pair.server_receiver.peer.incarnation, 33u);
  EXPECT_THAT(pair.server_receiver.peer.ToString(), HasSubstr("worker:3 (client:"));
  EXPECT_EQ(pair.client_receiver.peer.ToString(), "server (server:5555)");
  EXPECT_EQ(pair.client_receiver.peer.incarnation, pair.server_task.context.options().incarnation);
}

// ---- order ----

// A sender of random messages, and what should arrive.
struct Talk {
  Talk(uint64_t seed, size_t count, size_t body_bytes_max) : random(seed) {
    for (size_t i = 0; i < count; ++i) {
      Said said;
      said.kind = static_cast<FrameKind>(random.Between(1, 4));
      said.head =
          Payload(random.Below(3) == 0 ? random.Below(3000) : random.Below(20), static_cast<uint32_t>(random.Next()));
      size_t segments = random.Below(6);
      for (size_t k = 0; k < segments; ++k) {
        size_t size = random.Below(uint64_t{1} << random.Below(22)) % (body_bytes_max + 1);
        said.segments.push_back(Payload(random.Chance(0.1) ? 0 : size, static_cast<uint32_t>(random.Next())));
      }
      messages.push_back(std::move(said));
    }
  }

  void SendAll(PipePair* pair, Pipe* pipe) {
    for (size_t i = 0; i < messages.size(); ++i) {
      Message message = MakeMessage(messages[i].kind, i, messages[i].head);
      for (std::string& segment : messages[i].segments) {
        message.body.push_back(Buffer::Wrap(Bytes(segment.data(), segment.size()), nullptr, nullptr));
      }
      pair->Send(pipe, std::move(message), outcomes.Next());
    }
  }

  void ExpectHeardBy(const RecordingReceiver& receiver) const {
    ASSERT_EQ(receiver.got.size(), messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      std::string body;
      for (const std::string& segment : messages[i].segments) body += segment;
      ASSERT_EQ(receiver.got[i].kind, messages[i].kind);
      ASSERT_EQ(receiver.got[i].call, i);
      ASSERT_EQ(receiver.got[i].head, messages[i].head);
      ASSERT_TRUE(receiver.got[i].body == body) << "message " << i;
    }
  }

  struct Said {
    FrameKind kind;
    std::string head;
    std::vector<std::string> segments;
  };
  Random random;
  std::vector<Said> messages;
  Outcomes outcomes;
};

TEST(Pipe, CarriesWholeMessagesBothWaysInOrder) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Options options = SmallWindows();
    options.limits.chunk_bytes_max = seed % 3 == 0 ? 4096 : 256 << 10;
    Talk to_server(seed, 40, 1 << 20), to_client(seed + 1000, 40, 1 << 20);
    PipePair pair(seed, Nasty(), options, SmallWindows());
    pair.server_receiver.view = seed % 2 == 0;
    pair.Dial();
    pair.RunUntil([&] { return pair.client != nullptr; });
    to_server.SendAll(&pair, pair.client.get());  // before the greeting is over
    ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.opened > 0; }));
    to_client.SendAll(&pair, pair.server.get());
    ASSERT_TRUE(pair.RunUntil([&] {
      return to_server.outcomes.come() == 40 && to_client.outcomes.come() == 40 &&
             pair.server_receiver.messages == 40 && pair.client_receiver.messages == 40;
    }));
    for (Talk* talk : {&to_server, &to_client}) {
      talk->outcomes.ExpectOnceEach();
      EXPECT_EQ(talk->outcomes.good(), 40u);
      EXPECT_TRUE(std::is_sorted(talk->outcomes.order().begin(), talk->outcomes.order().end()));
    }
    to_server.ExpectHeardBy(pair.server_receiver);
    to_client.ExpectHeardBy(pair.client_receiver);
  }
}

TEST(Pipe, DoesNotCopyLargeBodies) {
  std::string body = Payload(16 << 20, 1);
  PipePair pair(1);
  ASSERT_TRUE(pair.Connect());
  CopyCounts before = ReadCopyCounts();
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "head", body));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 1; }));
  CopyCounts after = ReadCopyCounts();
  EXPECT_EQ(pair.server_receiver.got[0].body, body);
  EXPECT_EQ(after.large_copies, before.large_copies);
  EXPECT_LT(after.small_bytes - before.small_bytes, body.size() / 100);
}

// ---- express ----

// How many bytes of bulk arrive between the sending of an express message and its arrival, at most.
uint64_t WorstDelayBytes(const LoopbackFaults& faults, int64_t reader_rests_ns) {
  PipePair pair(1, faults);
  EXPECT_TRUE(pair.Connect());
  pair.server_receiver.keep = false;
  std::string bulk(64 << 20, 'b');
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", bulk));
  uint64_t worst = 0, asked_at = 0, express_done = 0;
  pair.server_receiver.on_message = [&](const wire::FrameHeader& header) {
    if (header.kind != FrameKind::kMessage) return Status::Ok();
    ++express_done;
    worst = std::max(worst, pair.server->stats().bytes_in.Read() - asked_at);
    return Status::Ok();
  };
  for (uint64_t asked = 0; pair.server_receiver.messages == asked;) {
    if (reader_rests_ns > 0) {  // everything on the way fills up
      pair.world.PauseHost("server");
      pair.world.RunFor(reader_rests_ns);
    }
    asked_at = pair.server->stats().bytes_in.Read();
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kMessage, ++asked, "urgent", "", true));
    if (reader_rests_ns > 0) {
      pair.world.RunFor(reader_rests_ns);
      pair.world.ResumeHost("server");
    }
    EXPECT_TRUE(pair.RunUntil([&] { return express_done == asked; }));
    pair.world.RunFor(3 * kMillisecondNs);
  }
  EXPECT_GT(express_done, 10u);
  return worst;
}

TEST(Pipe, ExpressNeverWaitsBehindMoreThanAMegabyte) {
  LoopbackFaults line;
  line.bytes_per_second = uint64_t{1} << 30;
  EXPECT_LE(WorstDelayBytes(line, 0), 1u << 20);
}

TEST(Pipe, ExpressNeverWaitsBehindMoreThanAMegabyteOfASlowReader) {
  LoopbackFaults line;
  line.bytes_per_second = uint64_t{1} << 30;
  line.send_buffer_bytes = 64 * 1024;  // as TcpOptions have them
  line.receive_buffer_bytes = 608 * 1024;
  EXPECT_LE(WorstDelayBytes(line, 5 * kMillisecondNs), 1u << 20);
}

TEST(Pipe, ExpressMessagesKeepTheirOrder) {
  PipePair pair(3, Nasty(), SmallWindows(), SmallWindows());
  ASSERT_TRUE(pair.Connect());
  std::string bulk(8 << 20, 'b'), small(900, 's');
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 0, "", bulk));
  for (uint64_t i = 1; i <= 500; ++i) {
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kMessage, i, "", small, true));  // more than the window holds
  }
  ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 501; }));
  for (uint64_t i = 1; i <= 500; ++i) ASSERT_EQ(pair.server_receiver.got[i - 1].call, i);
  EXPECT_EQ(pair.server_receiver.got[500].call, 0u);
}

// A peer may ask for chunks of 4 KiB; what was express before then ended our process.
TEST(Pipe, WhatIsLongerThanThePeersChunkIsNotExpress) {
  Options small_chunks;
  small_chunks.limits.chunk_bytes_max = 4096;
  PipePair pair(1, {}, Options(), small_chunks);
  pair.Dial();
  ASSERT_TRUE(pair.RunUntil([&] { return pair.client != nullptr; }));
  std::string bulk = Payload(1 << 20, 1), answer = Payload(16000, 2);
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", answer, true));
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 2, "", bulk));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.opened > 0; }));
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 3, "", answer, true));
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 4, "", "small", true));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 4; }));
  for (const RecordingReceiver::Got& got : pair.server_receiver.got) {
    EXPECT_EQ(got.body, got.call == 2 ? bulk : got.call == 4 ? "small" : answer);
  }
}

// ---- credit ----

TEST(Pipe, ASlowReaderStopsItsWriter) {
  Options options = SmallWindows();
  options.receive_budget_bytes = 200 * 1024;
  PipePair pair(1, {}, Options(), options);
  ASSERT_TRUE(pair.Connect());
  pair.server_receiver.hold = true;
  pair.server_receiver.keep = false;
  std::string body(20 * 1024, 'x');
  Outcomes outcomes;
  for (uint64_t i = 0; i < 1000; ++i)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, i, "", body), outcomes.Next());
  pair.world.RunFor(10 * kSecondNs);
  EXPECT_LE(pair.server->receive_window().unconsumed_bytes(), options.window_bytes + options.receive_budget_bytes);
  EXPECT_LT(outcomes.come(), 30u);
  EXPECT_GT(pair.client->stats().credit_stalls.Read(), 0u);
  // It goes on as it is read.
  ASSERT_TRUE(pair.RunUntil([&] {
    pair.server_task.AtHome([&] { pair.server_receiver.Consume(1); });
    return pair.server_receiver.messages == 1000;
  }));
  EXPECT_EQ(outcomes.good(), 1000u);
  pair.server_task.AtHome([&] { pair.server_receiver.Consume(); });
  EXPECT_LE(pair.server_task.context.receive_budget().peak_bytes(), options.receive_budget_bytes);
}

Options LargeWindows() {
  Options options;
  options.window_bytes = 1 << 20;
  return options;
}

// Sent alone, credit would wake the peer a second time.
TEST(Pipe, CreditForARequestGoesWithItsAnswer) {
  PipePair pair(1, {}, LargeWindows(), LargeWindows());
  ASSERT_TRUE(pair.Connect());
  const std::string body(200 * 1024, 'x');
  const Counter &frames = pair.client->stats().frames_in, &stalls = pair.client->stats().credit_stalls;
  const uint64_t before = frames.Read();
  for (uint64_t i = 1; i <= 20; ++i) {
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, i, "", body));
    ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == i; }));
    pair.world.RunFor(10 * kMillisecondNs);
    EXPECT_EQ(frames.Read(), before + i - 1);
    pair.Send(pair.server.get(), MakeMessage(FrameKind::kReply, i, "", "ok"));
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.messages == i; }));
    EXPECT_EQ(frames.Read(), before + i);
  }
  EXPECT_EQ(stalls.Read(), 0u);
}

TEST(Pipe, CreditForMessagesWithoutAnswersComesByItself) {
  PipePair pair(1, {}, LargeWindows(), LargeWindows());
  ASSERT_TRUE(pair.Connect());
  const std::string body(100 * 1024, 'x');
  const uint64_t before = pair.client->stats().frames_in.Read();
  // The credit of the first three waits, as each might get an answer.
  for (uint64_t i = 1; i <= 42; ++i) {
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, i, "", body));
    ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == i; }));
  }
  EXPECT_GE(pair.client->stats().frames_in.Read(), before + 38);
  EXPECT_EQ(pair.client->stats().credit_stalls.Read(), 0u);
}

TEST(Pipe, AReceiverWithoutAStandingWindowIsAskedForEachMessage) {
  Options options;
  options.window_bytes = 0;
  PipePair pair(1, Nasty(), options, options);
  ASSERT_TRUE(pair.Connect());
  for (uint64_t i = 0; i < 50; ++i)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, i, "head", "", i % 2 == 0));
  EXPECT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 50; }));
}

// Of what a message took that the standing window does not cover.
void ExpectIdleShareComesBack(PipePair& pair) {
  std::string body(1 << 20, 'x');
  ASSERT_TRUE(pair.Connect());
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", body));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 1; }));
  EXPECT_GT(pair.server_task.context.receive_budget().used_bytes(), 0u);
  EXPECT_TRUE(
      pair.RunUntil([&] { return pair.server_task.context.receive_budget().used_bytes() == 0; }, 15 * kSecondNs));
}

TEST(Pipe, AnIdlePipeGivesItsShareBack) {
  PipePair pair(1, {}, SmallWindows(), SmallWindows());
  ExpectIdleShareComesBack(pair);
}

// It answers each ping, so it has always said something lately: that is not a reason to keep credit.
TEST(Pipe, AnIdlePipeGivesItsShareBackAlsoToAPeerThatPingsOften) {
  Options often = SmallWindows();
  often.silent_ns_max = 2 * kSecondNs;
  PipePair pair(1, {}, SmallWindows(), often);
  ExpectIdleShareComesBack(pair);
}

// Many senders, one receiver, a budget that holds a few messages of theirs. Returns its peak.
uint64_t PeakOfTwoHundredPipes(uint64_t budget_bytes, uint64_t at_once_bytes) {
  constexpr size_t kPipes = 200;
  constexpr uint64_t kMessages = 6;
  Options options = SmallWindows();
  options.window_bytes = 16 * 1024;
  options.receive_budget_bytes = budget_bytes;
  options.receive_at_once_bytes = at_once_bytes;
  transport::LoopbackWorld world(7, LoopbackFaults());
  Task server(world, "server", options), client(world, "client", Options());
  struct End {
    RecordingReceiver receiver;
    std::unique_ptr<Pipe> pipe;
  };
  std::vector<std::unique_ptr<End>> clients, servers;
  std::vector<std::unique_ptr<transport::Dialing>> dialings;
  std::unique_ptr<transport::Listener> listener;
  auto meet = [](std::vector<std::unique_ptr<End>>* ends, Task* task, Role role,
                 std::unique_ptr<transport::Connection> connection) {
    ends->push_back(std::make_unique<End>());
    End* end = ends->back().get();
    end->pipe =
        std::make_unique<Pipe>(task->context, *task->home, std::move(connection), role, kTestService, &end->receiver);
    end->receiver.pipe = end->pipe.get();
    end->receiver.keep = false;
    end->pipe->Start();
  };
  server.AtHome([&] {
    listener = server.transport
                   ->Listen(*server.home, {"", 5555},
                            [&](std::unique_ptr<transport::Incoming> incoming) {
                              meet(&servers, &server, Role::kAcceptor, incoming->Adopt(*server.home).value());
                            })
                   .value();
  });
  std::string body(600 * 1024, 'x');
  Outcomes outcomes;
  client.AtHome([&] {
    for (size_t i = 0; i < kPipes; ++i) {
      dialings.push_back(client.transport->Dial(
          *client.home, {"server", 5555}, kSecondNs, [&](Result<std::unique_ptr<transport::Connection>> made) {
            meet(&clients, &client, Role::kDialer, std::move(made).value());
            Random random(clients.size());
            for (uint64_t k = 0; k < kMessages; ++k) {
              Message message = MakeMessage(FrameKind::kCall, k, "", body);
              size_t size = random.Between(1000, k == 3 ? body.size() : 100000);
              message.body[0] = Buffer::Wrap(Bytes(body.data(), size), nullptr, nullptr);
              clients.back()->pipe->Send(std::move(message), outcomes.Next());
            }
          }));
    }
  });
  EXPECT_TRUE(world.RunUntil([&] { return outcomes.come() == kPipes * kMessages; }, 120 * kSecondNs))
      << outcomes.come();
  EXPECT_EQ(outcomes.good(), kPipes * kMessages);
  client.AtHome([&] { clients.clear(); });
  server.AtHome([&] {
    listener.reset();
    servers.clear();
  });
  return server.context.receive_budget().peak_bytes();
}

TEST(Pipe, TwoHundredPipesKeepToOneBudget) {
  const uint64_t peak_bytes = PeakOfTwoHundredPipes(1 << 20, 0);
  EXPECT_LE(peak_bytes, uint64_t{1} << 20);
  EXPECT_GT(peak_bytes, uint64_t{1} << 19);
}

TEST(Pipe, TwoHundredPipesTakeTurnsIfTheirBudgetIsPaced) {
  EXPECT_LE(PeakOfTwoHundredPipes(uint64_t{1} << 30, 1 << 20), 16u << 20);
  EXPECT_GT(PeakOfTwoHundredPipes(uint64_t{1} << 30, 0), 32u << 20);
}

TEST(Pipe, AMessageLargerThanTheBudgetPasses) {
  Options options = SmallWindows();
  options.receive_budget_bytes = 100 * 1024;
  PipePair pair(1, {}, Options(), options);
  ASSERT_TRUE(pair.Connect());
  std::string small(90 * 1024, 's'), large(3 << 20, 'l');
  for (uint64_t i = 0; i < 6; ++i)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, i, "", i % 2 == 0 ? small : large));
  EXPECT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 6; }, 5 * kSecondNs));
}

TEST(Pipe, RefusesWhatWouldWaitWithoutBound) {
  Options options;
  options.queued_bytes_max = 100 * 1024;
  PipePair pair(1, {}, options, SmallWindows());
  ASSERT_TRUE(pair.Connect());
  pair.server_receiver.hold = true;
  std::string body(60 * 1024, 'x');
  Outcomes with_head, without_head;
  for (int i = 0; i < 200; ++i)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, std::string(1000, 'h'), body), with_head.Next());
  pair.world.RunFor(kSecondNs);
  ASSERT_GT(with_head.come(), 50u);
  EXPECT_EQ(with_head.at(with_head.order()[20]).code(), Code::kOverloaded);
  EXPECT_THAT(with_head.at(with_head.order()[20]).ToString(), HasSubstr("peer server (server:5555), while send"));
  // Each place in the queue counts, even for an empty message.
  for (int i = 0; i < 100000; ++i)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", body), without_head.Next());
  EXPECT_FALSE(pair.client->HasRoom(0));
  pair.world.RunFor(kSecondNs);
  EXPECT_GT(without_head.come(), 99000u);
  pair.client_task.AtHome([&] { pair.client.reset(); });
  with_head.ExpectOnceEach();
  without_head.ExpectOnceEach();
}

TEST(Pipe, AMessageOverTheLimitsIsRefusedHereAndCostsNothingElse) {
  Options options;
  options.limits.meta_bytes_max = 1000;
  options.limits.segments_max = 10;
  options.limits.body_bytes_max = 1 << 20;
  PipePair pair(1, {}, options, options);
  ASSERT_TRUE(pair.Connect());
  std::string body((1 << 20) + 1, 'x');
  Outcomes outcomes;
  Message many = MakeMessage(FrameKind::kCall, 1, "");
  for (int i = 0; i < 11; ++i) many.body.push_back(Buffer::Wrap(Bytes(body.data(), 1), nullptr, nullptr));
  pair.Send(pair.client.get(), std::move(many), outcomes.Next());
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 2, std::string(1001, 'h')), outcomes.Next());
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 3, "", body), outcomes.Next());
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 4, "fits"), outcomes.Next());
  ASSERT_TRUE(pair.RunUntil([&] { return outcomes.come() == 4 && pair.server_receiver.messages == 1; }));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(outcomes.at(i).code(), Code::kInvalid);
  EXPECT_THAT(outcomes.at(0).cause(), HasSubstr("segments 11, limit 10"));
  EXPECT_THAT(outcomes.at(1).cause(), HasSubstr("meta_bytes 1001, limit 1000"));
  EXPECT_THAT(outcomes.at(2).cause(), HasSubstr("body_bytes 1048577, limit 1048576"));
  EXPECT_TRUE(outcomes.at(3).ok());
  EXPECT_EQ(pair.server_receiver.got[0].call, 4u);
}

// ---- cancels ----

TEST(Pipe, ACallThatHasNotBegunToTravelIsTakenBack) {
  PipePair pair(1, {}, Options(), SmallWindows());
  ASSERT_TRUE(pair.Connect());
  pair.server_receiver.hold = true;
  std::string body(60 * 1024, 'x');
  Outcomes outcomes;
  for (uint64_t call = 0; call < 3; ++call)
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, call, "", body), outcomes.Next());
  pair.world.RunFor(10 * kMicrosecondNs);
  pair.client_task.AtHome([&] {
    size_t before = outcomes.come();
    pair.client->Cancel(2);
    pair.client->Cancel(2);              // it is gone; the peer gets a cancel for a call that it never sees
    EXPECT_EQ(outcomes.come(), before);  // not from inside the call
  });
  ASSERT_TRUE(pair.RunUntil([&] {
    pair.server_task.AtHome([&] { pair.server_receiver.Consume(); });
    return outcomes.come() == 3;
  }));
  EXPECT_EQ(outcomes.at(2).code(), Code::kCancelled);
  EXPECT_TRUE(outcomes.at(1).ok());
  pair.world.RunFor(kSecondNs);
  EXPECT_EQ(pair.server_receiver.messages, 2u);
  EXPECT_EQ(pair.server_receiver.cancelled, std::vector<uint64_t>{2});
}

TEST(Pipe, ACancelReachesThePeerInTheMiddleOfTheBody) {
  LoopbackFaults line;
  line.bytes_per_second = 100 << 20;
  PipePair pair(1, line);
  ASSERT_TRUE(pair.Connect());
  std::string body(8 << 20, 'x');
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 7, "", body));
  ASSERT_TRUE(pair.RunUntil([&] { return pair.server_receiver.bodies_coming_in() == 1; }));
  pair.client_task.AtHome([&] { pair.client->Cancel(7); });
  ASSERT_TRUE(pair.RunUntil([&] { return !pair.server_receiver.cancelled.empty(); }));
  EXPECT_EQ(pair.server_receiver.messages, 0u);
  // The receiver lets go of its memory; the rest of the body goes nowhere, and the pipe goes on.
  pair.server_task.AtHome([&] { pair.server->Abandon(FrameKind::kCall, 7); });
  pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 8, ""));
  EXPECT_TRUE(pair.RunUntil([&] { return pair.server_receiver.messages == 2; }));
}

// ---- heartbeats ----

TEST(Pipe, AnIdlePipeStaysOpenAndMeasuresItsRoundTrips) {
  PipePair pair(1, {}, SmallWindows(), SmallWindows());
  ASSERT_TRUE(pair.Connect());
  pair.world.RunFor(3600 * kSecondNs);
  EXPECT_EQ(pair.client_receiver.closed + pair.server_receiver.closed, 0);
  HistogramSnapshot pings = pair.client->stats().ping_ns.Read();
  EXPECT_GT(pings.count, 100u);
  EXPECT_LT(pings.count, 3600u);
  EXPECT_GT(pings.p50, 40000u);
  EXPECT_LT(pings.p50, 1000000u);
}

TEST(Pipe, ASilentPeerIsGivenUpInTime) {
  for (bool stopped : {true, false}) {
    PipePair pair(1);
    ASSERT_TRUE(pair.Connect());
    pair.world.RunFor(3 * kSecondNs);
    Outcomes outcomes;
    std::string body(8 << 20, 'x');
    pair.Send(pair.client.get(), MakeMessage(FrameKind::kCall, 1, "", body), outcomes.Next());
    if (stopped) {
      pair.world.PauseHost("server");
    } else {
      pair.world.KillHost("server", transport::LoopbackDeath::kSilent);
    }
    int64_t began_ns = pair.world.clock()->NowNs();
    ASSERT_TRUE(pair.RunUntil([&] { return pair.client_receiver.closed > 0; }, 60 * kSecondNs));
    EXPECT_LE(pair.world.clock()->NowNs() - began_ns, 20 * kSecondNs + 100 * kMillisecondNs);
    EXPECT_GE(pair.world.clock()->NowNs() - began_ns, 15 * kSecondNs);  // its last word may have been a while ago
    const Status& why = pair.client_receiver.why;
    EXPECT_EQ(why.code(), Code::kUnavailable);
    EXPECT_THAT(why.ToString(),
                HasSubstr("the peer is silent, peer server (server:5555), while waiting for a heartbeat"));
    EXPECT_FALSE(why.next().empty());
    EXPECT_EQ(outcomes.come(), 1u);
  }
}

// After this process was stopped, the peer seems to have been silent by the clock; its bytes are still unread.
TEST(Pipe, OurOwnStallIsNotThePeersSilence) {
  for (int64_t stall_ns : {15 * kSecondNs, 40 * kSecondNs, 4000 * kSecondNs}) {
    Options patient;
    patient.silent_ns_max = 100000 * kSecondNs;  // it does not give us up
    PipePair pair(1, {}, Options(), patient);
    ASSERT_TRUE(pair.Connect());
    pair.world.RunFor(4 * kSecondNs);
    pair.Send(pair.server.get(), MakeMessage(FrameKind::kMessage, 1, "hello"));
    pair.world.PauseHost("client");
    pair.world.RunFor(stall_ns);
    pair.world.ResumeHost("client");
    pair.world.RunFor(60 * kSecondNs);
    EXPECT_EQ(pair.client_receiver.closed, 0) << pair.client_receiver.why.ToString();
    EXPECT_EQ(pair.client_receiver.messages, 1u);
  }
}

}  // namespace
}  // namespace fusewire::pipe
