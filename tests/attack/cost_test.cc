// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What hostile peers cost the process that they reach: memory, processor time, descriptors, threads. A table in
// docs/reliability.md holds what is measured here.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_table.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/transport/tls/context.h"
#include "hostile.h"
#include "peer.h"
#include "raw_socket.h"

namespace fusewire::attack {
namespace {

using faults::Eventually;
using faults::RawSocket;

constexpr int kMany = 50;  // attacks in a round

class Costs : public OverWays {
 protected:
  void Begin(const std::string& more = "") {
    victim_ = std::make_unique<faults::PeerProcess>(PeerArguments("ps:0") + " reactors=1 " + more);
    ASSERT_TRUE(victim_->ready()) << victim_->first_words();
    attackers_ = Start(OptionsOf("worker:7"));
    // The first of each kind makes what all share.
    {
      Liar warm(*attackers_, victim_->address(), attackers_->context().options(), rpc::kRpcService);
      (void)warm.Greet();
    }
    ASSERT_TRUE(Eventually([&] { return victim_->AskNumbers("stats")["open"] == 0; }));
  }
  std::string Way() const { return GetParam().tls ? "TLS" : GetParam().wire.says; }
  Cost Now() const {
    return {static_cast<double>(victim_->RssBytes()), static_cast<double>(victim_->CpuNs()),
            static_cast<double>(victim_->Fds()), static_cast<double>(victim_->Threads())};
  }
  // The cheapest of three rounds, after one to warm up: others use this machine too, and pools grow now and then. What
  // `attack` leaves behind stays until this returns.
  void Measure(const std::string& what, const std::function<void()>& attack, const std::function<bool()>& settled,
               const std::string& per = "connection") {
    Cost least;
    Cost before;
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < kMany; ++i) attack();
      ASSERT_TRUE(Eventually(settled));
      const Cost now = Now();
      const Cost cost = {(now.memory_bytes - before.memory_bytes) / kMany, (now.cpu_ns - before.cpu_ns) / kMany,
                         (now.descriptors - before.descriptors) / kMany, now.threads - before.threads};
      if (round == 1) least = cost;
      if (round > 1) {
        least = {std::min(least.memory_bytes, cost.memory_bytes), std::min(least.cpu_ns, cost.cpu_ns),
                 std::min(least.descriptors, cost.descriptors), std::min(least.threads, cost.threads)};
      }
      before = now;
    }
    ExpectCost(what, Way(), per, least);
  }
  // It has taken all of them, and has read what there was.
  bool AllAccepted() { return victim_->AskNumbers("stats")["accepted"] > static_cast<int64_t>(sockets_.size()); }
  std::string Hello() const {
    const pipe::Options& options = attackers_->context().options();
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
  Liar& member =
      liars_.emplace_back(*attackers_, victim_->address(), attackers_->context().options(), rpc::kRpcService);
  EXPECT_TRUE(member.Greet());
}

std::vector<Way> TcpWays() {
  std::vector<Way> ways = AllWays();
  std::erase_if(ways, [](const Way& way) { return way.wire.wire != task::TransportChoice::kTcp; });
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Over, Strangers, testing::ValuesIn(TcpWays()), NameOfWay);

class Members : public Costs {
 protected:
  Liar& Greet() {
    Liar& liar =
        liars_.emplace_back(*attackers_, victim_->address(), attackers_->context().options(), rpc::kRpcService);
    EXPECT_TRUE(liar.Greet());
    return liar;
  }
  // No two have the same name.
  Lie Call(uint16_t method) {
    Lie lie;
    lie.kind = wire::FrameKind::kCall;
    lie.call = wire::PackCallId({slot_++, kGeneration});
    lie.method = method;
    return lie;
  }
  std::vector<Lie> Calls(uint16_t method) {
    std::vector<Lie> lies;
    for (int i = 0; i < 5; ++i) lies.push_back(Call(method));
    return lies;
  }
  // Whether the victim has read all that `liar` sent: it has answered the last of it.
  static bool IsRead(Liar& liar, const Lie& last) {
    std::string name(sizeof(last.call), '\0');
    std::memcpy(name.data(), &last.call, sizeof(last.call));
    return Eventually([&] { return liar.closed() || liar.heard().find(name) != std::string::npos; }) && !liar.closed();
  }
  // Sends `lies` on one connection, again and again.
  void MeasureFrames(const std::string& what, const std::string& per, const std::function<std::vector<Lie>()>& lies) {
    ASSERT_NO_FATAL_FAILURE(Begin());
    Liar& liar = Greet();
    Lie last;
    Measure(
        what,
        [&] {
          for (const Lie& lie : lies()) liar.Send(lie);
          last = Call(kNoMethod);
          liar.Send(last);
        },
        [&] { return IsRead(liar, last); }, per);
  }

  static constexpr uint32_t kGeneration = 0x5ca1ab1e;  // found in no other frame
  static constexpr uint16_t kNoMethod = 999;
  uint32_t slot_ = 0;
};

TEST_P(Members, ThatSayNothingMore) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Measure(
      "has greeted, says nothing more", [&] { Greet(); }, [&] { return true; });
}

TEST_P(Members, ThatAnnounceABodyAndDoNotSendIt) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Measure(
      "has greeted, sends one byte of a body of 64 KiB",
      [&] {
        Liar& liar = Greet();
        Lie first = Call(kNoMethod), lie = Call(faults::kSink);
        lie.body = "x";
        lie.body_bytes = 64 << 10;
        liar.Send({first, lie});
        ASSERT_TRUE(IsRead(liar, first));
      },
      [&] { return true; });
}

// A budget is a limit, not memory.
TEST_P(Members, ThatWantATerabyte) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Measure(
      "has greeted, wants credit for 1 TiB",
      [&] {
        Lie want;
        want.kind = wire::FrameKind::kWant;
        want.call = uint64_t{1} << 40;
        Greet().Send(want);
      },
      [&] { return true; });
}

TEST_P(Members, ThatPing) {
  MeasureFrames("a member that pings", "20 pings", [] {
    Lie ping;
    ping.kind = wire::FrameKind::kPing;
    ping.call = 1;
    return std::vector<Lie>(20, ping);
  });
}

TEST_P(Members, ThatCallWhatIsNotThere) {
  MeasureFrames("a member that calls a method that is not there", "5 calls", [this] { return Calls(kNoMethod); });
}

TEST_P(Members, ThatNeverEndTheirCalls) {
  MeasureFrames("a member whose calls are not answered", "5 calls", [this] { return Calls(faults::kHold); });
}

TEST_P(Members, ThatSendTinySegments) {
  MeasureFrames("a member that sends 100 segments of one byte", "message", [this] {
    constexpr int kSegments = 100;  // all messages fit into the window
    Lie lie = Call(faults::kSink);
    lie.segments = kSegments;
    lie.body.assign(kSegments, 'x');
    for (int i = 0; i < kSegments; ++i) lie.meta += std::string("\1\0\0\0\0\0\0\0", 8);
    return std::vector<Lie>{lie};
  });
}

FUSEWIRE_OVER_WAYS(Members);

}  // namespace
}  // namespace fusewire::attack
