// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Members of the cluster that take what others wait for: the budget for messages. Each loses its pipe within a bounded
// time, whatever it sends meanwhile, and the others are served.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "hostile.h"

namespace fusewire::attack {
namespace {

using faults::Eventually;
using faults::kPatienceNs;
using faults::TimedCall;
using testing::HasSubstr;
using wire::FrameKind;

constexpr uint16_t kTake = 1;  // takes a body
constexpr uint16_t kHold = 2;  // the same, and does not answer
constexpr uint16_t kEcho = 3;
constexpr uint64_t kBudgetBytes = 4 << 20;
constexpr uint64_t kLiarBytes = 4 << 20;
constexpr size_t kHonestBytes = 2 << 20;  // does not fit beside the liar's
constexpr uint64_t kAnswersBytes = 8 << 20;
constexpr int64_t kSilentNs = faults::Within(400 * kMillisecondNs);

class Credit : public task::OverWires {
 protected:
  void SetUp() override {
    OverWires::SetUp();
    if (IsSkipped()) return;
    SetLogLevel(LogLevel::kOff);
    victim_ = StartTask("ps:0");
    rpc::Method take;
    take.number = kTake;
    take.name = "take";
    take.handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
    rpc::Method hold;
    hold.number = kHold;
    hold.name = "hold";
    hold.handle = [this](rpc::Request request, rpc::Reply reply) {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_.emplace_back(std::move(request.body), std::move(reply));
    };
    rpc::Method echo;
    echo.number = kEcho;
    echo.name = "echo";
    echo.handle = [](rpc::Request request, rpc::Reply reply) {
      reply.Send(Status::Ok(), ConstBytes(), std::move(request.body));
    };
    std::vector<rpc::Method> methods;
    for (rpc::Method* method : {&take, &hold, &echo}) methods.push_back(std::move(*method));
    rpc::ServerOptions options;
    options.answers_bytes_max = kAnswersBytes;
    server_ = std::move(rpc::Server::Open(*victim_, {"127.0.0.1", 0}, std::move(methods), options)).value();
    liars_task_ = StartTask("worker:0");
    liar_ =
        std::make_unique<Liar>(*liars_task_, server_->address(), liars_task_->context().options(), rpc::kRpcService);
    ASSERT_TRUE(liar_->Greet());
    honest_task_ = StartTask("worker:1");
    honest_ = std::make_unique<rpc::Client>(*honest_task_, server_->address());
  }
  void TearDown() override {
    honest_.reset();
    SetLogLevel(LogLevel::kWarn);
  }

  static std::unique_ptr<task::Task> StartTask(const std::string& name) {
    task::TaskOptions options;
    options.wire = wire();
    options.pipe.name = name;
    options.pipe.silent_ns_max = kSilentNs;
    options.pipe.receive_budget_bytes = kBudgetBytes;
    return std::move(task::Task::Start(std::move(options))).value();
  }

  static Lie Control(FrameKind kind, uint64_t number) {
    Lie lie;
    lie.kind = kind;
    lie.call = number;
    return lie;
  }
  // The next call, with a name that no other has.
  Lie Call() {
    Lie lie = Control(FrameKind::kCall, wire::PackCallId({0, ++generation_}));
    lie.method = kTake;
    return lie;
  }
  uint64_t used() { return victim_->context().receive_budget().used_bytes(); }
  bool Holds(uint64_t bytes) {
    return Eventually([&] { return used() >= bytes; });
  }

