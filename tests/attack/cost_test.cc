// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What hostile peers cost the process that they reach: memory, processor time, descriptors, threads. A table in
// docs/reliability.md holds what is measured here.
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_table.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/transport/tls/context.h"
#include "hostile.h"
#include "raw_socket.h"

namespace fusewire {
namespace attack {
namespace {

using faults::Eventually;
using faults::RawSocket;

constexpr int kMany = 120;

class Costs : public OverWays {
 protected:
  void Begin(const std::string& more = "") {
    victim_ = std::make_unique<faults::PeerProcess>(PeerArguments("ps:0") + " reactors=1 " + more);
    ASSERT_TRUE(victim_->ready()) << victim_->first_words();
    attackers_ = Start(OptionsOf("worker:7"));
    // The first of each kind makes what all share.
    {
      Liar warm(*attackers_, victim_->address(), attackers_->shared().options(), rpc::kRpcService);
      (void)warm.Greet();
    }
    ASSERT_TRUE(Eventually([&] { return victim_->AskNumbers("stats")["open"] == 0; }));
  }
  std::string Way() const { return GetParam().tls ? "TLS" : GetParam().wire.says; }
  Cost Now() const {
    return {static_cast<double>(victim_->RssBytes()), static_cast<double>(victim_->CpuNs()),
            static_cast<double>(victim_->Fds()), static_cast<double>(victim_->Threads())};
  }
  // `attack` once to warm up, then kMany times; what it leaves behind stays until this returns.
  void Measure(const std::string& what, const std::function<void()>& attack, const std::function<bool()>& settled) {
    for (int i = 0; i < 8; ++i) attack();
    ASSERT_TRUE(Eventually(settled));
    const Cost before = Now();
    for (int i = 0; i < kMany; ++i) attack();
    ASSERT_TRUE(Eventually(settled));
    const Cost after = Now();
    ExpectCost(what, Way(), "connection",
               {(after.memory_bytes - before.memory_bytes) / kMany, (after.cpu_ns - before.cpu_ns) / kMany,
                (after.descriptors - before.descriptors) / kMany, after.threads - before.threads});
  }
  // It has taken all of them, and has read what there was.
  bool AllAccepted() { return victim_->AskNumbers("stats")["accepted"] > static_cast<int64_t>(sockets_.size()); }
  std::string Hello() const {
    const pipe::Options& options = attackers_->shared().options();
    return pipe::Handshake(pipe::Role::kDialer, options, rpc::kRpcService, options.window_bytes).Begin();
  }
  bool AllAnswered() {
    for (Stranger& stranger : strangers_) {
      if (stranger.heard().empty() && !stranger.closed()) return false;
    }
    return true;
  }

  std::unique_ptr<faults::PeerProcess> victim_;
  std::unique_ptr<task::Task> attackers_;
  std::vector<RawSocket> sockets_;
  std::deque<Stranger> strangers_;
  std::deque<Liar> liars_;
};

using Strangers = Costs;

TEST_P(Strangers, ThatSayNothing) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Measure(
      "connects, says nothing", [&] { sockets_.push_back(RawSocket::Dial(victim_->address())); },
      [&] { return AllAccepted(); });
}

// Under TLS: the first words of a handshake, which the victim answers with a certificate.
TEST_P(Strangers, ThatSayHalfAHello) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  std::string words = Hello().substr(0, 60);
#if FUSEWIRE_HAS_TLS
  if (GetParam().tls) {
    auto context = std::move(transport::TlsContext::Load(OptionsOf("").protection.tls)).value();
    auto session = std::move(context->NewSession(true)).value();
    ASSERT_TRUE(session->Handshake().ok());
    words = session->out().ToString();
  }
#endif
  Measure(
      "says half a hello",
      [&] {
        sockets_.push_back(RawSocket::Dial(victim_->address()));
        ASSERT_TRUE(sockets_.back().Send(words));
        if (GetParam().tls) {
          ASSERT_NE(sockets_.back().Receive(1, faults::kPatienceNs), "");
        }
      },
      [&] { return AllAccepted(); });
}

TEST_P(Strangers, ThatSayHelloAndNeverProve) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  const std::string hello = Hello();
  Measure(
      "says hello, never proves", [&] { strangers_.emplace_back(*attackers_, victim_->address()).Send(hello); },
      [&] { return AllAnswered(); });
}

TEST_P(Strangers, ThatProveWrongly) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  const std::string words = Hello() + wire::EncodeProof(wire::Proof{});
  Measure(
      "proves wrongly, is turned away",
      [&] {
        Stranger stranger(*attackers_, victim_->address());
        stranger.Send(words);
        ASSERT_TRUE(Eventually([&] { return stranger.closed(); }));
      },
      [&] { return victim_->AskNumbers("stats")["open"] == 0; });
}

TEST_P(Strangers, LeaveThreeQuartersOfTheDescriptorsToOthers) {
  ASSERT_NO_FATAL_FAILURE(Begin("fds=512"));
  const int64_t before = victim_->Fds();
  for (int i = 0; i < 600; ++i) sockets_.push_back(RawSocket::Dial(victim_->address()));
  const std::string hello = Hello();
  for (int i = 0; i < 100; ++i) strangers_.emplace_back(*attackers_, victim_->address()).Send(hello);
  ASSERT_TRUE(Eventually([&] { return AllAnswered(); }));
  EXPECT_LE(victim_->Fds() - before, 512 / 4);
  // A member still gets in.
  Liar& member = liars_.emplace_back(*attackers_, victim_->address(), attackers_->shared().options(), rpc::kRpcService);
  EXPECT_TRUE(member.Greet());
}

std::vector<Way> TcpWays() {
  std::vector<Way> ways = AllWays();
  std::erase_if(ways, [](const Way& way) { return way.wire.wire != pipe::TransportChoice::kTcp; });
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Over, Strangers, testing::ValuesIn(TcpWays()), NameOfWay);

using Members = Costs;

TEST_P(Members, ThatSayNothingMore) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Measure(
      "has greeted, says nothing more",
      [&] {
        Liar& liar =
            liars_.emplace_back(*attackers_, victim_->address(), attackers_->shared().options(), rpc::kRpcService);
        ASSERT_TRUE(liar.Greet());
      },
      [&] { return true; });
}

FUSEWIRE_OVER_WAYS(Members);

}  // namespace
}  // namespace attack
}  // namespace fusewire
