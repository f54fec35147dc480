// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Connections that do not belong here: port scans, other protocols, other clusters, versions and secrets. One log line
// each, however often they come; calls of others go on.
#include "faults.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"
#include "raw_socket.h"

namespace fusewire::faults {
namespace {

using testing::HasSubstr;

class Strangers : public Faults {
 protected:
  // A server with a call in flight.
  void Begin(const std::string& secret = "") {
    options_.pipe.cluster = "prod";
    options_.pipe.name = "worker:0";
    options_.pipe.secret = secret;
    peer_ = std::make_unique<PeerProcess>("name=ps:0 cluster=prod hello_ms=300" +
                                          (secret.empty() ? std::string() : " secret=" + secret));
    ASSERT_TRUE(peer_->ready()) << peer_->first_words();
    friend_ = &ClientOf(peer_->address());
    ASSERT_TRUE(Works(*friend_));
    held_ = &calls_.Start(*friend_, kHold);
    ASSERT_TRUE(InFlight(*peer_, 1));
  }
  // It sends this fifty times; each time it receives `answer` or nothing, and the end in time.
  void Knock(const std::string& words, const std::string& log, const std::string& answer = "") {
    SCOPED_TRACE(log);
    ASSERT_NO_FATAL_FAILURE(Begin());
    for (int i = 0; i < 50; ++i) {
      RawSocket stranger = RawSocket::Dial(peer_->address());
      ASSERT_TRUE(stranger.Send(words));
      bool ended = false;
      std::string heard = stranger.ReceiveAll(kPatienceNs, &ended);
      EXPECT_TRUE(ended);
      EXPECT_THAT(heard, HasSubstr(answer));
      EXPECT_EQ(heard.empty(), answer.empty()) << heard;
    }
    ExpectOneLine(log);
    ExpectNoDamage();
  }
  // The line comes soon after the end of the connection.
  void ExpectOneLine(const std::string& words) {
    EXPECT_TRUE(Eventually([&] { return peer_->LogLines(words) > 0; })) << peer_->Log();
    EXPECT_EQ(peer_->LogLines(words), 1) << peer_->Log();
  }
  void ExpectNoDamage() {
    ExpectOneLine("");
    EXPECT_EQ(held_->dones, 0);
    EXPECT_TRUE(Works(*friend_));
    EXPECT_EQ(friend_->Snapshot().connects, 1u);
    EXPECT_TRUE(Eventually([this] { return peer_->AskNumbers("stats")["open"] == 1; }));
  }
  static std::string HelloOf(const std::string& cluster, bool has_secret = false) {
    wire::Hello hello;
    hello.has_secret = has_secret;
    hello.incarnation = 7;
    hello.chunk_bytes = 256 * 1024;
    hello.window_bytes = 256 * 1024;
    hello.service = rpc::kRpcService;
    hello.cluster = cluster;
    return wire::EncodeHello(hello);
  }

  std::unique_ptr<PeerProcess> peer_;
  rpc::Client* friend_ = nullptr;
  TimedCall* held_ = nullptr;
};

TEST_F(Strangers, AnHttpClient) { Knock("GET / HTTP/1.1\r\nHost: ps0\r\n\r\n", "HTTP"); }

TEST_F(Strangers, ATlsClient) {
  Knock(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'r'), "TLS");
}

TEST_F(Strangers, AnSshClient) { Knock("SSH-2.0-OpenSSH_9.2\r\n", "SSH"); }

TEST_F(Strangers, NoiseOfManyKilobytes) { Knock(std::string(64 * 1024, '\xee'), "turned"); }

TEST_F(Strangers, OnlyZeros) { Knock(std::string(4096, '\0'), "turned"); }

// Says little and waits: the greeting has a limit.
TEST_F(Strangers, HalfAHello) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  std::vector<RawSocket> crowd;
  for (int i = 0; i < 50; ++i) {
    crowd.push_back(RawSocket::Dial(peer_->address()));
    ASSERT_TRUE(crowd.back().Send(HelloOf("prod").substr(0, 40)));
  }
  for (RawSocket& one : crowd) {
    bool ended = false;
    EXPECT_EQ(one.ReceiveAll(kPatienceNs, &ended), "");
    EXPECT_TRUE(ended);
  }
  ExpectOneLine("no greeting");
  ExpectNoDamage();
}

TEST_F(Strangers, APortScan) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  for (int i = 0; i < 200; ++i) {
    RawSocket scan = RawSocket::Dial(peer_->address());
    if (i % 2 == 0) scan.Reset();
  }
  EXPECT_TRUE(Eventually([this] { return peer_->AskNumbers("stats")["turned_away"] >= 200; })) << peer_->Ask("stats");
  ExpectNoDamage();
}

TEST_F(Strangers, AnotherVersionIsToldBothRanges) {
  std::string hello = HelloOf("prod");
  hello[8] = hello[10] = 99;
  Knock(hello, "version", "99");
}

