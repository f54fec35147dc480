// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Connections that have not proved that they belong to the cluster.
#include <gmock/gmock.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "hostile.h"

namespace fusewire::attack {
namespace {

using faults::Eventually;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<rpc::Server> Serve(task::Task& task) {
  rpc::Method echo;
  echo.number = faults::kEcho;
  echo.name = "echo";
  echo.handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
  std::vector<rpc::Method> methods;
  methods.push_back(std::move(echo));
  auto opened = rpc::Server::Open(task, {faults::OwnHost(), 0}, std::move(methods));
  FUSEWIRE_CHECK(opened.ok());
  return std::move(opened).value();
}

class Greetings : public OverWays {
 protected:
  void Begin(task::TaskOptions options) {
    victim_ = Start(std::move(options));
    server_ = Serve(*victim_);
    strangers_task_ = Start(OptionsOf("stranger"));  // it has a certificate where there is TLS, and no secret
  }
  // A hello that is right, as far as it can be without the secret.
  std::string Hello(const std::string& cluster = "prod") {
    pipe::Options options = strangers_task_->context().options();
    options.cluster = cluster;
    return pipe::Handshake(pipe::Role::kDialer, options, rpc::kRpcService, options.window_bytes).Begin();
  }
  Stranger& SayHello(const std::string& hello) {
    Stranger& stranger = strangers_.emplace_back(*strangers_task_, server_->address());
    stranger.Send(hello);
    return stranger;
  }
  bool Answered(size_t count) {
    return Eventually([&] {
      size_t answered = 0;
      for (Stranger& stranger : strangers_) answered += !stranger.heard().empty() || stranger.closed() ? 1 : 0;
      return answered >= count;
    });
  }
  Status AskAsMember() {
    auto member = Start(OptionsOf("worker:1"));
    rpc::Client client(*member, server_->address());
    return client.Ask(faults::kEcho, ConstBytes("hello", 5), Buffers(), faults::kPatienceNs).status;
  }

  std::unique_ptr<task::Task> victim_, strangers_task_;
  std::unique_ptr<rpc::Server> server_;
  std::deque<Stranger> strangers_;
};

// Before it has proved anything, a stranger holds none of the windows, which members need.
TEST_P(Greetings, StrangersTakeNoWindowFromMembers) {
  task::TaskOptions options = OptionsOf("ps:0");
  options.pipe.window_budget_bytes = 256 * 1024;  // for a few members
  Begin(std::move(options));
  const std::string hello = Hello();
  constexpr size_t kStrangers = 40;
  for (size_t i = 0; i < kStrangers; ++i) SayHello(hello);
  ASSERT_TRUE(Answered(kStrangers));
  EXPECT_EQ(victim_->context().windows().used_bytes(), 0u);
  const Status asked = AskAsMember();
  EXPECT_TRUE(asked.ok()) << asked.ToString();
}

// A flood of them, more than may greet at a time, does not keep a member out.
TEST_P(Greetings, AFloodOfHellosKeepsNoMemberOut) {
  task::TaskOptions options = OptionsOf("ps:0");
  options.pipe.greetings_max = 8;
  Begin(std::move(options));
  const std::string hello = Hello();
  for (size_t i = 0; i < 50; ++i) SayHello(hello);
  const Status asked = AskAsMember();
  EXPECT_TRUE(asked.ok()) << asked.ToString();
}

// All that comes back before the proof is random: there is nothing to try guesses of the secret on.
TEST_P(Greetings, ADialerHearsNothingThatDependsOnTheSecret) {
  Begin(OptionsOf("ps:0"));
  Stranger& stranger = SayHello(Hello());
  ASSERT_TRUE(Answered(1));
  const std::string heard = stranger.heard();
  ASSERT_EQ(heard.size(), wire::kGreetingPrefixBytes + sizeof(wire::Nonce));
  EXPECT_EQ(wire::DecodeGreetingPrefix(heard).value().kind, wire::GreetingKind::kChallenge);
  EXPECT_THAT(heard, Not(HasSubstr("ps:0")));
}

TEST_P(Greetings, AWrongClusterNameIsNotAnsweredWithTheRightOne) {
  for (const char* secret : {kSecret, ""}) {
    strangers_.clear();
    server_.reset();
    task::TaskOptions options = OptionsOf("ps:0");
    options.pipe.secret = secret;
    Begin(std::move(options));
    Stranger& stranger = SayHello(Hello("guess"));
    EXPECT_TRUE(Eventually([&] { return stranger.closed(); }));
    EXPECT_THAT(stranger.heard(), HasSubstr("cluster \"guess\" is not ours"));
    EXPECT_THAT(stranger.heard(), Not(HasSubstr("prod")));
    EXPECT_THAT(stranger.heard(), Not(HasSubstr("ps:0")));
  }
}

TEST_P(Greetings, AnOlderPeerIsToldBothVersions) {
  Begin(OptionsOf("ps:0"));
  std::string hello = Hello();
  hello[8] = hello[10] = 1;
  Stranger& stranger = SayHello(hello);
  EXPECT_TRUE(Eventually([&] { return stranger.closed(); }));
  EXPECT_THAT(stranger.heard(), HasSubstr("peer speaks version 1 of the protocol, we speak version 2"));
}

// A member that lies: it has a certificate, but not the secret. It lets two others greet each other through itself,
// byte for byte, and would then read and write all that they say.
class Relay {
 public:
  Relay(task::Task& own, transport::Address to) : own_(own), to_(std::move(to)), home_(own.pool().at(0)) {
    home_.Run([this] {
      auto opened =
          own_.transport().Listen(home_, {faults::OwnHost(), 0},
                                  [this](std::unique_ptr<transport::Incoming> incoming) { Take(std::move(incoming)); });
      FUSEWIRE_CHECK(opened.ok());
      listener_ = std::move(opened).value();
      address_ = listener_->address();
    });
  }
  ~Relay() {
    home_.Run([this] {
      dialings_.clear();
      ends_.clear();
      listener_.reset();
    });
  }
  const transport::Address& address() const { return address_; }
  // Of both ways.
  std::string relayed() {
    std::string relayed;
    home_.Run([&] { relayed = relayed_; });
    return relayed;
  }

