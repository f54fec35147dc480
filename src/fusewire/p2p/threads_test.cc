// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Real reactors, real sockets, many threads: what a test in virtual time cannot show.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "fusewire/p2p/world_test.h"

namespace fusewire {
namespace p2p {
namespace {

struct Two {
  Two() : a(Start("a")), b(Start("b")) {
    to_b = a->Connect("b", b->address()).value();
    to_a = b->Connect("a", a->address()).value();
  }
  static std::unique_ptr<Endpoint> Start(const char* name) {
    EndpointOptions options;
    options.pipe.name = name;
    auto started = Endpoint::Start(std::move(options), {"127.0.0.1", 0});
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    return std::move(started).value();
  }
  std::unique_ptr<Endpoint> a, b;
  Peer* to_b;
  Peer* to_a;
};

TEST(Threads, ManyTalkThroughOneEndpoint) {
  Two two;
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

TEST(Threads, CancelsMeetEnds) {
  Two two;
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

TEST(Threads, PutsFromManyThreadsAllCount) {
  Two two;
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

TEST(Threads, ClosingEndsAllThatIsUnderWay) {
  for (int i = 0; i < 20; ++i) {
    Two two;
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

TEST(Threads, NobodyWaitsInsideAReactor) {
  Two two;
  std::string text = "hello";
  Status inside;
  two.a->home().Run([&] {
    SendOp send(*two.a, *two.to_b, 1, text);
    inside = send.PostAndWait();
  });
  EXPECT_EQ(inside.code(), Code::kInvalid) << inside.ToString();
}

}  // namespace
}  // namespace p2p
}  // namespace fusewire
