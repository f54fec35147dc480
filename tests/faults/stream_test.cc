// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Connections that end in one direction, peers that are silent, do not read, or are slow.
#include "fault_proxy.h"
#include "faults.h"
#include "raw_socket.h"

namespace fusewire::faults {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class Streams : public Faults {
 protected:
  // A client that has calls in flight through a proxy.
  void Begin(const std::string& arguments = "name=ps:0") {
    peer_ = std::make_unique<PeerProcess>(arguments);
    ASSERT_TRUE(peer_->ready()) << peer_->first_words();
    proxy_ = std::make_unique<FaultProxy>(peer_->address());
    client_ = &ClientOf(proxy_->address());
    ASSERT_TRUE(Works(*client_));
    for (int i = 0; i < 20; ++i) calls_.Start(*client_, kHold);
    ASSERT_TRUE(InFlight(*peer_, 20));
  }
  // They end at once, and the next one finds its way.
  void ExpectBroken(int64_t since_ns) {
    calls_.ExpectAll(Code::kUnavailable, since_ns, kToldNs);
    EXPECT_EQ(calls_.all()[0].status.phase(), "reading");
    EXPECT_TRUE(InFlight(*peer_, 0));
  }

  std::unique_ptr<PeerProcess> peer_;
  std::unique_ptr<FaultProxy> proxy_;
  rpc::Client* client_ = nullptr;
};

TEST_F(Streams, ThePeersHalfIsClosed) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  int64_t begin_ns = NowNs();
  proxy_->HalfClose(kDown);
  ExpectBroken(begin_ns);
}

TEST_F(Streams, OurHalfIsClosed) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  int64_t begin_ns = NowNs();
  proxy_->HalfClose(kUp);
  ExpectBroken(begin_ns);
}

TEST_F(Streams, AResetEndsEveryCallAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  int64_t begin_ns = NowNs();
  proxy_->Reset();
  ExpectBroken(begin_ns);
  EXPECT_THAT(calls_.all()[0].status.cause(), AnyOf(HasSubstr("reset"), HasSubstr("closed")));
  EXPECT_TRUE(Works(*client_));
  EXPECT_EQ(client_->Snapshot().connects, 2u);
}

// The kernel accepts for a listener whose process does not.
TEST_F(Streams, APeerThatSaysNothing) {
  RawSocket silent = RawSocket::Listen(OwnHost());
  options_.pipe.hello_ns_max = 200 * kMillisecondNs;
  rpc::ClientOptions patient;
  patient.patience_ns = 700 * kMillisecondNs;
  rpc::Client& client = ClientOf(silent.address(), patient);
  int64_t begin_ns = NowNs();
  TimedCall& hurried = calls_.Start(client, kEcho, "", 100 * kMillisecondNs);
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_EQ(hurried.status.code(), Code::kTimeout);
  EXPECT_TRUE(IsTyped(hurried.status));
  EXPECT_LE(hurried.ended_ns - begin_ns, 100 * kMillisecondNs + kToldNs);
  begin_ns = NowNs();
  TimedCall& waiting = calls_.Start(client, kEcho);
  ASSERT_TRUE(calls_.AllDone());
  EXPECT_EQ(waiting.status.code(), Code::kUnavailable);
  EXPECT_TRUE(IsTyped(waiting.status));
  EXPECT_THAT(waiting.status.cause(), HasSubstr("no greeting"));
  EXPECT_LE(waiting.ended_ns - begin_ns, patient.patience_ns + kToldNs);
  // Without patience the first failure is the answer.
  rpc::ClientOptions hasty;
  hasty.patience_ns = 0;
  rpc::Client::Answer answer = ClientOf(silent.address(), hasty).Ask(kEcho, ConstBytes());
  EXPECT_EQ(answer.status.code(), Code::kTimeout);
  EXPECT_EQ(answer.status.phase(), "waiting for the peer's welcome");
  EXPECT_TRUE(IsTyped(answer.status));
}

// Its kernel takes some, it takes nothing: what we keep for it is bounded, then asking more is refused at once.
TEST_F(Streams, APeerThatNeverReads) {
  options_.pipe.queued_bytes_max = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(Begin());
  proxy_->Hold(kUp, true);
  int64_t before = OwnRssBytes();
  Calls more;
  const std::string head(1000, 'h');
  const int count = 20000;
  for (int i = 0; i < count; ++i) more.Start(*client_, kEcho, head, kForeverNs);
  auto overloaded = [&more] {
    int sum = 0;
    for (TimedCall& call : more.all()) sum += call.dones > 0;
    return sum;
  };
  // 1 MiB of ours, and what the sockets on the way take.
  EXPECT_TRUE(Eventually([&] { return overloaded() > count / 2; })) << overloaded();
  for (TimedCall& call : more.all()) {
    if (call.dones == 0) continue;
    ASSERT_EQ(call.status.code(), Code::kOverloaded) << call.status.ToString();
    ASSERT_TRUE(IsTyped(call.status));
  }
  // The memory of the calls themselves is the test's: a kilobyte each and their heads.
  ExpectGrowth(OwnRssBytes() - before, count * int64_t{2500} + (24 << 20));
  proxy_->Hold(kUp, false);
  EXPECT_TRUE(more.AllDone());
  EXPECT_TRUE(Works(*client_));
  EXPECT_EQ(client_->Snapshot().connects, 1u);
}

