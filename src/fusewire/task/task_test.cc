// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task's services over real sockets: the peers that come by the one listener, and the homes of their pipes.
#include "fusewire/task/task.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::task {
namespace {

using testing::HasSubstr;

constexpr uint16_t kWide = 3, kNarrow = 4;  // at all reactors; at one
constexpr int64_t kDeadlineNs = 20 * kSecondNs;

std::unique_ptr<Task> StartTask(const std::string& name, int reactors) {
  TaskOptions options;
  options.pipe.name = name;
  options.pool.reactors = reactors;
  options.wire = TransportChoice::kTcp;
  return std::move(Task::Start(std::move(options))).value();
}

// A service that counts its pipes at each home, and sends its name.
class Service {
 public:
  Service(Task& task, uint16_t number, std::vector<reactor::Reactor*> homes, const std::string& name)
      : task_(task), number_(number), context_(OptionsOf(name), task.context()) {
    Status served = task.acceptor().Serve(number, context_, std::move(homes), [this](pipe::Pipe& pipe) {
      MutexLock lock(mutex_);
      ++pipes_[&pipe.home()];
      return std::make_unique<TaskReceiver>();
    });
    EXPECT_TRUE(served.ok()) << served.ToString();
  }
  ~Service() { task_.acceptor().Withdraw(number_); }

  pipe::PipeContext& context() { return context_; }
  std::map<const void*, int> pipes() {
    MutexLock lock(mutex_);
    return pipes_;
  }

 private:
  struct TaskReceiver final : pipe::Receiver {
    pipe::FrameHandler* OnOpen(const pipe::PeerInfo&) override { return this; }
    Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
    Status OnMessage(const wire::FrameHeader&, ConstBytes, ConstBytes) override { return Status::Ok(); }
    void OnClosed(Status) override {}
  };
  static pipe::Options OptionsOf(const std::string& name) {
    pipe::Options options;
    options.name = name;
    return options;
  }

  Task& task_;
  const uint16_t number_;
  pipe::PipeContext context_;
  Mutex mutex_;
  std::map<const void*, int> pipes_ FUSEWIRE_GUARDED_BY(mutex_);
};

// A client of a service.
class Client final : public pipe::LinkHandler {
 public:
  Client(Task& own, const transport::Address& address, uint16_t service) : home_(own.pool().at(0)) {
    home_.Run([&] {
      link_ = std::make_unique<pipe::Link>(own.context(), home_, own.transport(), address, service, this);
      link_->Want();
    });
  }
  ~Client() {
    home_.Run([this] { link_.reset(); });
  }
  bool AwaitUp() {
    return reactor::Eventually([this] { return ups_.load() > 0; }, kDeadlineNs);
  }
  // Why it is not connected.
  Status AwaitDown() {
    EXPECT_TRUE(reactor::Eventually([this] { return downs_.load() > 0; }, kDeadlineNs));
    Status why;
    home_.Run([&] { why = why_; });
    return why;
  }
  std::string met() {
    std::string name;
    home_.Run([&] { name = met_; });
    return name;
  }

 private:
  void OnUp(const pipe::PeerInfo& peer, bool) override {
    met_ = peer.name;
    ups_.fetch_add(1);
  }
  void OnDown(Status why, bool) override {
    why_ = std::move(why);
    downs_.fetch_add(1);
  }
  Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
  Status OnMessage(const wire::FrameHeader&, ConstBytes, ConstBytes) override { return Status::Ok(); }

  reactor::Reactor& home_;
  std::unique_ptr<pipe::Link> link_;
  std::string met_;
  Status why_;
  std::atomic<int> ups_{0}, downs_{0};
};

std::vector<reactor::Reactor*> AllOf(Task& task) {
  std::vector<reactor::Reactor*> homes;
  for (int i = 0; i < task.pool().size(); ++i) homes.push_back(&task.pool().at(i));
  return homes;
}

TEST(Task, NamesTheOptionThatIsWrong) {
  TaskOptions options;
  options.pipe.greetings_max = 0;
  auto started = Task::Start(std::move(options));
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.status().cause(), HasSubstr("greetings_max"));
}

TEST(Task, PublishesTheOneAddressAtWhichItListens) {
  auto task = StartTask("ps:0", 1);
  EXPECT_EQ(task->address().port, 0);
  ASSERT_TRUE(task->Listen({"127.0.0.1", 0}).ok());
  const transport::Address address = task->address();
  EXPECT_NE(address.port, 0);
  Status again = task->Listen({"127.0.0.1", 0});
  EXPECT_EQ(again.code(), Code::kInvalid);
  EXPECT_THAT(again.ToString(), HasSubstr("listens already, at " + address.ToString()));
  EXPECT_EQ(task->address().ToString(), address.ToString());
  EXPECT_EQ(task->acceptor().AddressOf(kWide).ToString(), address.ToString());
}

