// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Real reactors, sockets and threads, over every transport: what a test in virtual time cannot show.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "fusewire/p2p/world_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/wires_test.h"

namespace fusewire::p2p {
namespace {

class Threads : public task::OverWires {};

struct Two {
  explicit Two(const EndpointOptions& options) : a(Start("a", options)), b(Start("b", options)) {
    to_b = a->Connect("b", b->address()).value();
    to_a = b->Connect("a", a->address()).value();
  }
  explicit Two(task::TransportChoice wire) : Two(Over(wire)) {}
  static EndpointOptions Over(task::TransportChoice wire) {
    EndpointOptions options;
    options.wire = wire;
    return options;
  }
  static std::unique_ptr<Endpoint> Start(const char* name, const EndpointOptions& both) {
    EndpointOptions options;
    options.wire = both.wire;
    options.limits = both.limits;
    options.pipe = both.pipe;
    options.pipe.name = name;
    auto started = Endpoint::Start(std::move(options), {"127.0.0.1", 0});
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    return std::move(started).value();
  }
  std::unique_ptr<Endpoint> a, b;
  Peer* to_b;
  Peer* to_a;
};

TEST_P(Threads, TheWireIsTheOneThatWasAsked) {
  Two two(wire());
  EXPECT_STREQ(two.to_b->wire(), "");
  ASSERT_TRUE(two.a->AwaitUp(*two.to_b).ok());
  EXPECT_STREQ(two.to_b->wire(), GetParam().says);
}

TEST_P(Threads, ManyTalkThroughOneEndpoint) {
  Two two(wire());
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      auto tag = static_cast<uint64_t>(2 * i);
      size_t size = i % 2 == 0 ? 64 : 50000;
      std::string sent = Pattern(size, tag), back(size, '#');
      SendOp send(*two.a, *two.to_b, tag, sent);
      ReceiveOp receive(*two.a, two.to_b, tag + 1, BytesOf(back));
      for (int round = 0; round < kRounds; ++round) {
        receive.Post();
        if (!send.PostAndWait().ok()) ++wrong;
        receive.Wait();
        if (!receive.status().ok() || back != sent) ++wrong;
      }
    });
    threads.emplace_back([&, i] {
      auto tag = static_cast<uint64_t>(2 * i);
      size_t size = i % 2 == 0 ? 64 : 50000;
      std::string got(size, '#');
      for (int round = 0; round < kRounds; ++round) {
        if (!two.b->Receive(i % 3 == 0 ? nullptr : two.to_a, tag, BytesOf(got)).ok()) ++wrong;
        if (!two.b->Send(*two.to_a, tag + 1, got).ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Threads, CancelsMeetEnds) {
  Two two(wire());
  std::string sent = Pattern(20000, 1), got(20000, '#');
  std::atomic<bool> stop{false};
  std::atomic<Op*> current{nullptr};
  std::thread canceller([&] {
    while (!stop) {
      if (Op* op = current.exchange(nullptr)) op->Cancel();
      std::this_thread::yield();
    }
  });
  int ok = 0, cancelled = 0;
  ReceiveOp receive(*two.b, two.to_a, 1, BytesOf(got));
  SendOp send(*two.a, *two.to_b, 1, sent);
  for (int i = 0; i < 300; ++i) {
    send.Post();
    receive.Post();
    current = i % 2 == 0 ? static_cast<Op*>(&send) : &receive;
    send.Wait(20 * kMillisecondNs);
    send.Cancel();
    receive.Cancel();
    send.Wait();
    receive.Wait();
    for (const Op* op : {static_cast<Op*>(&send), static_cast<Op*>(&receive)}) {
      ok += op->status().ok() ? 1 : 0;
      cancelled += op->status().code() == Code::kCancelled ? 1 : 0;
    }
  }
  stop = true;
  canceller.join();
  EXPECT_EQ(ok + cancelled, 600);
}

// The network may be writing to that memory at this moment.
TEST_P(Threads, ACancelledLandingIsNotTouchedAnyMore) {
  Two two(wire());
  constexpr size_t kBytes = 16 << 20;
  const std::string sent = Pattern(kBytes, 1), mine(kBytes, '!');
  std::string got(kBytes, '#');
  ReceiveOp receive(*two.b, two.to_a, 1, BytesOf(got));
  SendOp send(*two.a, *two.to_b, 1, sent);
  Random random(5);
  int cancelled = 0;
  for (int i = 0; i < 20; ++i) {
    receive.Post();
    send.Post();
    const int64_t until_ns = Clock::Real()->NowNs() + static_cast<int64_t>(random.Below(3 * kMillisecondNs));
    while (Clock::Real()->NowNs() < until_ns) std::this_thread::yield();
    receive.Cancel();
    receive.Wait();
    if (receive.status().ok()) {
      ASSERT_TRUE(send.Wait());
      continue;
    }
    ++cancelled;
    got = mine;
    send.Wait(5 * kMillisecondNs);
    send.Cancel();
    ASSERT_TRUE(send.Wait());
    ASSERT_TRUE(got == mine) << "round " << i;
  }
  RecordProperty("cancelled", cancelled);  // a wire that lands all of it in one turn may be too fast for any
}

TEST_P(Threads, PutsFromManyThreadsAllCount) {
  Two two(wire());
  std::string memory(4 * 1000, '.');
  auto region = Region::Open(*two.b, Buffer::Wrap(BytesOf(memory), nullptr, nullptr)).value();
  auto signal = Signal::Open(*two.b).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::string bytes(1000, static_cast<char>('a' + i));
      PutOp put(*two.a, *two.to_b, region->ref(), static_cast<uint64_t>(i * 1000), bytes);
      put.signal = signal->ref();
      put.confirm = i % 2 == 0;
      for (int round = 0; round < 100; ++round) EXPECT_TRUE(put.PostAndWait().ok());
    });
  }
  EXPECT_TRUE(two.b->Await(*signal, 400).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory, std::string(1000, 'a') + std::string(1000, 'b') + std::string(1000, 'c') + std::string(1000, 'd'));
  region.reset();
  signal.reset();
}

TEST_P(Threads, ClosingEndsAllThatIsUnderWay) {
  for (int i = 0; i < 20; ++i) {
    Two two(wire());
    std::string large = Pattern(1 << 20, 1), got(1 << 20, '#');
    std::deque<SendOp> sends;
    std::deque<ReceiveOp> receives;
    std::atomic<int> ends{0};
    for (uint64_t j = 0; j < 10; ++j) {
      sends.emplace_back(*two.a, *two.to_b, j, large).then = [&ends] { ++ends; };
      receives.emplace_back(*two.b, two.to_a, j % 5, BytesOf(got)).then = [&ends] { ++ends; };
    }
    for (SendOp& send : sends) send.Post();
    receives[0].Post();
    receives[1].Post();
    (i % 2 == 0 ? two.a : two.b)->Close();
    two.a->Close();
    two.b->Close();
    EXPECT_EQ(ends, 12);
  }
}

// Small sends end as soon as they are copied. An endpoint that closes then waits for a peer that has not read them yet
// and that sends something before it does.
void LeaveBehind(task::TransportChoice wire, int messages) {
  constexpr int64_t kPauseNs = 20 * kMillisecondNs;
  EndpointOptions options = Two::Over(wire);
  options.limits.unexpected_bytes_max = 8 << 20;
  options.pipe.window_bytes = 1 << 20;
  Two two(options);
  ASSERT_TRUE(two.a->AwaitUp(*two.to_b).ok());
  std::string nobody_reads(2000, '!');
  SendOp answer(*two.b, *two.to_a, 2, nobody_reads);
  std::atomic<bool> pauses{false}, reads{false}, left{false};
  two.b->home().Post([&] {
    pauses = true;
    while (!reads) std::this_thread::yield();
  });
  while (!pauses) std::this_thread::yield();
  const std::string text = Pattern(2000, 1);
  int sent = 0;
  while (sent < messages && two.a->Send(*two.to_b, 1, text).ok()) ++sent;
  std::thread leaver([&] {
    two.a.reset();
    left = true;
  });
  const int64_t until_ns = Clock::Real()->NowNs() + kPauseNs;
  while (!left && Clock::Real()->NowNs() < until_ns) std::this_thread::yield();
  answer.Post();
  reads = true;
  leaver.join();
  answer.Cancel();
  EXPECT_TRUE(answer.Wait());
  EXPECT_EQ(sent, messages);
  for (int i = 0; i < sent; ++i) {
    std::string got(text.size(), '#');
    const Result<uint64_t> received = two.b->Receive(two.to_a, 1, BytesOf(got), 5 * kSecondNs);
    ASSERT_TRUE(received.ok()) << i << ": " << received.status().ToString();
    ASSERT_TRUE(got == text) << i;
  }
}

TEST_P(Threads, WhatWasSentArrivesThoughItsSenderHasLeft) {
  // About what a ring or the kernels hold; and more than the peer's credit.
  for (const int messages : {260, 300, 340, 1500}) {
    LeaveBehind(wire(), messages);
    if (HasFatalFailure()) FAIL() << messages << " messages";
  }
}

TEST_P(Threads, AWaitInsideAReactorIsRefused) {
  Two two(wire());
  std::string text = "hello";
  Status inside;
  two.a->home().Run([&] {
    SendOp send(*two.a, *two.to_b, 1, text);
    inside = send.PostAndWait();
  });
  EXPECT_EQ(inside.code(), Code::kInvalid) << inside.ToString();
}

FUSEWIRE_OVER_WIRES(Threads);

}  // namespace
}  // namespace fusewire::p2p