// The same at a server: answers that nobody takes.
TEST_F(Streams, ACallerThatNeverReads) {
  ASSERT_NO_FATAL_FAILURE(Begin("name=ps:0 queued_bytes=1048576 window_bytes=100000000"));
  proxy_->Hold(kDown, true);
  int64_t before = peer_->RssBytes();
  Calls more;
  const std::string head(1000, 'h');
  const int count = 40000;
  for (int i = 0; i < count; ++i) more.Start(*client_, kEcho, head, kForeverNs);
  // The window is large enough for all the questions, and their answers find no room.
  EXPECT_TRUE(Eventually([&] {
    Numbers stats = peer_->AskNumbers("stats");
    return stats["runs"] >= count || stats["open"] == 0;
  })) << peer_->Ask("stats");
  ExpectGrowth(peer_->RssBytes() - before, 16 << 20);
  // Others are served meanwhile.
  EXPECT_TRUE(Works(ClientOf(peer_->address())));
  proxy_->Hold(kDown, false);
  ASSERT_TRUE(more.AllDone());
  int failed = 0;
  for (TimedCall& call : more.all()) {
    EXPECT_TRUE(call.status.ok() || IsTyped(call.status));
    failed += !call.status.ok();
  }
  EXPECT_GT(failed, 0);
  EXPECT_TRUE(Eventually([this] { return bool(Works(*client_)); }));
}

// A few bytes a second: the peer sends heartbeats, but is too slow to be of use. Deadlines hold, and others do not
// notice.
TEST_F(Streams, APeerThatReadsByteByByte) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  proxy_->Trickle(kUp);
  int64_t before = OwnRssBytes();
  int64_t begin_ns = NowNs();
  Calls slow;
  for (int i = 0; i < 50; ++i) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(1 << 20));
    slow.Start(*client_, kSink, "", Within(500 * kMillisecondNs), std::move(body));
  }
  rpc::Client& other = ClientOf(peer_->address());
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Works(other, kToldNs));
  slow.ExpectAll(Code::kTimeout, begin_ns, Within(500 * kMillisecondNs) + kToldNs);
  ExpectGrowth(OwnRssBytes() - before, 32 << 20);
}

TEST_F(Streams, APeerThatWritesByteByByte) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  proxy_->Trickle(kDown);
  int64_t before = peer_->RssBytes();
  int64_t begin_ns = NowNs();
  Calls slow;
  for (int i = 0; i < 50; ++i) slow.Start(*client_, kProduce, "1000000", Within(500 * kMillisecondNs));
  rpc::Client& other = ClientOf(peer_->address());
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Works(other, kToldNs));
  slow.ExpectAll(Code::kTimeout, begin_ns, Within(500 * kMillisecondNs) + kToldNs);
  // The cancelled requests are released there, except for those that wait behind the one that is being sent.
  ExpectGrowth(peer_->RssBytes() - before, 100 << 20);
}

// A hello that comes byte by byte, and many that never come, delay no other connection.
TEST_F(Streams, GreetingsThatTakeForEver) {
  peer_ = std::make_unique<PeerProcess>("name=ps:0 hello_ms=500");
  ASSERT_TRUE(peer_->ready()) << peer_->first_words();
  proxy_ = std::make_unique<FaultProxy>(peer_->address());
  proxy_->Trickle(kUp);
  std::vector<RawSocket> mute;
  for (int i = 0; i < 200; ++i) mute.push_back(RawSocket::Dial(peer_->address()));
  options_.pipe.hello_ns_max = Within(5 * kSecondNs);
  rpc::ClientOptions patient;
  patient.patience_ns = 700 * kMillisecondNs;
  rpc::Client& client = ClientOf(proxy_->address(), patient);
  int64_t begin_ns = NowNs();
  TimedCall& call = calls_.Start(client, kEcho);
  EXPECT_TRUE(Works(ClientOf(peer_->address()), kToldNs));
  calls_.ExpectAll(Code::kUnavailable, begin_ns, patient.patience_ns + kToldNs);
  EXPECT_TRUE(IsTyped(call.status));
  EXPECT_TRUE(Eventually([&] { return peer_->AskNumbers("stats")["turned_away"] >= 201; })) << peer_->Ask("stats");
  EXPECT_TRUE(Eventually([this] { return peer_->LogLines("turned") >= 1; }));
  EXPECT_LE(peer_->LogLines("turned"), 2);
}

}  // namespace
}  // namespace fusewire::faults
