// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/script_test.h"
#include "fusewire/pipe/world_test.h"

namespace fusewire::pipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using transport::LoopbackDeath;
using transport::LoopbackFaults;
using wire::FrameKind;

class Handler final : public LinkHandler {
 public:
  explicit Handler(reactor::Reactor* home) : home_(home) {}

  bool keep_wanting = false;
  Link* link = nullptr;
  std::vector<std::string> events;  // "up ps:0", "up again ps:0", "down open ...", "down ..."
  std::vector<int64_t> down_ns;
  std::vector<Status> why;

  void OnUp(const PeerInfo& peer, bool restarted) override {
    events.push_back((restarted ? "up again " : "up ") + peer.name);
    EXPECT_NE(link->pipe(), nullptr);
  }
  void OnDown(Status status, bool was_up) override {
    EXPECT_EQ(link->pipe(), nullptr);
    EXPECT_FALSE(status.peer().empty());
    bool is_ours = status.code() == Code::kCancelled;
    EXPECT_TRUE(is_ours || !status.phase().empty()) << status.ToString();
    EXPECT_TRUE(is_ours || !status.next().empty()) << status.ToString();
    events.push_back(was_up ? "down open" : "down");
    down_ns.push_back(home_->now_ns());
    why.push_back(std::move(status));
    if (keep_wanting) link->Want();
  }
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    return header.body_bytes == 0 ? Landing::View() : Landing::Discard();
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes, ConstBytes) override {
    link->pipe()->Consume(header);
    return Status::Ok();
  }

 private:
  reactor::Reactor* const home_;
};

// A link of "client" to a server on "server", which may be started, killed and started again.
class LinkTest : public testing::Test {
 protected:
  LinkTest() : world_(1, LoopbackFaults()), client_(world_, "client", ClientOptions()), handler_(client_.home) {
    MakeLink({"server", 5555});
  }
  ~LinkTest() override {
    client_.AtHome([this] { link_.reset(); });
    StopServer();
  }

  static Options ClientOptions() {
    Options options;
    options.incarnation = 4711;
    return options;
  }

  void MakeLink(const transport::Address& address) {
    client_.AtHome([&] {
      link_ =
          std::make_unique<Link>(client_.context, *client_.home, *client_.transport, address, kTestService, &handler_);
    });
    handler_.link = link_.get();
  }

  // Greets all that come.
  class Server {
   public:
    Server(transport::LoopbackWorld& world, reactor::Reactor* home, const std::string& host, const Options& options)
        : home_(home), transport_(world.MakeTransport(host)), context_(options) {
      home_->Run([this] {
        listener_ =
            std::move(transport_->Listen(*home_, {"", 5555}, [this](std::unique_ptr<transport::Incoming> incoming) {
              Take(std::move(incoming));
            })).value();
      });
    }
    ~Server() {
      home_->Run([this] {
        listener_.reset();
        accepted_.clear();
      });
    }
    size_t accepted() const { return accepted_.size(); }
    size_t open() const {
      return static_cast<size_t>(
          std::count_if(accepted_.begin(), accepted_.end(), [](const auto& one) { return one.pipe->open(); }));
    }

   private:
    struct Accepted {
      RecordingReceiver receiver;
      std::unique_ptr<Pipe> pipe;
    };
    void Take(std::unique_ptr<transport::Incoming> incoming) {
      Accepted& accepted = accepted_.emplace_back();
      accepted.pipe = std::make_unique<Pipe>(context_, *home_, incoming->Adopt(*home_).value(), Role::kAcceptor,
                                             kTestService, &accepted.receiver);
      accepted.receiver.pipe = accepted.pipe.get();
      accepted.pipe->Start();
    }

    reactor::Reactor* const home_;
    const std::unique_ptr<transport::Transport> transport_;
    PipeContext context_;
    std::unique_ptr<transport::Listener> listener_;
    std::deque<Accepted> accepted_;
  };