  // An honest peer sends what has no room beside the liar's, while the liar sends what `trickle` does.
  void ExpectServedDespite(UniqueFunction<void()> trickle) {
    faults::Calls calls;
    Buffers body;
    body.push_back(Buffer::TryAllocate(kHonestBytes));
    const int64_t began_ns = faults::NowNs();
    const TimedCall& call = calls.Start(*honest_, kTake, "", kForeverNs, std::move(body));
    int64_t trickled_ns = 0;
    ASSERT_TRUE(Eventually([&] {
      if (liar_->closed()) return true;
      if (faults::NowNs() - trickled_ns < 10 * kMillisecondNs) return false;
      trickled_ns = faults::NowNs();
      trickle();
      return false;
    }));
    ASSERT_TRUE(calls.AllDone());
    EXPECT_TRUE(call.status.ok()) << call.status.ToString();
    // It has not been hurried, either: it had the time that a peer has.
    EXPECT_GE(call.ended_ns - began_ns, 3 * kSilentNs);
    EXPECT_LE(call.ended_ns - began_ns, 3 * kSilentNs + faults::Within(2 * kSecondNs));
    EXPECT_LE(used(), kBudgetBytes);
  }
  void ExpectToldWhy() {
    ASSERT_TRUE(liar_->goodbye().has_value());
    EXPECT_THAT(*liar_->goodbye(), HasSubstr("neither uses nor gives back"));
  }

  std::unique_ptr<task::Task> victim_, liars_task_, honest_task_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Liar> liar_;
  std::unique_ptr<rpc::Client> honest_;
  uint32_t generation_ = 0;
  std::mutex mutex_;
  std::vector<std::pair<Buffers, rpc::Reply>> held_;  // guarded by mutex_
};

TEST_P(Credit, ALoneWantOfATerabyteIsTakenBack) {
  liar_->Send(Control(FrameKind::kWant, uint64_t{1} << 40));
  ASSERT_TRUE(Holds(uint64_t{1} << 39));
  ExpectServedDespite([&] { liar_->Send(Control(FrameKind::kPing, 1)); });
  ExpectToldWhy();
}

TEST_P(Credit, HeartbeatsAndCreditFramesUseNoCredit) {
  liar_->Send(Control(FrameKind::kWant, kLiarBytes));
  ASSERT_TRUE(Holds(kLiarBytes - (256 << 10)));
  ExpectServedDespite([&] {
    for (uint64_t i = 0; i < 20; ++i) liar_->Send({Control(FrameKind::kPing, i), Control(FrameKind::kCredit, 1)});
    liar_->Send(Control(FrameKind::kReturn, 1));
  });
  ExpectToldWhy();
}

TEST_P(Credit, TinyMessagesAreTooLittleUseOfIt) {
  liar_->Send(Control(FrameKind::kWant, kLiarBytes));
  ASSERT_TRUE(Holds(kLiarBytes - (256 << 10)));
  ExpectServedDespite([&] {
    for (int i = 0; i < 4; ++i) liar_->Send(Call());
  });
  ExpectToldWhy();
}

TEST_P(Credit, ABodyThatComesByteByByteDelaysOthersOnlyBriefly) {
  liar_->Send(Control(FrameKind::kWant, kLiarBytes));
  ASSERT_TRUE(Holds(kLiarBytes - (256 << 10)));
  Lie call = Call();
  call.body_bytes = kLiarBytes - wire::kHeaderBytes;
  liar_->Send(call);
  ExpectServedDespite([&] { liar_->SendBytes("x"); });
  ExpectToldWhy();
}

// What a liar may not do, the network may: 1 MB/s, while others wait all the time.
TEST_P(Credit, ABodyOverASlowNetworkIsNotCutOff) {
  liar_->Send(Control(FrameKind::kWant, kLiarBytes));
  ASSERT_TRUE(Holds(kLiarBytes - (256 << 10)));
  Lie call = Call();
  call.body_bytes = kLiarBytes - wire::kHeaderBytes;
  std::string stream = liar_->Encode(call);
  const uint64_t chunk_bytes = liar_->peer().chunk_bytes;
  for (uint64_t left = call.body_bytes, i = 0; left > 0; ++i) {
    Lie chunk = Control(FrameKind::kChunk, 0);
    chunk.body.assign(std::min(left, chunk_bytes), 'x');
    stream += i == 0 ? chunk.body : liar_->Encode(chunk);
    left -= chunk.body.size();
  }
  faults::Calls calls;
  Buffers body;
  body.push_back(Buffer::TryAllocate(kHonestBytes));
  calls.Start(*honest_, kTake, "", kForeverNs, std::move(body));
  const int64_t began_ns = faults::NowNs();
  size_t sent = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto due = static_cast<size_t>((faults::NowNs() - began_ns) / kMicrosecondNs);  // bytes
    if (sent < std::min(due, stream.size())) liar_->SendBytes(stream.substr(sent, due - sent));
    sent = std::max(sent, std::min(due, stream.size()));
    return sent == stream.size() || liar_->closed();
  }));
  EXPECT_FALSE(liar_->closed()) << *liar_->goodbye();
  calls.ExpectAll(Code::kOk, began_ns, kPatienceNs);
}

