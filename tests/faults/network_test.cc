// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A cable that is pulled and put back, between two hosts: no end sends a goodbye, and no kernel reports that the peer
// is gone.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "faults.h"
#include "fusewire/transport/lab_test.h"

namespace fusewire::faults {
namespace {

using transport::lab::Host;
using transport::lab::Link;

class Networks : public Faults {
 protected:
  // Silence is noticed soon, on both sides.
  Networks() { options_.pipe.silent_ns_max = Within(1 * kSecondNs); }

  // Runs `what` on one host, with a cable to the peer's, or skips the test.
  void WithCable(const std::function<void()>& what) {
    here_ = Host::Make("10.9.8.1");
    there_ = Host::Make("10.9.8.2");
    if (here_ == nullptr || there_ == nullptr) {
      GTEST_SKIP() << "this user may not make network namespaces, or tunnels in them";
    }
    cable_.emplace(*here_, *there_);
    there_->Run([this] {
      std::string silent_ms = std::to_string(Within(1000));
      peer_ = std::make_unique<PeerProcess>("name=ps:0 host=0.0.0.0 silent_ms=" + silent_ms);
    });
    ASSERT_TRUE(peer_->ready()) << peer_->first_words();
    here_->Run(what);
  }
  transport::Address peer_address() const { return {"10.9.8.2", peer_->address().port}; }

  std::unique_ptr<Host> here_, there_;
  std::optional<Link> cable_;
  std::unique_ptr<PeerProcess> peer_;
};

TEST_F(Networks, APulledCable) {
  WithCable([this] {
    rpc::ClientOptions patient;
    patient.patience_ns = Within(1 * kSecondNs);
    for (bool at_our_end : {true, false}) {
      SCOPED_TRACE(at_our_end ? "pulled here" : "pulled there");
      rpc::Client& client = ClientOf(peer_address());
      ASSERT_TRUE(Works(client));
      Calls calls;
      for (int i = 0; i < 10; ++i) calls.Start(client, kHold);
      ASSERT_TRUE(InFlight(*peer_, 10));
      int64_t begin_ns = NowNs();
      ASSERT_TRUE((at_our_end ? here_ : there_)->SetUp(false));
      calls.ExpectAll(Code::kUnavailable, begin_ns, Within(1 * kSecondNs) + kToldNs);
      // A new caller waits for its whole patience.
      begin_ns = NowNs();
      Calls late;
      late.Start(ClientOf(peer_address(), patient), kEcho);
      late.ExpectAll(Code::kUnavailable, begin_ns, patient.patience_ns + kToldNs);
      // The server has noticed as well.
      EXPECT_TRUE(InFlight(*peer_, 0));
      ASSERT_TRUE((at_our_end ? here_ : there_)->SetUp(true));
      EXPECT_TRUE(Works(client));
    }
  });
}

// Our bytes arrive, but none come back.
TEST_F(Networks, ACableThatCarriesOneWay) {
  WithCable([this] {
    rpc::Client& client = ClientOf(peer_address());
    ASSERT_TRUE(Works(client));
    for (int i = 0; i < 10; ++i) calls_.Start(client, kHold);
    ASSERT_TRUE(InFlight(*peer_, 10));
    int64_t begin_ns = NowNs();
    cable_->Cut(1);
    calls_.ExpectAll(Code::kUnavailable, begin_ns, Within(1 * kSecondNs) + kToldNs);
    EXPECT_EQ(calls_.all()[0].status.phase(), "waiting for a heartbeat");
    cable_->Restore(1);
    EXPECT_TRUE(Works(client));
  });
}

// Shorter than the limit of silence: TCP sends lost bytes again, and no caller notices.
TEST_F(Networks, AShortBreakIsNotNoticed) {
  options_.pipe.silent_ns_max = kPatienceNs;
  WithCable([this] {
    rpc::Client& client = ClientOf(peer_address());
    ASSERT_TRUE(Works(client));
    ASSERT_TRUE(there_->SetUp(false));
    TimedCall& call = calls_.Start(client, kEcho);
    EXPECT_TRUE(Eventually([&] { return client.Snapshot().messages_out == 2; }));
    EXPECT_EQ(call.dones, 0);
    ASSERT_TRUE(there_->SetUp(true));
    ASSERT_TRUE(calls_.AllDone());
    EXPECT_TRUE(call.status.ok()) << call.status.ToString();
    EXPECT_EQ(client.Snapshot().connects, 1u);
  });
}

}  // namespace
}  // namespace fusewire::faults