  void StartServer(uint64_t incarnation, const std::string& host = "server") {
    if (homes_.count(host) == 0) homes_[host] = world_.AddHost(host);
    Options options;
    options.name = "ps:0";
    options.incarnation = incarnation;
    server_ = std::make_unique<Server>(world_, homes_[host], host, options);
  }
  void StopServer() { server_.reset(); }

  void Want() {
    client_.AtHome([this] { link_->Want(); });
  }
  bool Up() {
    Want();
    return world_.RunUntil([this] { return link_->pipe() != nullptr; }, 10 * kSecondNs);
  }

  transport::LoopbackWorld world_;
  std::map<std::string, reactor::Reactor*> homes_;
  Task client_;
  Handler handler_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Server> server_;
};

TEST_F(LinkTest, ConnectsOnceItIsWanted) {
  StartServer(1);
  world_.RunFor(kSecondNs);
  EXPECT_TRUE(link_->idle());
  Want();
  Want();
  EXPECT_FALSE(link_->idle());
  ASSERT_TRUE(Up());
  Want();
  world_.RunFor(kSecondNs);
  EXPECT_THAT(handler_.events, ElementsAre("up ps:0"));
  EXPECT_EQ(link_->connects(), 1u);
  EXPECT_EQ(server_->accepted(), 1u);
}

TEST_F(LinkTest, ComesBackAfterAFailureOnlyIfItIsWanted) {
  StartServer(1);
  ASSERT_TRUE(Up());
  world_.Cut("client", "server");
  world_.RunFor(10 * kSecondNs);
  EXPECT_THAT(handler_.events, ElementsAre("up ps:0", "down open"));
  EXPECT_TRUE(link_->idle());
  ASSERT_TRUE(Up());
  EXPECT_THAT(handler_.events, ElementsAre("up ps:0", "down open", "up ps:0"));
  EXPECT_EQ(link_->connects(), 2u);
}

TEST_F(LinkTest, RetriesOnceIfNoCallerWaits) {
  homes_["server"] = world_.AddHost("server");
  Want();
  world_.RunFor(60 * kSecondNs);
  EXPECT_EQ(handler_.events.size(), 1u);
  EXPECT_TRUE(link_->idle());
}

TEST_F(LinkTest, TellsARestartedPeerFromTheOldOne) {
  StartServer(1);
  ASSERT_TRUE(Up());
  world_.Cut("client", "server");
  world_.RunFor(kSecondNs);
  ASSERT_TRUE(Up());
  StopServer();
  world_.RunFor(kSecondNs);
  StartServer(2);
  ASSERT_TRUE(Up());
  EXPECT_THAT(handler_.events, ElementsAre("up ps:0", "down open", "up ps:0", "down open", "up again ps:0"));
}

TEST_F(LinkTest, APeerThatComesBackAtTheSamePlaceIsFound) {
  homes_["server"] = world_.AddHost("server");
  for (uint64_t incarnation = 1; incarnation <= 5; ++incarnation) {
    StartServer(incarnation);
    handler_.keep_wanting = true;
    ASSERT_TRUE(Up());
    world_.KillHost("server", incarnation % 2 == 0 ? LoopbackDeath::kReset : LoopbackDeath::kSilent);
    world_.RunFor(100 * kMillisecondNs);
    StopServer();
    homes_["server"] = world_.RestartHost("server");
    StartServer(incarnation + 1);
    int64_t began_ns = world_.clock()->NowNs();
    uint64_t connects = link_->connects();
    ASSERT_TRUE(world_.RunUntil([&] { return link_->connects() > connects; }, 60 * kSecondNs));
    // A host that came back answers old connections with a reset at the next heartbeat.
    EXPECT_LE(world_.clock()->NowNs() - began_ns, 7 * kSecondNs);
    EXPECT_EQ(handler_.events.back(), "up again ps:0");
    StopServer();
    world_.KillHost("server", LoopbackDeath::kReset);
    world_.RunFor(kSecondNs);
    homes_["server"] = world_.RestartHost("server");
  }
}