TEST_F(Strangers, AnotherClusterIsToldSo) { Knock(HelloOf("test"), "cluster", "cluster"); }

// The same with whole tasks: their calls fail at once, with what is to be changed.
TEST_F(Strangers, TasksWithOtherSettingsFailAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Begin("mellon-mellon-mellon"));
  struct Wrong {
    std::string cluster, secret, words;
  };
  for (const Wrong& wrong : {Wrong{"test", "mellon-mellon-mellon", "cluster"},
                             Wrong{"prod", "sesame-sesame-sesame", "secret"}, Wrong{"prod", "", "secret"}}) {
    SCOPED_TRACE(wrong.cluster + " " + wrong.secret);
    task::TaskOptions options;
    options.pipe.cluster = wrong.cluster;
    options.pipe.secret = wrong.secret;
    options.pipe.name = "worker:1";
    auto task = task::Task::Start(std::move(options));
    ASSERT_TRUE(task.ok());
    rpc::Client client(*task.value(), peer_->address());
    Calls calls;
    int64_t begin_ns = NowNs();
    for (int i = 0; i < 10; ++i) calls.Start(client, kEcho);
    calls.ExpectAll(Code::kRefused, begin_ns, kToldNs);
    EXPECT_THAT(calls.all()[0].status.cause(), HasSubstr(wrong.words));
  }
  ExpectNoDamage();
}

// A replay of overheard bytes is refused: the proof belongs to another challenge.
TEST_F(Strangers, AGreetingThatIsReplayed) {
  ASSERT_NO_FATAL_FAILURE(Begin("mellon-mellon-mellon"));
  const std::string hello = HelloOf("prod", true);
  const auto challenge_of = [&](const RawSocket& socket) {
    EXPECT_TRUE(socket.Send(hello));
    return socket.Receive(wire::kGreetingPrefixBytes + sizeof(wire::Nonce), kPatienceNs);
  };
  RawSocket honest = RawSocket::Dial(peer_->address());
  const std::string challenge = challenge_of(honest);
  const std::string proof =
      wire::EncodeProof(wire::MakeProof("mellon-mellon-mellon", "dialer", hello + challenge, ConstBytes()));
  ASSERT_TRUE(honest.Send(proof));
  ASSERT_TRUE(Eventually([this] { return peer_->AskNumbers("stats")["open"] == 2; }));
  bool ended = false;
  RawSocket thief = RawSocket::Dial(peer_->address());
  EXPECT_NE(challenge_of(thief), challenge);
  ASSERT_TRUE(thief.Send(proof));
  EXPECT_THAT(thief.ReceiveAll(kPatienceNs, &ended), HasSubstr("secret"));
  ASSERT_TRUE(ended);
  ExpectOneLine("secret");
  EXPECT_EQ(peer_->AskNumbers("stats")["greeted"], 2);
  honest.Close();
  ExpectNoDamage();
}

// The most expensive attack without the secret: the longest greeting that is answered, and a wrong proof. It costs the
// server one signature more than the attacker, and leaves no state.
TEST_F(Strangers, CostLittleBeforeTheyProveAnything) {
  ASSERT_NO_FATAL_FAILURE(Begin("sesame-sesame-sesame"));
  constexpr int kStrangers = 300;
  wire::Hello hello;
  hello.has_secret = true;
  hello.incarnation = 7;
  hello.chunk_bytes = 256 * 1024;
  hello.window_bytes = 256 * 1024;
  hello.service = rpc::kRpcService;
  hello.cluster = "prod";
  hello.name = std::string(512, 'n');
  const std::string words = wire::EncodeHello(hello) + wire::EncodeProof(wire::Proof{});
  const int64_t fds = peer_->Fds(), threads = peer_->Threads(), rss = peer_->RssBytes(), cpu_ns = peer_->CpuNs();
  for (int i = 0; i < kStrangers; ++i) {
    RawSocket stranger = RawSocket::Dial(peer_->address());
    ASSERT_TRUE(stranger.Send(words));
    bool ended = false;
    const std::string heard = stranger.ReceiveAll(kPatienceNs, &ended);
    EXPECT_TRUE(ended);
    EXPECT_LT(heard.size(), words.size() + 1024) << "more comes back than was said";
    EXPECT_EQ(heard.find("sesame-sesame-sesame"), std::string::npos);
  }
  EXPECT_LT(peer_->CpuNs() - cpu_ns, Within(kStrangers * 2 * kMillisecondNs));
  EXPECT_TRUE(Eventually([&] { return peer_->Fds() <= fds; })) << peer_->Fds() << " of " << fds;
  EXPECT_EQ(peer_->Threads(), threads);
  ExpectGrowth(peer_->RssBytes() - rss, 4 << 20);
  ExpectNoDamage();
}

}  // namespace
}  // namespace fusewire::faults
