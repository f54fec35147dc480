// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Many threads, real reactors, real sockets: what a test in virtual time cannot show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/world_test.h"
#include "fusewire/task/acceptor.h"

namespace fusewire::rpc {
namespace {

using testing::HasSubstr;

constexpr int64_t kLimitNs = 40 * kSecondNs;

// Looks again and again: for ends that nobody signals.
bool Eventually(UniqueFunction<bool()> done) {
  int64_t end_ns = Clock::Real()->NowNs() + kLimitNs;
  while (!done()) {
    if (Clock::Real()->NowNs() > end_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

// Threads that answer calls which reactors have taken in.
class Answerers {
 public:
  using Job = UniqueFunction<void()>;
  explicit Answerers(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
  }
  ~Answerers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Do(Job job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

// Replies that nobody sends. May be dropped on any thread.
class Attic {
 public:
  void Keep(Reply reply) {
    std::lock_guard<std::mutex> lock(mutex_);
    replies_.push_back(std::move(reply));
  }
  size_t size() {
    std::lock_guard<std::mutex> lock(mutex_);
    return replies_.size();
  }
  void Clear() {
    std::vector<Reply> replies;
    std::lock_guard<std::mutex> lock(mutex_);
    replies.swap(replies_);
  }

 private:
  std::mutex mutex_;
  std::vector<Reply> replies_;
};

std::unique_ptr<task::Task> StartTask(const std::string& name, int reactors, bool busy_poll = false) {
  task::TaskOptions options;
  options.pipe.name = name;
  options.pool.name = name;
  options.pool.reactors = reactors;
  options.pool.busy_poll = busy_poll;
  auto task = task::Task::Start(std::move(options));
  EXPECT_TRUE(task.ok()) << task.status().ToString();
  return std::move(task).value();
}

constexpr uint16_t kLater = 20, kNever = 21, kParts = 22;

// A server whose methods answer at once, from other threads, in parts, or never.
class Site {
 public:
  explicit Site(int reactors, bool busy_poll = false)
      : task(StartTask("ps:0", reactors, busy_poll)), answerers(std::make_unique<Answerers>(3)) {
    Open(0);
  }
  ~Site() {
    answerers.reset();
    server.reset();
    attic.Clear();
  }

  void Open(uint16_t port) {
    std::vector<Method> methods;
    methods.push_back(EchoMethod());
    methods.push_back(RefuseMethod());
    methods.push_back(DropMethod());
    methods.push_back(MakeMethod(kLater, "later", [this](Request request, Reply reply) {
      answerers->Do([head = request.head.ToString(), body = std::move(request.body),
                     reply = std::move(reply)]() mutable { reply.Send(Status::Ok(), head, std::move(body)); });
    }));
    methods.push_back(MakeMethod(kNever, "never", [this](Request, Reply reply) { attic.Keep(std::move(reply)); }));
    methods.push_back(MakeMethod(kParts, "parts", [this](Request request, Reply reply) {
      answerers->Do([this, head = request.head.ToString(), reply = std::move(reply)]() mutable {
        for (uint64_t i = 0; i < head.size(); ++i) {
          ++parts_sent;
          reply.SendPart(head.substr(i, 1), PatternSegments({1000 * i}, i), [this](Status) { ++part_dones; });
        }
        reply.Send(Status::Ok(), head);
      });
    }));
    auto opened = Server::Open(*task, {"127.0.0.1", port}, std::move(methods));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    server = std::move(opened).value();
  }

  std::unique_ptr<task::Task> task;
  Attic attic;
  std::atomic<int> parts_sent{0}, part_dones{0};
  std::unique_ptr<Answerers> answerers;
  std::unique_ptr<Server> server;
};

void ExpectEcho(Client* client, uint16_t method, size_t size, uint64_t seed) {
  std::string head = std::to_string(seed);
  Client::Answer answer = client->Ask(method, head, PatternSegments({size, 3}, seed), kLimitNs);
  ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
  EXPECT_EQ(answer.head, head);
  EXPECT_TRUE(AreSegments(answer.body, {size, 3}, seed));
}

TEST(Threads, AnAnswerMayComeFromAnyThread) {
  Site site(2);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  for (size_t size : {1, 1000, 100000, 5000000}) ExpectEcho(&client, kLater, size, size);
  ProbeCall call(kParts, "abcdefghij");
  client.Start(&call);
  ASSERT_TRUE(Eventually([&] { return call.dones.load() > 0; }));
  EXPECT_TRUE(call.status.ok());
  ASSERT_EQ(call.parts.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(call.parts[i].head, std::string(1, static_cast<char>('a' + i)));
    EXPECT_TRUE(AreSegments(call.parts[i].body, {1000 * i}, i));
  }
  EXPECT_TRUE(Eventually([&] { return site.part_dones.load() == 10; }));
}

TEST(Threads, ALargeBodyIsNotCopied) {
  Site site(1);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  uint64_t large_copies = ReadCopyCounts().large_copies;
  ExpectEcho(&client, kEcho, size_t{64} << 20, 1);
  ExpectEcho(&client, kLater, size_t{16} << 20, 2);
  EXPECT_EQ(ReadCopyCounts().large_copies, large_copies);
}

TEST(Threads, AWaitingCallerDrivesTheLoop) {
  Site site(1);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  ExpectEcho(&client, kEcho, 100, 1);
  uint64_t drives = client.home().Snapshot().drives;
  for (uint64_t i = 0; i < 200; ++i) ExpectEcho(&client, kEcho, 100, i);
  EXPECT_GT(client.home().Snapshot().drives, drives);
}

// It would wait for itself, or keep all others on its reactor waiting.
TEST(Threads, ACallbackThatAsksIsToldNotTo) {
  Site site(1);
  auto task = StartTask("worker:0", 2);
  Client client(*task, site.server->address()), other(*task, site.server->address());
  for (Client* asker : {&client, &other}) {
    Client::Answer answer;
    client.home().Run([&] { answer = asker->Ask(kEcho, ConstBytes()); });
    EXPECT_EQ(answer.status.code(), Code::kInvalid);
    EXPECT_THAT(answer.status.ToString(), HasSubstr("must not wait"));
    ExpectEcho(asker, kEcho, 100, 1);
  }
}

TEST(Threads, ManyCallersWaitOnOneClient) {
  for (bool busy_poll : {false, true}) {
    Site site(1, busy_poll);
    auto task = StartTask("worker:0", 1, busy_poll);
    Client client(*task, site.server->address());
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&client, t] {
        for (uint64_t i = 0; i < 100; ++i) ExpectEcho(&client, i % 2 == 0 ? kEcho : kLater, 10 * i, t * 1000 + i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(client.Snapshot().calls_in_flight, 0u);
    EXPECT_EQ(client.Snapshot().connects, 1u);
  }
}

TEST(Threads, ACallersOwnDeadlineBoundsItsWait) {
  Site site(1);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  int64_t start_ns = Clock::Real()->NowNs();
  Client::Answer answer = client.Ask(kNever, ConstBytes(), Buffers(), 50 * kMillisecondNs);
  EXPECT_EQ(answer.status.code(), Code::kTimeout);
  EXPECT_GE(Clock::Real()->NowNs() - start_ns, 50 * kMillisecondNs);
}

TEST(Threads, ACancelMayComeFromManyAtOnce) {
  Site site(1);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  for (int round = 0; round < 50; ++round) {
    ProbeCall call(kNever);
    client.Start(&call);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back([&call] { call.Cancel(); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(Eventually([&] { return call.dones.load() > 0; }));
    EXPECT_EQ(call.status.code(), Code::kCancelled);
    EXPECT_EQ(call.dones, 1);
  }
  // Those that were cancelled on their way never came; the others are known to be unwanted.
  EXPECT_TRUE(Eventually([&] { return client.Snapshot().calls_in_flight == 0; }));
}

TEST(Threads, SeveralTasksShareAProcess) {
  Site one(1), other(2);
  auto task = StartTask("worker:0", 2), second = StartTask("worker:1", 1);
  Client clients[] = {Client(*task, one.server->address()), Client(*task, other.server->address()),
                      Client(*second, one.server->address()), Client(*one.task, other.server->address())};
  for (uint64_t i = 0; i < 20; ++i) {
    for (Client& client : clients) ExpectEcho(&client, kEcho, 1000 * i, i);
  }
  EXPECT_EQ(one.task->acceptor().Snapshot().open, 2u);
  EXPECT_EQ(other.task->acceptor().Snapshot().open, 2u);
}

// An OnDone that tries again a few times, also when the client is closing.
TEST(Threads, ClosingWaitsForCallsThatAreStartedAgain) {
  Site site(1);
  for (int round = 0; round < 20; ++round) {
    auto task = StartTask("worker:0", 1);
    ProbeCall call(kNever);
    int tries = 6;
    UniqueFunction<void()> again;
    auto client = std::make_unique<Client>(*task, site.server->address());
    again = [&] {
      if (--tries == 0) return;
      call.then = [&] { again(); };
      client->Start(&call);
    };
    call.then = [&] { again(); };
    client->Start(&call);
    client->Close();
    EXPECT_EQ(tries, 0);
    EXPECT_EQ(call.dones, 6);
    client.reset();
  }
}

TEST(Threads, AServerMayGoWhileOthersAnswer) {
  for (int round = 0; round < 10; ++round) {
    Site site(2);
    auto task = StartTask("worker:0", 2);
    Client client(*task, site.server->address());
    std::vector<std::unique_ptr<ProbeCall>> calls;
    for (int i = 0; i < 200; ++i) {
      calls.push_back(std::make_unique<ProbeCall>(i % 3 == 0 ? kParts : kLater, "abc"));
      if (i % 4 == 0) calls.back()->body = PatternSegments({100000}, 1);
      client.Start(calls.back().get());
    }
    if (round % 2 == 0) {
      ASSERT_TRUE(Eventually([&] { return calls[20]->dones.load() > 0; }));
    }
    site.server.reset();
    client.Close();
    for (auto& call : calls) EXPECT_EQ(call->dones, 1);
  }
}

TEST(Threads, ClosingLetsOldCallsBeAnswered) {
  Site site(1);
  auto task = StartTask("worker:0", 1);
  Client client(*task, site.server->address());
  ExpectEcho(&client, kEcho, 1, 1);
  ProbeCall old(kNever), fresh(kEcho);
  client.Start(&old);
  ASSERT_TRUE(Eventually([&] { return site.attic.size() == 1; }));
  std::thread closer([&] { site.server->Close(kLimitNs); });
  // New calls are refused while the old one is waited for.
  Client::Answer answer;
  ASSERT_TRUE(Eventually([&] {
    answer = client.Ask(kEcho, ConstBytes(), Buffers(), kLimitNs);
    return !answer.status.ok();
  }));
  EXPECT_EQ(answer.status.code(), Code::kUnavailable);
  EXPECT_THAT(answer.status.cause(), HasSubstr("the server is shutting down"));
  EXPECT_EQ(old.dones, 0);
  site.attic.Clear();
  closer.join();
  ASSERT_TRUE(Eventually([&] { return old.dones.load() > 0; }));
  EXPECT_EQ(old.status.cause(), "the handler dropped the call") << "the answer came before the goodbye";
}

// ---- everything at once ----

class Storm {
 public:
  explicit Storm(uint64_t seed) : seed_(seed), site_(2), task_(StartTask("worker:0", 2)) {
    for (int i = 0; i < 3; ++i) clients_.push_back(std::make_unique<Client>(*task_, site_.server->address()));
  }

  void Run(int threads, int operations) {
    const uint16_t port = site_.server->address().port;
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([this, t, operations] { Work(seed_ * 100 + static_cast<uint64_t>(t), operations); });
    }
    // In the middle, one client is closed, and the server goes and comes back at its port.
    ASSERT_TRUE(Eventually([&] { return started_.load() > threads * operations / 3; }));
    clients_[2]->Close();
    site_.server.reset();
    site_.Open(port);
    for (std::thread& worker : workers) worker.join();
    for (auto& call : calls_) {
      if (call->dones.load() == 0) call->Cancel();
    }
    for (auto& call : calls_) ASSERT_TRUE(Eventually([&] { return call->dones.load() > 0; }));
    for (auto& client : clients_) EXPECT_EQ(client->Snapshot().calls_in_flight, 0u);
    clients_.clear();
    for (auto& call : calls_) Check(*call);
    site_.attic.Clear();
    EXPECT_TRUE(Eventually([&] { return site_.server->calls_in_flight() == 0; }));
    EXPECT_TRUE(Eventually([&] { return site_.part_dones.load() == site_.parts_sent.load(); }));
    EXPECT_GT(ok_, threads * operations / 10);
  }

 private:
  struct StormCall final : ProbeCall {
    using ProbeCall::ProbeCall;
    uint64_t seed = 0;
    std::vector<size_t> sizes;
  };

  void Work(uint64_t seed, int operations) {
    Random random(seed);
    for (int i = 0; i < operations; ++i) {
      constexpr uint16_t kMethods[] = {kEcho, kEcho, kEcho, kLater, kLater, kNever, kParts, kRefuse, kDrop, kStrange};
      auto call = std::make_unique<StormCall>(kMethods[random.Below(10)], std::string(random.Below(6), 'x'));
      call->seed = random.Next();
      for (uint64_t segments = random.Below(4); segments > 0; --segments) {
        call->sizes.push_back(random.Chance(0.05) ? random.Below(1000000) : random.Below(2000));
      }
      call->body = PatternSegments(call->sizes, call->seed);
      if (random.Chance(0.3)) call->timeout_ns = static_cast<int64_t>(random.Below(20)) * kMillisecondNs;
      if (call->method == kNever && call->timeout_ns == kForeverNs) call->timeout_ns = kSecondNs;
      StormCall* started = call.get();
      Client* client = clients_[random.Below(clients_.size())].get();
      {
        std::lock_guard<std::mutex> lock(mutex_);
        calls_.push_back(std::move(call));
      }
      client->Start(started);
      started_.fetch_add(1);
      if (random.Chance(0.2)) CancelOne(&random);
      if (random.Chance(0.1)) (void)client->Ask(kEcho, ConstBytes(), Buffers(), kSecondNs);
      if (random.Chance(0.05)) (void)client->Snapshot();
    }
  }

  // Any call, at any moment of its life.
  void CancelOne(Random* random) {
    StormCall* call = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      size_t young = std::min<size_t>(calls_.size(), 20);
      call = calls_[calls_.size() - 1 - random->Below(young)].get();
    }
    call->Cancel();
  }

  void Check(const StormCall& call) {
    EXPECT_EQ(call.dones, 1);
    if (!call.status.ok()) {
      EXPECT_FALSE(call.status.peer().empty()) << call.status.ToString();
      EXPECT_FALSE(call.status.phase().empty()) << call.status.ToString();
      return;
    }
    ++ok_;
    EXPECT_EQ(call.reply_head, call.request_head);
    if (call.method != kParts) {
      EXPECT_TRUE(AreSegments(call.reply_body, call.sizes, call.seed));
    } else {
      EXPECT_EQ(call.parts.size(), call.request_head.size());
    }
  }

  const uint64_t seed_;
  Site site_;
  std::unique_ptr<task::Task> task_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<int> started_{0};
  int ok_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StormCall>> calls_;
};

TEST(Threads, EveryCallEndsOnceInAStorm) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Storm(seed).Run(4, 400);
  }
}

}  // namespace
}  // namespace fusewire::rpc