// A pod that moves keeps its name, not its address.
TEST_F(LinkTest, ANameIsResolvedAgainEachTime) {
  homes_["node-a"] = world_.AddHost("node-a");
  homes_["node-b"] = world_.AddHost("node-b");
  world_.PointName("ps-0", "node-a");
  MakeLink({"ps-0", 5555});
  StartServer(1, "node-a");
  ASSERT_TRUE(Up());
  StopServer();
  handler_.keep_wanting = true;
  Want();
  world_.RunFor(3 * kSecondNs);
  world_.PointName("ps-0", "node-b");
  StartServer(2, "node-b");
  ASSERT_TRUE(world_.RunUntil([&] { return link_->pipe() != nullptr; }, 5 * kSecondNs));
  EXPECT_EQ(handler_.events.back(), "up again ps:0");
  EXPECT_THAT(handler_.why[1].cause(), HasSubstr("Connection refused"));
}

// ---- pauses ----

// The times between failures of a link that is always in use and whose peer is absent.
std::vector<int64_t> PausesOf(uint64_t incarnation, size_t count) {
  LoopbackFaults fast;
  fast.latency_ns_min = fast.latency_ns_max = kMicrosecondNs;
  transport::LoopbackWorld world(1, fast);
  Options options;
  options.incarnation = incarnation;
  Task client(world, "client", options);
  world.AddHost("server");  // where nobody listens
  Handler handler(client.home);
  handler.keep_wanting = true;
  std::unique_ptr<Link> link;
  client.AtHome([&] {
    link = std::make_unique<Link>(client.context, *client.home, *client.transport, transport::Address{"server", 5555},
                                  kTestService, &handler);
    handler.link = link.get();
    link->Want();
  });
  EXPECT_TRUE(world.RunUntil([&] { return handler.down_ns.size() > count; }, 1000 * kSecondNs));
  std::vector<int64_t> pauses;
  for (size_t i = 0; i < count; ++i) pauses.push_back(handler.down_ns[i + 1] - handler.down_ns[i]);
  client.AtHome([&] { link.reset(); });
  return pauses;
}

TEST(LinkPauses, GrowUpToTheirLimitAndAreHalfRandom) {
  constexpr int64_t kSlackNs = kMillisecondNs;  // of the dialling, and of the timers' ticks
  const Options options;
  std::vector<int64_t> first_pauses;
  for (uint64_t incarnation = 1; incarnation <= 50; ++incarnation) {
    std::vector<int64_t> pauses = PausesOf(incarnation, 12);
    int64_t backoff_ns = options.backoff_ns_min;
    for (size_t i = 0; i < pauses.size(); ++i) {
      ASSERT_GE(pauses[i], backoff_ns / 2) << "incarnation " << incarnation << " pause " << i;
      ASSERT_LE(pauses[i], backoff_ns + kSlackNs) << "incarnation " << incarnation << " pause " << i;
      backoff_ns = std::min(backoff_ns * 2, options.backoff_ns_max);
    }
    first_pauses.push_back(pauses.back());
  }
  // A thousand workers that lost one server do not come back in step.
  std::sort(first_pauses.begin(), first_pauses.end());
  EXPECT_LT(first_pauses.front(), options.backoff_ns_max * 6 / 10);
  EXPECT_GT(first_pauses.back(), options.backoff_ns_max * 9 / 10);
}

TEST(LinkPauses, RepeatWithTheIncarnation) {
  EXPECT_EQ(PausesOf(7, 10), PausesOf(7, 10));
  EXPECT_NE(PausesOf(7, 10), PausesOf(8, 10));
}

