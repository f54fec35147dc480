// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A cable that is pulled and put back, between two network namespaces: no end sends a goodbye, and no kernel reports
// that the peer is gone. The namespaces belong to this test's thread and to its peer, and go with them.
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "faults.h"

namespace fusewire::faults {
namespace {

bool Shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

class Networks : public Faults {
 protected:
  // Silence is noticed soon, on both sides.
  Networks() { options_.pipe.silent_ns_max = Within(1 * kSecondNs); }

  // On a thread that has a network of its own, with a cable to the peer's: `what` happens there, or the test is
  // skipped.
  void WithCable(const std::function<void()>& what) {
    std::string missing;
    std::thread([this, &what, &missing] {
      missing = Lay();
      if (missing.empty()) what();
      End();  // what has threads in this network
      peer_.reset();
    }).join();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  static bool Here(const std::string& ip) { return Shell("ip " + ip); }
  bool There(const std::string& ip) { return Shell("nsenter -n -t " + std::to_string(peer_->pid()) + " ip " + ip); }
  transport::Address there() const { return {"10.9.8.2", peer_->address().port}; }

  std::unique_ptr<PeerProcess> peer_;

 private:
  // Or what is missing for it.
  std::string Lay() {
    if (unshare(CLONE_NEWNET) != 0) {
      return std::string("this user may not make network namespaces: ") + std::strerror(errno);
    }
    if (!Here("link set lo up")) return "no program ip, or it may do nothing: install iproute2";
    std::string silent_ms = std::to_string(Within(1000));
    peer_ = std::make_unique<PeerProcess>("name=ps:0 host=0.0.0.0 own_network=1 silent_ms=" + silent_ms);
    if (!peer_->ready()) return "the peer: " + peer_->first_words();
    bool laid = Here("link add cable type veth peer name plug netns " + std::to_string(peer_->pid())) &&
                Here("address add 10.9.8.1/24 dev cable") && Here("link set cable up") &&
                There("address add 10.9.8.2/24 dev plug") && There("link set plug up");
    return laid ? std::string() : "this kernel has no virtual cables, or this user may not lay one";
  }
};

TEST_F(Networks, APulledCable) {
  WithCable([this] {
    rpc::ClientOptions patient;
    patient.patience_ns = Within(1 * kSecondNs);
    for (bool at_our_end : {true, false}) {
      SCOPED_TRACE(at_our_end ? "pulled here" : "pulled there");
      rpc::Client& client = ClientOf(there());
      ASSERT_TRUE(Works(client));
      Calls calls;
      for (int i = 0; i < 10; ++i) calls.Start(client, kHold);
      ASSERT_TRUE(InFlight(*peer_, 10));
      int64_t begin_ns = NowNs();
      ASSERT_TRUE(at_our_end ? Here("link set cable down") : There("link set plug down"));
      calls.ExpectAll(Code::kUnavailable, begin_ns, Within(1 * kSecondNs) + kToldNs);
      // A new caller waits for its whole patience.
      begin_ns = NowNs();
      Calls late;
      late.Start(ClientOf(there(), patient), kEcho);
      late.ExpectAll(Code::kUnavailable, begin_ns, patient.patience_ns + kToldNs);
      // The server has noticed as well.
      EXPECT_TRUE(InFlight(*peer_, 0));
      ASSERT_TRUE(at_our_end ? Here("link set cable up") : There("link set plug up"));
      EXPECT_TRUE(Works(client));
    }
  });
}

// Our bytes arrive, but none come back.
TEST_F(Networks, ACableThatCarriesOneWay) {
  WithCable([this] {
    rpc::Client& client = ClientOf(there());
    ASSERT_TRUE(Works(client));
    for (int i = 0; i < 10; ++i) calls_.Start(client, kHold);
    ASSERT_TRUE(InFlight(*peer_, 10));
    int64_t begin_ns = NowNs();
    ASSERT_TRUE(There("route add blackhole 10.9.8.1/32"));
    calls_.ExpectAll(Code::kUnavailable, begin_ns, Within(1 * kSecondNs) + kToldNs);
    EXPECT_EQ(calls_.all()[0].status.phase(), "waiting for a heartbeat");
    ASSERT_TRUE(There("route del blackhole 10.9.8.1/32"));
    EXPECT_TRUE(Works(client));
  });
}

// Shorter than the limit of silence: TCP sends lost bytes again, and no caller notices.
TEST_F(Networks, AShortBreakIsNotNoticed) {
  options_.pipe.silent_ns_max = kPatienceNs;
  WithCable([this] {
    rpc::Client& client = ClientOf(there());
    ASSERT_TRUE(Works(client));
    ASSERT_TRUE(There("link set plug down"));
    TimedCall& call = calls_.Start(client, kEcho);
    EXPECT_TRUE(Eventually([&] { return client.Snapshot().messages_out == 2; }));
    EXPECT_EQ(call.dones, 0);
    ASSERT_TRUE(There("link set plug up"));
    ASSERT_TRUE(calls_.AllDone());
    EXPECT_TRUE(call.status.ok()) << call.status.ToString();
    EXPECT_EQ(client.Snapshot().connects, 1u);
  });
}

}  // namespace
}  // namespace fusewire::faults
