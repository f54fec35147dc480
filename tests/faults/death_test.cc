// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Peers that are killed, stopped, restarted and moved.
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "faults.h"

namespace fusewire::faults {
namespace {

using testing::HasSubstr;

class Deaths : public Faults {
 protected:
  // A peer on the port that another one had.
  static std::unique_ptr<PeerProcess> Restart(const PeerProcess& old, const std::string& arguments = "") {
    return std::make_unique<PeerProcess>("name=ps:0 host=" + old.address().host +
                                         " port=" + std::to_string(old.address().port) + " " + arguments);
  }
};

TEST_F(Deaths, AKilledPeerEndsEveryCallAtOnceAndItsSuccessorIsFound) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& client = ClientOf(peer.address());
  ASSERT_TRUE(Works(client));
  for (int i = 0; i < 500; ++i) calls_.Start(client, kHold);
  ASSERT_TRUE(InFlight(peer, 500));
  int64_t killed_ns = NowNs();
  peer.Kill();
  calls_.ExpectAll(Code::kUnavailable, killed_ns, kToldNs);
  const Status& status = calls_.all().front().status;
  EXPECT_THAT(status.peer(), HasSubstr("ps:0 (" + peer.address().ToString() + ")"));
  EXPECT_EQ(status.phase(), "reading");
  // The next call waits for the successor.
  TimedCall& waiting = calls_.Start(client, kEcho);
  auto successor = Restart(peer);
  ASSERT_TRUE(successor->ready()) << successor->first_words();
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_TRUE(waiting.status.ok()) << waiting.status.ToString();
  EXPECT_EQ(LogLines("came back as another incarnation"), 1);
  EXPECT_EQ(client.Snapshot().connects, 2u);
}

TEST_F(Deaths, AKillInTheMiddleOfBodiesInBothDirections) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  std::vector<rpc::Client*> clients = {&ClientOf(peer.address()), &ClientOf(peer.address())};
  for (int i = 0; i < 8; ++i) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(32 << 20));
    calls_.Start(*clients[0], kSink, "", kForeverNs, std::move(body));
    calls_.Start(*clients[1], kProduce, std::to_string(32 << 20));
  }
  ASSERT_TRUE(Eventually(
      [&] { return clients[0]->Snapshot().bytes_out > (1 << 20) && clients[1]->Snapshot().bytes_in > (1 << 20); }));
  int64_t killed_ns = NowNs();
  peer.Kill();
  ASSERT_TRUE(calls_.AllDone());
  int broken = 0;
  for (TimedCall& call : calls_.all()) {
    EXPECT_EQ(call.dones, 1);
    EXPECT_LE(call.ended_ns - killed_ns, kToldNs);
    if (call.status.ok()) continue;
    ++broken;
    EXPECT_EQ(call.status.code(), Code::kUnavailable) << call.status.ToString();
    EXPECT_TRUE(IsTyped(call.status));
    EXPECT_TRUE(call.reply_body.empty());
  }
  EXPECT_GT(broken, 0);
}

TEST_F(Deaths, AStoppedPeerIsGivenUpAfterTheSilentLimitAndWorksAgainAfterwards) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  options_.pipe.silent_ns_max = 1 * kSecondNs;
  rpc::Client& client = ClientOf(peer.address());
  ASSERT_TRUE(Works(client));
  for (int i = 0; i < 20; ++i) calls_.Start(client, kHold);
  ASSERT_TRUE(InFlight(peer, 20));
  int64_t stopped_ns = NowNs();
  peer.Stop();
  calls_.ExpectAll(Code::kUnavailable, stopped_ns, Within(2 * kSecondNs));
  for (const TimedCall& call : calls_.all()) {
    EXPECT_GE(call.ended_ns - stopped_ns, 700 * kMillisecondNs);  // a heartbeat may be as old as that
    EXPECT_EQ(call.status.phase(), "waiting for a heartbeat");
    EXPECT_THAT(call.status.next(), HasSubstr("silent_ns_max"));
  }
  // New calls wait for it: the kernel of a stopped peer still accepts, but the peer does not greet.
  TimedCall& waiting = calls_.Start(client, kEcho);
  peer.Continue();
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_TRUE(waiting.status.ok()) << waiting.status.ToString();
  EXPECT_TRUE(Works(client));
  // The calls in flight over the old connection are dropped there.
  EXPECT_TRUE(InFlight(peer, 0)) << peer.Ask("stats");
}