TEST_F(LinkTest, APipeThatHeldForAWhileStartsWithAShortPauseAgain) {
  handler_.keep_wanting = true;
  homes_["server"] = world_.AddHost("server");
  Want();
  world_.RunFor(20 * kSecondNs);  // the pauses are long by now
  StartServer(1);
  ASSERT_TRUE(Up());
  world_.RunFor(6 * kSecondNs);
  world_.Cut("client", "server");
  int64_t began_ns = world_.clock()->NowNs();
  ASSERT_TRUE(world_.RunUntil([&] { return link_->connects() == 2; }, 10 * kSecondNs));
  EXPECT_LE(world_.clock()->NowNs() - began_ns, 30 * kMillisecondNs);
  // A connection that breaks at once does not.
  for (int i = 0; i < 8; ++i) {
    world_.Cut("client", "server");
    uint64_t connects = link_->connects();
    ASSERT_TRUE(world_.RunUntil([&] { return link_->connects() > connects; }, 10 * kSecondNs));
  }
  began_ns = world_.clock()->NowNs();
  world_.Cut("client", "server");
  ASSERT_TRUE(world_.RunUntil([&] { return link_->connects() == 11; }, 10 * kSecondNs));
  EXPECT_GE(world_.clock()->NowNs() - began_ns, 900 * kMillisecondNs);
}

// ---- closing ----

TEST_F(LinkTest, MayBeClosedAndWantedAgainInAnyState) {
  StartServer(1);
  for (int steps = 0; steps < 25; ++steps) {
    SCOPED_TRACE(steps);
    Want();
    for (int i = 0; i < steps; ++i) world_.Step();
    bool was_up = false;
    client_.AtHome([&] {
      was_up = link_->pipe() != nullptr;
      size_t events = handler_.events.size();
      link_->Close(Status::Cancelled("enough"));
      link_->Close(Status::Cancelled("again"));
      EXPECT_EQ(handler_.events.size(), events);  // not from inside the call
    });
    ASSERT_TRUE(world_.RunUntil([&] { return link_->idle(); }, 5 * kSecondNs));
    EXPECT_TRUE(!was_up || handler_.events.back() == "down open");
    world_.RunFor(3 * kSecondNs);
    EXPECT_TRUE(link_->idle());  // it stays so
    ASSERT_TRUE(Up());
    world_.Cut("client", "server");
    ASSERT_TRUE(world_.RunUntil([&] { return link_->idle(); }, 5 * kSecondNs));
    world_.RunFor(3 * kSecondNs);
  }
}

TEST_F(LinkTest, WantedWhileItSaysGoodbyeComesBackAfterIt) {
  StartServer(1);
  ASSERT_TRUE(Up());
  client_.AtHome([&] {
    link_->Close(Status::Cancelled("enough"));
    link_->Want();
  });
  ASSERT_TRUE(world_.RunUntil([&] { return link_->connects() == 2; }, 5 * kSecondNs));
  EXPECT_THAT(handler_.events, ElementsAre("up ps:0", "down open", "up ps:0"));
}

TEST_F(LinkTest, IsSilentWhenItIsDestroyedInAnyState) {
  StartServer(1);
  for (int steps = 0; steps < 25; ++steps) {
    SCOPED_TRACE(steps);
    MakeLink({"server", 5555});
    handler_.events.clear();
    Outcomes outcomes;
    Want();
    for (int i = 0; i < steps; ++i) world_.Step();
    if (link_->pipe() != nullptr)
      client_.AtHome([&] { link_->pipe()->Send(MakeMessage(FrameKind::kCall, 1, "x"), outcomes.Next()); });
    client_.AtHome([&] { link_.reset(); });
    size_t events = handler_.events.size();
    world_.RunFor(5 * kSecondNs);
    EXPECT_EQ(handler_.events.size(), events);
    outcomes.ExpectOnceEach();
  }
  EXPECT_EQ(server_->open(), 0u);
}

TEST_F(LinkTest, ARefusalSaysWhatDiffers) {
  homes_["server"] = world_.AddHost("server");
  Options options;
  options.cluster = "other";
  server_ = std::make_unique<Server>(world_, homes_["server"], "server", options);
  Want();
  ASSERT_TRUE(world_.RunUntil([&] { return !handler_.why.empty(); }, 5 * kSecondNs));
  EXPECT_EQ(handler_.why[0].code(), Code::kRefused);
  EXPECT_THAT(handler_.why[0].ToString(), HasSubstr("the peer turned us away: cluster \"default\" is not ours"));
}

}  // namespace
}  // namespace fusewire::pipe