 private:
  struct End final : transport::ConnectionHandler {
    explicit End(Relay* of) : relay(of) {}
    void Start(std::unique_ptr<transport::Connection> made) {
      connection = std::move(made);
      connection->Start(this);
      Write();
    }
    void Write() {
      if (connection == nullptr || closed || !sending.empty() || unsent.empty()) return;
      sending.swap(unsent);
      const ConstBytes part(sending);
      connection->Write(&part, 1);
    }
    size_t Landing(Bytes*, size_t) override { return 0; }
    void OnLanded(size_t) override {}
    size_t LookAhead() override { return 4096; }
    void OnBytes(ConstBytes bytes) override {
      relay->relayed_ += bytes.ToString();
      other->unsent += bytes.ToString();
      other->Write();
    }
    void OnWritten(size_t bytes) override {
      unsent = sending.substr(bytes) + unsent;
      sending.clear();
      Write();
    }
    void OnClosed(Status why) override {
      closed = true;
      if (other->connection != nullptr) other->connection->Close(std::move(why));
    }

    End* other = nullptr;
    Relay* const relay;
    std::unique_ptr<transport::Connection> connection;
    std::string unsent, sending;
    bool closed = false;
  };

  void Take(std::unique_ptr<transport::Incoming> incoming) {
    auto near_end = incoming->Adopt(home_);
    if (!near_end.ok()) return;
    End& near = ends_.emplace_back(this);
    End& far = ends_.emplace_back(this);
    near.other = &far;
    far.other = &near;
    near.Start(std::move(near_end).value());
    dialings_.push_back(own_.transport().Dial(home_, to_, 5 * kSecondNs,
                                              [&far](Result<std::unique_ptr<transport::Connection>> dialled) {
                                                if (dialled.ok()) far.Start(std::move(dialled).value());
                                              }));
  }

  task::Task& own_;
  const transport::Address to_;
  reactor::Reactor& home_;
  transport::Address address_;
  std::unique_ptr<transport::Listener> listener_;
  std::deque<End> ends_;
  std::vector<std::unique_ptr<transport::Dialing>> dialings_;
  std::string relayed_;  // at home
};

TEST_P(Greetings, AMemberOfTheAuthorityThatRelaysIsFoundOutUnderTls) {
  Begin(OptionsOf("ps:0"));
  Relay relay(*strangers_task_, server_->address());
  auto member = Start(OptionsOf("worker:1"));
  rpc::Client client(*member, relay.address());
  const Status asked = client.Ask(faults::kEcho, ConstBytes("hello", 5), Buffers(), faults::kPatienceNs).status;
  EXPECT_THAT(relay.relayed(), HasSubstr("FUSEWIRE"));
  EXPECT_THAT(relay.relayed(), Not(HasSubstr(kSecret)));
  if (GetParam().tls) {
    EXPECT_EQ(asked.code(), Code::kRefused) << asked.ToString();
  } else {
    EXPECT_TRUE(asked.ok()) << "SECURITY.md says that only TLS protects what is said after the greeting: "
                            << asked.ToString();
  }
}

TEST_P(Greetings, TheSecretIsInNoLog) {
  faults::PeerProcess peer(PeerArguments("ps:0"));
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  for (const char* secret : {kSecret, "another secret of some length", ""}) {
    task::TaskOptions options = OptionsOf("worker:1");
    options.pipe.secret = secret;
    auto member = Start(std::move(options));
    rpc::Client client(*member, peer.address());
    const Status asked = client.Ask(faults::kEcho, ConstBytes("hello", 5), Buffers(), faults::kPatienceNs).status;
    EXPECT_EQ(asked.ok(), secret == kSecret) << asked.ToString();
    EXPECT_THAT(asked.Explained(), Not(HasSubstr(kSecret)));
  }
  EXPECT_TRUE(Eventually([&] { return peer.LogLines("secret") > 0; })) << peer.Log();
  EXPECT_THAT(peer.Log(), Not(HasSubstr(kSecret)));
}

FUSEWIRE_OVER_WAYS(Greetings);

// The library itself: what greets as a member is one, and its lie is answered with a goodbye.
class Hostile : public OverWays {};

TEST_P(Hostile, ALiarIsAMemberUntilItLies) {
  auto victim = Start(OptionsOf("ps:0")), liars = Start(OptionsOf("worker:7"));
  auto server = Serve(*victim);
  Liar liar(*liars, server->address(), liars->context().options(), rpc::kRpcService);
  ASSERT_TRUE(liar.Greet());
  EXPECT_EQ(liar.peer().name, "ps:0");
  Lie chunk;
  chunk.kind = wire::FrameKind::kChunk;
  chunk.body = "behind nothing";
  liar.Send(chunk);
  EXPECT_TRUE(Eventually([&] { return liar.goodbye().has_value(); }));
  EXPECT_TRUE(Eventually([&] { return liar.closed(); }));
}

FUSEWIRE_OVER_WAYS(Hostile);

}  // namespace
}  // namespace fusewire::attack
