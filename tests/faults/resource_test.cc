// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ports that are taken, descriptors that run out, a thousand connections at once.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "faults.h"
#include "raw_socket.h"

namespace fusewire::faults {
namespace {

using testing::HasSubstr;

using Resources = Faults;

TEST_F(Resources, APortThatIsTakenIsNamed) {
  PeerProcess first;
  ASSERT_TRUE(first.ready()) << first.first_words();
  int64_t begin_ns = NowNs();
  PeerProcess second("port=" + std::to_string(first.address().port));
  EXPECT_FALSE(second.ready());
  EXPECT_EQ(second.WaitForExit(kPatienceNs), 3);
  EXPECT_LE(NowNs() - begin_ns, kToldNs);
  EXPECT_THAT(second.first_words(),
              HasSubstr("failed: invalid: bind: Address already in use, peer " + first.address().ToString() +
                        ", while listen; next: choose another port"));
}

TEST_F(Resources, NobodyListens) {
  transport::Address nowhere = {OwnHost(3), 1};
  rpc::ClientOptions patient;
  patient.patience_ns = 300 * kMillisecondNs;
  int64_t begin_ns = NowNs();
  calls_.Start(ClientOf(nowhere, patient), kEcho);
  calls_.ExpectAll(Code::kUnavailable, begin_ns, patient.patience_ns + kToldNs);
  EXPECT_THAT(calls_.all()[0].status.ToString(), HasSubstr("refused"));
  rpc::ClientOptions hasty;
  hasty.patience_ns = 0;
  begin_ns = NowNs();
  rpc::Client::Answer answer = ClientOf(nowhere, hasty).Ask(kEcho, ConstBytes());
  EXPECT_LE(NowNs() - begin_ns, kToldNs);
  EXPECT_EQ(answer.status.code(), Code::kUnavailable);
  EXPECT_EQ(answer.status.phase(), "connect");
  EXPECT_EQ(answer.status.peer(), nowhere.ToString());
  EXPECT_TRUE(IsTyped(answer.status));
}

// No descriptor is left at the server: connected clients are served, new ones are refused, nothing spins.
TEST_F(Resources, AServerWithoutDescriptors) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& friendly = ClientOf(peer.address());
  ASSERT_TRUE(Works(friendly));
  const int64_t room = 20;
  peer.LimitFds(static_cast<uint64_t>(peer.Fds() + room));
  std::vector<RawSocket> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(RawSocket::Dial(peer.address()));
  // Most of them are told that they are refused.
  auto turned_away = [&crowd] {
    int ended = 0;
    for (RawSocket& one : crowd) {
      char byte;
      ended += recv(one.fd(), &byte, 1, MSG_DONTWAIT) == 0;
    }
    return ended;
  };
  EXPECT_TRUE(Eventually([&] { return turned_away() >= 150; })) << turned_away();
  EXPECT_EQ(peer.LogLines(""), 1) << peer.Log();
  EXPECT_EQ(peer.LogLines("turns connections away: accept: Too many open files"), 1) << peer.Log();
  int64_t cpu_before_ns = peer.CpuNs(), window_ends_ns = NowNs() + kSecondNs;
  while (NowNs() < window_ends_ns) {
    EXPECT_TRUE(Works(friendly));
    // More that wait: the kernel holds them while the listener pauses.
    crowd.push_back(RawSocket::Dial(peer.address()));
    Eventually([] { return false; }, 20 * kMillisecondNs);
  }
  EXPECT_LT(peer.CpuNs() - cpu_before_ns, Within(300 * kMillisecondNs));
  EXPECT_EQ(friendly.Snapshot().connects, 1u);
  // A client that comes now waits, and gets in once there is room.
  TimedCall& waiting = calls_.Start(ClientOf(peer.address()), kEcho);
  crowd.clear();
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_TRUE(waiting.status.ok()) << waiting.status.ToString();
}

// No descriptor is left at the client: the call fails with that reason, and open connections go on.
TEST_F(Resources, AClientWithoutDescriptors) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& connected = ClientOf(peer.address());
  ASSERT_TRUE(Works(connected));
  rpc::Client& late = ClientOf(peer.address());
  int next_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next_fd, 0);
  close(next_fd);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit none = {static_cast<rlim_t>(next_fd), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  int64_t begin_ns = NowNs();
  calls_.Start(late, kEcho);
  bool ended = calls_.AllDone();
  EXPECT_TRUE(Works(connected));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_TRUE(ended);
  calls_.ExpectAll(Code::kOverloaded, begin_ns, kToldNs);
  EXPECT_THAT(calls_.all()[0].status.next(), HasSubstr("ulimit -n"));
  EXPECT_TRUE(Works(late));
}

TEST_F(Resources, AThousandConnectionsAtOnceThatDieTogether) {
  constexpr int kProcesses = 4, kLinks = 256, kCalls = 4, kAll = kProcesses * kLinks;
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 2 * kAll) GTEST_SKIP() << "needs a hard limit of " << 2 * kAll << " open files (ulimit -Hn)";
  PeerProcess peer("name=ps:0 reactors=1");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  peer.LimitFds(2 * kAll);
  {
    rpc::Client first(task(), peer.address());
    EXPECT_TRUE(Works(first));  // its reactor has made what it keeps
  }
  EXPECT_TRUE(Eventually([&] { return peer.AskNumbers("stats")["open"] == 0; }, kPatienceNs)) << peer.Ask("stats");
  int64_t rss_before = peer.RssBytes(), threads_before = peer.Threads(), fds_before = peer.Fds();
  std::vector<std::unique_ptr<PeerProcess>> clients;
  for (int i = 0; i < kProcesses; ++i) {
    clients.push_back(std::make_unique<PeerProcess>());
    ASSERT_TRUE(clients.back()->ready()) << clients.back()->first_words();
    clients.back()->LimitFds(2 * kLinks);
  }
  auto flood = [&](uint16_t method, int links, int calls) {
    for (auto& client : clients) {
      std::string command = "flood " + peer.address().ToString() + " " + std::to_string(links) + " " +
                            std::to_string(method) + " " + std::to_string(calls) + " question";
      EXPECT_EQ(client->Ask(command), "flooding");
    }
  };
  flood(kEcho, kLinks - 1, kCalls);
  flood(kHold, 1, 16);  // with calls in flight until the end
  for (auto& client : clients) {
    Numbers dones;
    EXPECT_TRUE(Eventually([&] { return (dones = client->AskNumbers("dones"))["ended"] == (kLinks - 1) * kCalls; },
                           kPatienceNs));
    EXPECT_EQ(dones["ok"], (kLinks - 1) * kCalls);
    EXPECT_EQ(dones["twice"], 0);
  }
  EXPECT_TRUE(InFlight(peer, kProcesses * 16));
  EXPECT_EQ(peer.AskNumbers("stats")["open"], kAll);
  EXPECT_EQ(peer.Threads(), threads_before);
  ExpectGrowth(peer.RssBytes() - rss_before, kAll * int64_t{64} * 1024);
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return peer.AskNumbers("stats")["open"] == 0; }, kPatienceNs)) << peer.Ask("stats");
  EXPECT_TRUE(InFlight(peer, 0));
  EXPECT_TRUE(Eventually([&] { return peer.Fds() == fds_before; })) << peer.Fds() << " instead of " << fds_before;
  EXPECT_TRUE(Works(ClientOf(peer.address())));
}

}  // namespace
}  // namespace fusewire::faults