// It wants again and again, and gets its turn each time; so do the others.
TEST_P(Credit, AReturningPeerWaitsBehindTheOthers) {
  for (int i = 0; i < 2; ++i) {
    liar_->Send(Control(FrameKind::kWant, uint64_t{1} << 40));
    ASSERT_TRUE(Holds(uint64_t{1} << 39));
    ExpectServedDespite([&] { liar_->Send(Control(FrameKind::kPing, 1)); });
    liar_ =
        std::make_unique<Liar>(*liars_task_, server_->address(), liars_task_->context().options(), rpc::kRpcService);
    ASSERT_TRUE(liar_->Greet());
  }
}

// 9 bytes of the wire for each, and 14 times as many of memory.
TEST_P(Credit, MessagesOfTinySegmentsStayWithinTheBudget) {
  constexpr uint16_t kSegments = 65535;
  Lie lie;
  lie.kind = FrameKind::kCall;
  lie.method = kHold;
  lie.segments = kSegments;
  lie.body.assign(kSegments, 'x');
  for (int i = 0; i < kSegments; ++i) lie.meta += std::string("\1\0\0\0\0\0\0\0", 8);
  const uint64_t cost = wire::kHeaderBytes + lie.meta.size() + lie.body.size();
  const auto held = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
  };
  for (uint32_t i = 0; i < 6 && !liar_->closed(); ++i) {
    const uint64_t before = used();
    liar_->Send(Control(FrameKind::kWant, (i + 1) * cost));
    // Its turn comes while there is something left; then it has to do with its standing window.
    if (!Eventually([&] { return used() > before || liar_->closed(); }, faults::Within(200 * kMillisecondNs))) break;
    lie.call = wire::PackCallId({i, 1});
    liar_->Send(lie);
    ASSERT_TRUE(Eventually([&] { return held() > i || liar_->closed(); }));
    EXPECT_GE(used(), held() * kSegments * 112);
  }
  EXPECT_GE(held(), 1u);  // one is nobody's fault
  EXPECT_LE(used(), kBudgetBytes + (17 << 20));
  const std::lock_guard<std::mutex> lock(mutex_);
  held_.clear();
}

// Each request is the caller's credit again when its answer begins; the answers are the callee's memory.
TEST_P(Credit, UnreadAnswersDoNotPileUp) {
  Budget& callers = honest_task_->context().receive_budget();
  Budget::Share other(&callers);
  ASSERT_TRUE(other.TryReserve(callers.limit_bytes()));
  faults::Calls calls;
  for (int i = 0; i < 32; ++i) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(1 << 20));
    calls.Start(*honest_, kEcho, "", kForeverNs, std::move(body));
  }
  // All but eight are told so, though none of the others is answered.
  const auto ended = [&calls] {
    return std::count_if(calls.all().begin(), calls.all().end(), [](const TimedCall& call) { return call.dones > 0; });
  };
  EXPECT_TRUE(Eventually([&] { return ended() == 24; })) << ended();
  other.Release(callers.limit_bytes());
  ASSERT_TRUE(calls.AllDone());
  int served = 0;
  for (const TimedCall& call : calls.all()) {
    served += call.status.ok() ? 1 : 0;
    if (call.status.ok()) continue;
    EXPECT_EQ(call.status.code(), Code::kOverloaded) << call.status.ToString();
    EXPECT_TRUE(faults::IsTyped(call.status));
  }
  EXPECT_EQ(served, 8);
}

FUSEWIRE_OVER_WIRES(Credit);

}  // namespace
}  // namespace fusewire::attack