TEST(Task, RefusesAServiceThatItDoesNotHave) {
  auto task = StartTask("ps:0", 1), own = StartTask("worker:0", 1);
  ASSERT_TRUE(task->Listen({"127.0.0.1", 0}).ok());
  {
    Client early(*own, task->address(), kWide);
    Status why = early.AwaitDown();
    EXPECT_EQ(why.code(), Code::kRefused);
    EXPECT_THAT(why.cause(), HasSubstr("service 3 is not offered here"));
  }
  Service narrow(*task, kNarrow, {&task->pool().at(0)}, "narrow");
  Client lost(*own, task->address(), kWide);
  Status why = lost.AwaitDown();
  EXPECT_EQ(why.code(), Code::kRefused);
  EXPECT_THAT(why.cause(), HasSubstr("service 3 is not offered here"));
}

class Services : public testing::TestWithParam<int> {};

TEST_P(Services, LiveAtTheirOwnHomesAndCountIntoOneBudget) {
  auto task = StartTask("ps:0", GetParam()), own = StartTask("", 1);
  reactor::Reactor& last = task->pool().at(GetParam() - 1);
  Service wide(*task, kWide, AllOf(*task), "wide");
  ASSERT_TRUE(task->Listen({"127.0.0.1", 0}).ok());
  Service narrow(*task, kNarrow, {&last}, "narrow");  // before and after it listens
  EXPECT_EQ(&wide.context().receive_budget(), &narrow.context().receive_budget());
  EXPECT_EQ(&wide.context().windows(), &task->context().windows());

  std::vector<std::unique_ptr<Client>> clients;
  constexpr int kRounds = 3;
  for (int i = 0; i < kRounds * GetParam(); ++i) {
    for (uint16_t service : {kWide, kNarrow}) {
      clients.push_back(std::make_unique<Client>(*own, task->address(), service));
      ASSERT_TRUE(clients.back()->AwaitUp());
      EXPECT_EQ(clients.back()->met(), service == kWide ? "wide" : "narrow");
    }
  }
  // A client may be in before its acceptor has heard that.
  EXPECT_TRUE(reactor::Eventually([&] { return task->acceptor().Snapshot().open == clients.size(); }, kDeadlineNs));
  const std::map<const void*, int> at_all = wide.pipes(), at_one = narrow.pipes();
  EXPECT_EQ(at_all.size(), static_cast<size_t>(GetParam()));
  for (const auto& [home, count] : at_all) EXPECT_EQ(count, kRounds) << "in turn";
  ASSERT_EQ(at_one.size(), 1u);
  EXPECT_EQ(at_one.begin()->first, &last);
  EXPECT_EQ(task->acceptor().Snapshot().turned_away, 0u);
}

// A service gets all events of its own peers, and none of the other service's.
TEST_P(Services, MayCloseWhileAPeerGreets) {
  auto task = StartTask("ps:0", GetParam()), own = StartTask("", 1);
  ASSERT_TRUE(task->Listen({"127.0.0.1", 0}).ok());
  Service wide(*task, kWide, AllOf(*task), "wide");
  Client stays(*own, task->address(), kWide);
  ASSERT_TRUE(stays.AwaitUp());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    auto narrow =
        std::make_unique<Service>(*task, kNarrow, std::vector<reactor::Reactor*>{&task->pool().at(0)}, "narrow");
    Client client(*own, task->address(), kNarrow);
    if (round % 2 == 0) task->acceptor().StopServing(kNarrow);
    narrow.reset();
    EXPECT_FALSE(client.AwaitDown().ok());
  }
  EXPECT_EQ(task->acceptor().services(), 1u);
  Client late(*own, task->address(), kWide);
  EXPECT_TRUE(late.AwaitUp());
  EXPECT_TRUE(reactor::Eventually([&] { return task->acceptor().Snapshot().open == 2; }, kDeadlineNs));
  EXPECT_EQ(wide.pipes().size(), std::min<size_t>(2, static_cast<size_t>(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Reactors, Services, testing::Values(1, 2, 4));

TEST(TaskDeathTest, ATaskDoesNotGoBeforeItsServices) {
  EXPECT_DEATH(
      {
        auto task = StartTask("ps:0", 1);
        Service narrow(*task, kNarrow, {&task->pool().at(0)}, "narrow");
        task.reset();
      },
      "services\\(\\) == 0");
}

}  // namespace
}  // namespace fusewire::task
