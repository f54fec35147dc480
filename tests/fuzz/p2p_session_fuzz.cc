// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := who:u8 op[...]      op := what:u8 argument:u8[...]
// An endpoint, and a peer that sends arbitrary messages and knows the endpoint's names. For every input: each operation
// ends once, nothing is written outside a landing or a region, unexpected messages stay within their bounds, and an
// operation that has ended with success has memory that the peer wrote, or could have written.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/p2p/liar_test.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {
namespace {

constexpr size_t kGuard = 64;
constexpr size_t kOpsMax = 40;
constexpr uint64_t kSizes[] = {0, 1, 100, 2048, 3000, 8192, 9000, 300000};

// Memory with a rim that must not be written.
struct Guarded {
  explicit Guarded(size_t size) : text(kGuard + size + kGuard, '#') {}
  Bytes bytes() { return Bytes(text.data() + kGuard, text.size() - 2 * kGuard); }
  void Check() const {
    for (size_t i = 0; i < kGuard; ++i) {
      FUSEWIRE_CHECK(text[i] == '#');
      FUSEWIRE_CHECK(text[text.size() - 1 - i] == '#');
    }
  }
  std::string text;
};

struct Posted {
  explicit Posted(size_t size) : memory(size) {}
  Guarded memory;
  std::unique_ptr<Op> op;
  int ends = 0;
};

class Session {
 public:
  Session(const uint8_t* data, size_t size) : data_(data), left_(size), world_(1, {}), region_memory_(4096) {
    // Of two ends, the one with the smaller name chooses the pipe.
    const char* name = Next() % 2 == 0 ? "a" : "z";
    home_ = world_.AddHost("m");
    EndpointOptions options;
    options.pipe.name = "m";
    options.pipe.incarnation = 5;
    options.limits.unexpected_bytes_max = 20000;
    options.limits.offers_max = 4;
    endpoint_ =
        Endpoint::Make(std::move(options), {"", 5555}, reactor::Pool::Around(home_), world_.MakeTransport("m")).value();
    region_ = Region::Open(*endpoint_, Buffer::Wrap(region_memory_.bytes(), nullptr, nullptr)).value();
    signal_ = Signal::Open(*endpoint_).value();
    peer_ = endpoint_->Expect(name).value();
    liar_ = std::make_unique<Liar>(world_, name, "m");
    world_.RunUntil([this] { return liar_->up; }, kSecondNs);
    if (name[0] == 'a') liar_->Send(wire::P2pVerb::kUse, 1, 0, {});
    world_.RunUntil([this] { return peer_->up(); }, kSecondNs);
  }
  void Run() {
    while (left_ > 0) Step();
    endpoint_->Close();
    world_.RunFor(5 * kSecondNs);
    for (const Posted& posted : posted_) {
      FUSEWIRE_CHECK(posted.ends == 1);
      posted.memory.Check();
    }
    region_memory_.Check();
    region_.reset();
    signal_.reset();
    posted_.clear();
    liar_.reset();
    endpoint_.reset();
  }

 private:
  uint8_t Next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // Mostly a valid value.
  uint64_t Number() {
    uint8_t what = Next();
    switch (what % 8) {
      case 0: return what / 8;
      case 1: return region_->ref().id;
      case 2: return signal_->ref();
      case 3: return uint64_t{1} << 32 | what / 8;  // an operation's name, and a reused one's
      case 4: return uint64_t{2} << 32 | what / 8;
      case 5: return kSizes[what / 8 % 8];
      case 6: return UINT64_MAX - what / 8;
      default: return 4096 - what / 8;
    }
  }
  void Step() {
    uint8_t what = Next();
    if (what < 160) {
      SendOne(static_cast<wire::P2pVerb>(what % wire::kP2pVerbMax + 1));
    } else if (what < 200) {
      PostOne(what % 6);
    } else if (what < 220) {
      if (!posted_.empty()) posted_[Next() % posted_.size()].op->Cancel();
    } else {
      world_.RunFor((what - 219) * kMillisecondNs);
    }
  }
  void SendOne(wire::P2pVerb verb) {
    uint64_t numbers[wire::kP2pNumbersMax] = {};
    for (size_t i = 0; i < wire::P2pNumbers(verb); ++i) numbers[i] = Number();
    uint8_t how = Next();
    std::string head(wire::kP2pNumbersMax * sizeof(uint64_t), '\0');
    head.resize(wire::EncodeP2p(verb, numbers, Bytes(head.data(), head.size())));
    uint64_t call = Number() & ~wire::kP2pMine;
    if ((how & 1) != 0) call |= wire::kP2pMine;
    uint64_t bytes = kSizes[how / 2 % 8];
    bool in_head = (how & 16) != 0 && bytes <= 3000;
    if (in_head) head += std::string(static_cast<size_t>(bytes), '!');
    uint32_t aux = (how & 32) == 0 ? 0 : (how & 64) != 0 ? 1 : wire::kP2pConfirmEager;
    liar_->SendRaw(static_cast<uint16_t>(verb), call, aux, head, in_head ? 0 : static_cast<size_t>(bytes));
  }
  void PostOne(int kind) {
    if (posted_.size() >= kOpsMax) return;
    uint8_t how = Next();
    Posted& posted = posted_.emplace_back(static_cast<size_t>(kSizes[how % 8]));
    Bytes memory = posted.memory.bytes();
    uint64_t tag = how / 8 % 4;
    RegionRef ref{uint64_t{1} << 32, 1 << 20};
    switch (kind) {
      case 0: posted.op = std::make_unique<SendOp>(*endpoint_, *peer_, tag, memory); break;
      case 1: posted.op = std::make_unique<PutOp>(*endpoint_, *peer_, ref, tag, memory); break;
      case 2: posted.op = std::make_unique<GetOp>(*endpoint_, *peer_, ref, tag, memory); break;
      case 3: posted.op = std::make_unique<AwaitOp>(*endpoint_, *signal_, tag * 100); break;
      default: posted.op = std::make_unique<ReceiveOp>(*endpoint_, kind == 4 ? nullptr : peer_, tag, memory); break;
    }
    posted.op->then = [&posted] { ++posted.ends; };
    posted.op->timeout_ns = how < 128 ? 0 : 3 * kMillisecondNs;
    posted.op->Post();
  }

  const uint8_t* data_;
  size_t left_;
  transport::LoopbackWorld world_;
  reactor::Reactor* home_ = nullptr;
  Guarded region_memory_;
  std::deque<Posted> posted_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<Signal> signal_;
  Peer* peer_ = nullptr;
  std::unique_ptr<Liar> liar_;
};

}  // namespace
}  // namespace fusewire::p2p

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fusewire::SetLogSink([](fusewire::LogLevel, const char*, void*) {}, nullptr);
  if (size > 2000) return 0;
  fusewire::p2p::Session(data, size).Run();
  return 0;
}
