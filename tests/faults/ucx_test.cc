// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two tasks over UCX: one dies or stops in the middle of transfers, and the other is notified. If there are software
// RDMA devices at the two ends of a virtual cable (tools/rdma_vm.sh), the same over them, with lost packets and with
// the cable pulled.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "faults.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/transport/transports.h"

namespace fusewire::faults {
namespace {

bool Shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

class OverUcx : public Faults {
 protected:
  OverUcx() { options_.wire = task::TransportChoice::kUcx; }
  void SetUp() override {
    if (kThreadSanitizer)
      GTEST_SKIP() << "ThreadSanitizer can't look into libucp, whose own thread it takes for a race";
    const transport::UcxDescription ucx = transport::DescribeUcx({});
    if (!ucx.loaded) GTEST_SKIP() << ucx.why_not;
    auto has = [&ucx](const char* device) { return ucx.rdma_devices.find(device) != std::string::npos; };
    rdma_ = has("rxe0:1") && has("rxe1:1");
    setenv("UCX_TLS", rdma_ ? "rc" : "tcp", 1);
  }
  // The peer at one end of the cable, we at the other.
  void Begin(const std::string& arguments) {
    if (rdma_) setenv("UCX_NET_DEVICES", "rxe1:1", 1);
    peer_ = std::make_unique<PeerProcess>("name=ps:0 wire=ucx " + arguments);
    ASSERT_TRUE(peer_->ready()) << peer_->first_words();
    if (rdma_) setenv("UCX_NET_DEVICES", "rxe0:1", 1);
    client_ = &ClientOf(peer_->address());
    ASSERT_TRUE(Works(*client_));
    ASSERT_EQ(client_->Snapshot().wire, "ucx");
  }
  static Buffers Body(size_t bytes) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(bytes));
    for (size_t i = 0; i < bytes; ++i) body[0].bytes().data[i] = static_cast<uint8_t>(i * 7 + i / 251);
    return body;
  }
  // An echo, so many times.
  void Transfer(int times, size_t bytes) {
    for (int i = 0; i < times; ++i) {
      rpc::Client::Answer answer = client_->Ask(kEcho, std::string("x"), Body(bytes), kPatienceNs);
      ASSERT_TRUE(answer.status.ok()) << answer.status.ToString();
      ASSERT_EQ(TotalBytes(answer.body), bytes);
      Buffers sent = Body(bytes);
      size_t at = 0;
      for (const Buffer& part : answer.body) {
        const ConstBytes now = part.bytes();
        ASSERT_TRUE(std::equal(now.data, now.end(), sent[0].bytes().data + at));
        at += now.size;
      }
    }
  }

  bool rdma_ = false;
  std::unique_ptr<PeerProcess> peer_;
  rpc::Client* client_ = nullptr;
};

TEST_F(OverUcx, CarriesWhatItIsGiven) {
  Begin("reactors=2");
  Transfer(4, 3 << 20);
  Transfer(50, 1000);
}

TEST_F(OverUcx, AKillInMidTransferIsToldAtOnce) {
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Begin("");
    Calls calls;
    for (int i = 0; i < 8; ++i) {
      calls.Start(*client_, kSink, "", kForeverNs, Body(16 << 20));
      calls.Start(*client_, kProduce, std::to_string(16 << 20));
    }
    ASSERT_TRUE(Eventually([&] {
      auto now = client_->Snapshot();
      return now.bytes_out > (1 << 18) && now.bytes_in > (1 << 18);
    }));
    const int64_t killed_ns = NowNs();
    peer_->Kill();
    ASSERT_TRUE(calls.AllDone());
    EXPECT_LT(NowNs() - killed_ns, kToldNs);
    int broken = 0;
    for (const TimedCall& call : calls.all()) {
      broken += call.status.code() == Code::kUnavailable;
      EXPECT_TRUE(call.status.ok() || IsTyped(call.status));
    }
    EXPECT_GT(broken, 0);
  }
}

// It does not answer, and holds loans of ours. Silence is noticed, and we can go.
TEST_F(OverUcx, AStoppedPeerDoesNotHoldUsUp) {
  options_.pipe.silent_ns_max = Within(1 * kSecondNs);
  Begin("");
  Calls calls;
  for (int i = 0; i < 4; ++i) calls.Start(*client_, kSink, "", kForeverNs, Body(16 << 20));
  ASSERT_TRUE(Eventually([&] { return client_->Snapshot().bytes_out > (1 << 18); }));
  const int64_t stopped_ns = NowNs();
  peer_->Stop();
  ASSERT_TRUE(calls.AllDone());
  EXPECT_LT(NowNs() - stopped_ns, Within(1 * kSecondNs) + 2 * kToldNs);
  End();
  peer_->Continue();
}

// ---- RDMA devices, and a cable ----

class OverRdma : public OverUcx {
 protected:
  void SetUp() override {
    OverUcx::SetUp();
    if (IsSkipped()) return;
    if (!rdma_) GTEST_SKIP() << "no rxe0 and rxe1: tools/rdma_vm.sh makes a machine that has them";
    options_.pipe.silent_ns_max = 3 * kSecondNs;
  }
};

TEST_F(OverRdma, LostPacketsAreSentAgain) {
  // The device waits so long before it sends again; by default a second, which five packets of a hundred make minutes.
  setenv("UCX_RC_TIMEOUT", "20ms", 1);
  options_.pipe.silent_ns_max = 20 * kSecondNs;
  Begin("silent_ms=20000");
  unsetenv("UCX_RC_TIMEOUT");
  ASSERT_TRUE(Shell("tc qdisc add dev rdma0 root netem loss 5%"));
  Transfer(8, 1 << 20);
  Transfer(50, 1000);
  EXPECT_TRUE(Shell("tc qdisc delete dev rdma0 root"));
  EXPECT_EQ(client_->Snapshot().wire, "ucx");
}

TEST_F(OverRdma, APulledCableIsNoticedAndForgotten) {
  Begin("silent_ms=3000");
  Calls calls;
  for (int i = 0; i < 4; ++i) calls.Start(*client_, kSink, "", kForeverNs, Body(16 << 20));
  calls.Start(*client_, kHold);
  const int64_t pulled_ns = NowNs();
  ASSERT_TRUE(Shell("ip link set rdma0 down"));
  ASSERT_TRUE(calls.AllDone());
  EXPECT_LT(NowNs() - pulled_ns, 3 * kSecondNs + 2 * kToldNs);
  EXPECT_EQ(calls.all().back().status.code(), Code::kUnavailable);
  EXPECT_TRUE(IsTyped(calls.all().back().status)) << calls.all().back().status.ToString();
  ASSERT_TRUE(Shell("ip link set rdma0 up"));
  EXPECT_TRUE(Eventually([&] { return Works(*client_, kSecondNs); }, kPatienceNs));
  Transfer(2, 1 << 20);
}

}  // namespace
}  // namespace fusewire::faults