TEST_F(Deaths, ADeadlineThatComesBeforeTheSilentLimitWins) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& client = ClientOf(peer.address());
  ASSERT_TRUE(Works(client));
  peer.Stop();
  int64_t begin_ns = NowNs();
  for (int i = 0; i < 20; ++i) calls_.Start(client, kEcho, "", 300 * kMillisecondNs);
  calls_.ExpectAll(Code::kTimeout, begin_ns, 300 * kMillisecondNs + kToldNs);
  for (const TimedCall& call : calls_.all()) EXPECT_GE(call.ended_ns - begin_ns, 300 * kMillisecondNs);
  peer.Continue();
  EXPECT_TRUE(Works(client));
  EXPECT_EQ(client.Snapshot().connects, 1u);  // the connection has outlived it
}

// Calls are made all the time while the peer is killed and restarted. None may run twice, at whichever incarnation.
TEST_F(Deaths, ACallRunsAtMostOnceAcrossIncarnations) {
  std::string journal = testing::TempDir() + "fusewire_faults_journal_" + std::to_string(getpid());
  std::remove(journal.c_str());
  auto peer = std::make_unique<PeerProcess>("name=ps:0 journal=" + journal);
  ASSERT_TRUE(peer->ready()) << peer->first_words();
  rpc::Client& client = ClientOf(peer->address());
  auto start = [&](int count) -> TimedCall& {
    for (int i = 0; i < count; ++i) calls_.Start(client, kJournal, std::to_string(calls_.all().size()));
    return calls_.all().back();
  };
  for (int life = 0; life < 5; ++life) {
    // The first question may be lost: it goes to the dead connection if its end has not been heard yet.
    ASSERT_TRUE(Eventually([&client] { return Works(client); }));
    TimedCall& half_way = start(150);
    start(150);
    ASSERT_TRUE(Eventually([&half_way] { return half_way.dones > 0; }));
    EXPECT_TRUE(half_way.status.ok()) << half_way.status.ToString();
    peer->Kill();
    start(300);  // some go to the dead connection, some wait for the next
    peer = Restart(*peer, "journal=" + journal);
    ASSERT_TRUE(peer->ready()) << peer->first_words();
  }
  ASSERT_TRUE(calls_.AllDone());
  std::map<std::string, int> runs;
  std::set<std::string> lives;
  std::ifstream lines(journal);
  for (std::string life, head; lines >> life >> head;) {
    ++runs[head];
    lives.insert(life);
  }
  std::remove(journal.c_str());
  EXPECT_GE(lives.size(), 5u);
  int answered = 0;
  for (const TimedCall& call : calls_.all()) {
    EXPECT_EQ(call.dones, 1);
    int ran = runs.count(call.request_head) == 0 ? 0 : runs[call.request_head];
    if (call.status.ok()) {
      ++answered;
      EXPECT_EQ(ran, 1) << "call " << call.request_head;
    } else {
      EXPECT_LE(ran, 1) << "call " << call.request_head;
      EXPECT_EQ(call.status.code(), Code::kUnavailable) << call.status.ToString();
      EXPECT_TRUE(IsTyped(call.status));
    }
  }
  EXPECT_GE(answered, 5 * 150);
}

TEST_F(Deaths, APeerThatComesBackAtAnotherAddressIsFoundByItsName) {
  auto peer = std::make_unique<PeerProcess>("name=ps:0");
  ASSERT_TRUE(peer->ready()) << peer->first_words();
  struct NameService {
    std::atomic<int> host{0}, asked{0};
  };
  // shared_ptr: the resolver's thread may be left behind in it.
  auto names = std::make_shared<NameService>();
  options_.tcp.resolve = [names](const std::string&) -> Result<std::vector<std::string>> {
    names->asked.fetch_add(1);
    return std::vector<std::string>{OwnHost(names->host.load())};
  };
  uint16_t port = peer->address().port;
  rpc::Client& client = ClientOf({"ps0.cluster", port});
  ASSERT_TRUE(Works(client));
  TimedCall& held = calls_.Start(client, kHold);
  ASSERT_TRUE(InFlight(*peer, 1));
  peer->Kill();
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_EQ(held.status.code(), Code::kUnavailable);
  PeerProcess moved("name=ps:0 host=" + OwnHost(1) + " port=" + std::to_string(port));
  ASSERT_TRUE(moved.ready()) << moved.first_words();
  // The name still resolves to the old address for a while.
  TimedCall& waiting = calls_.Start(client, kEcho);
  int asked = names->asked;
  ASSERT_TRUE(Eventually([&] { return names->asked >= asked + 3; }));
  names->host.store(1);
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_TRUE(waiting.status.ok()) << waiting.status.ToString();
  EXPECT_THAT(client.Snapshot().peer, HasSubstr(OwnHost(1)));
}

}  // namespace
}  // namespace fusewire::faults
