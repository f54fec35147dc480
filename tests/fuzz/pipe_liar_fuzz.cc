// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := chunk:u8 window:u8 op[...]      op := what:u8 argument:u8[...]
// A pipe, and a peer that greets and then sends frames with correct checks and wrong numbers: kinds, lengths, tables of
// segments, calls, credit, sequence, flags. The pipe's own side sends, cancels, consumes and waits meanwhile. For every
// input: each Done runs once, OnClosed runs once, no byte is written outside a landing, and the held bytes stay within
// credit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"
#include "op_bytes.h"

namespace fusewire::pipe {
namespace {

constexpr size_t kOpsMax = 80;
constexpr uint64_t kWindowBytes = 16 * 1024, kBudgetBytes = 64 * 1024, kBodyBytesMax = 128 * 1024;
constexpr uint64_t kNumbers[] = {0,          1,          2,         3,         100,           4095,
                                 4096,       4097,       16 * 1024, 64 * 1024, kBodyBytesMax, kBodyBytesMax + 1,
                                 1ULL << 32, 1ULL << 40, INT64_MAX, UINT64_MAX};

ManualClock* TheClock() {
  static ManualClock clock;
  return &clock;
}

reactor::Reactor& Home() {
  static const std::unique_ptr<reactor::Reactor> home = reactor::Reactor::MakeManual(TheClock());
  return *home;
}

// The pipe's output is discarded, at once or when the input allows it.
class Wire final : public transport::Connection {
 public:
  Wire() : tell_closed_([this] { handler_->OnClosed(why_); }) {}
  void Start(transport::ConnectionHandler* handler) override { handler_ = handler; }
  void Write(const ConstBytes* parts, size_t count) override {
    size_t offered = 0;
    for (size_t i = 0; i < count; ++i) offered += parts[i].size;
    if (closed_) return;
    if (blocked_) {
      waiting_ = true;
      return;
    }
    handler_->OnWritten(offered);
  }
  void Close(Status why) override {
    if (std::exchange(closed_, true)) return;
    why_ = std::move(why);
    Home().Arm(&tell_closed_, 0);
  }
  const std::string& peer_address() const override { return address_; }
  const char* wire() const override { return "memory"; }

  void Block(bool blocked) {
    blocked_ = blocked;
    if (!blocked && std::exchange(waiting_, false) && !closed_) handler_->OnWritten(0);
  }
  // As a connection does; memory of its own for each look, so that a sanitizer finds who keeps it.
  void Feed(ConstBytes bytes) {
    while (!bytes.empty() && !closed_) {
      Bytes parts[transport::kLandingPartsMax];
      const size_t count = handler_->Landing(parts, transport::kLandingPartsMax);
      const size_t ahead_max = handler_->LookAhead();
      size_t landed = 0;
      for (size_t i = 0; i < count && !bytes.empty(); ++i) {
        const size_t size = std::min(parts[i].size, bytes.size);
        CopyBytes(parts[i].Sub(0, size), bytes.Sub(0, size));
        bytes = bytes.From(size);
        landed += size;
      }
      const std::vector<uint8_t> ahead(bytes.data, bytes.data + std::min(ahead_max, bytes.size));
      bytes = bytes.From(ahead.size());
      FUSEWIRE_CHECK(landed + ahead.size() > 0);
      if (landed > 0) handler_->OnLanded(landed);
      if (!ahead.empty() && !closed_) handler_->OnBytes(ConstBytes(ahead.data(), ahead.size()));
    }
  }

 private:
  const std::string address_ = "liar:1";
  transport::ConnectionHandler* handler_ = nullptr;
  bool blocked_ = false, waiting_ = false, closed_ = false;
  Status why_;
  reactor::Timer tell_closed_;
};

class Victim final : public Receiver {
 public:
  explicit Victim(const Options& options) : context_(options) {
    auto wire = std::make_unique<Wire>();
    wire_ = wire.get();
    pipe_ = std::make_unique<Pipe>(context_, Home(), std::move(wire), Role::kAcceptor, 1, this);
    pipe_->Start();
  }
  FrameHandler* OnOpen(const PeerInfo&) override {
    FUSEWIRE_CHECK(opened++ == 0);
    return this;
  }
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    FUSEWIRE_CHECK(closed == 0);
    FUSEWIRE_CHECK(header.body_bytes <= kBodyBytesMax);
    if (header.method % 8 == 7) return Status::Corrupt("the receiver refuses it");
    if (header.call % 4 == 1) return Landing::Discard();
    if (header.call % 4 == 2 && header.body_bytes <= kViewBytesMax) return Landing::View();
    FUSEWIRE_CHECK(places_.size() < 8);
    places_.push_back({header.sequence, std::vector<uint8_t>(header.body_bytes), {}});
    Place& place = places_.back();
    place.part = Bytes(place.memory.data(), place.memory.size());
    return Landing::Into(&place.part, 1);
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes, ConstBytes) override {
    FUSEWIRE_CHECK(closed == 0);
    std::erase_if(places_, [&header](const Place& place) { return place.sequence == header.sequence; });
    held_.push_back(header);
    return Status::Ok();
  }
  void OnCancel(uint64_t) override { FUSEWIRE_CHECK(closed == 0); }
  void OnClosed(Status status) override {
    FUSEWIRE_CHECK(closed++ == 0);
    FUSEWIRE_CHECK(!status.ok());
    places_.clear();
  }

  void Send(size_t bytes, bool express) {
    Message message;
    message.call = dones_.size();
    message.express = express;
    if (bytes > 0) {
      message.body.push_back(Buffer::TryAllocate(bytes));
      std::fill_n(message.body[0].bytes().data, bytes, uint8_t{'b'});
    }
    dones_.push_back(0);
    int* dones = &dones_.back();
    pipe_->Send(std::move(message), [dones](Status) { ++*dones; });
  }
  void Consume() {
    if (held_.empty() || closed > 0) return;
    pipe_->Consume(held_.front());
    held_.pop_front();
  }
  void CheckHeld() const {
    uint64_t held = 0;
    for (const wire::FrameHeader& header : held_) held += header.body_bytes;
    FUSEWIRE_CHECK(held <= kWindowBytes + kBudgetBytes + kBodyBytesMax);
  }
  void CheckDones() const {
    for (const int dones : dones_) FUSEWIRE_CHECK(dones == 1);
  }

  Pipe& pipe() { return *pipe_; }
  Wire& wire() { return *wire_; }
  size_t sent() const { return dones_.size(); }
  int opened = 0, closed = 0;

 private:
  struct Place {
    uint32_t sequence;
    std::vector<uint8_t> memory;
    Bytes part;
  };
  PipeContext context_;
  std::deque<int> dones_;
  std::deque<wire::FrameHeader> held_;
  std::deque<Place> places_;
  Wire* wire_ = nullptr;
  std::unique_ptr<Pipe> pipe_;  // goes first
};

Options VictimsOptions() {
  Options options;
  options.name = "ps:0";
  options.incarnation = 7;
  options.limits.meta_bytes_max = 4096;
  options.limits.body_bytes_max = kBodyBytesMax;
  options.limits.segments_max = 16;
  options.limits.chunk_bytes_max = 16 * 1024;
  options.window_bytes = kWindowBytes;
  options.receive_budget_bytes = kBudgetBytes;
  options.queued_bytes_max = 64 * 1024;
  options.silent_ns_max = kSecondNs;
  options.goodbye_ns_max = 100 * kMillisecondNs;
  return options;
}

class Session {
 public:
  explicit Session(OpBytes* in) : in_(*in), script_(4096) {
    wire::Hello hello;
    hello.incarnation = 9;
    hello.chunk_bytes = std::max(static_cast<uint32_t>(kNumbers[in_.Next() % 16]), wire::kChunkBytesMin);
    hello.window_bytes = kNumbers[in_.Next() % 16] % wire::kWindowBytesMax;
    hello.service = 1;
    hello.cluster = "default";
    hello.name = "liar";
    const std::string greeting = wire::EncodeHello(hello);
    Home().Run([&] {
      victim_ = std::make_unique<Victim>(VictimsOptions());
      victim_->wire().Feed(greeting);
    });
    chunk_bytes_ = std::min<uint64_t>(hello.chunk_bytes, 16 * 1024);
  }

  void Run() {
    for (size_t ops = 0; !in_.empty() && ops < kOpsMax; ++ops) {
      const uint8_t what = in_.Next();
      Home().Run([this, what] { Step(what); });
      Home().RunManually();
      if (victim_->closed == 0) victim_->CheckHeld();
    }
    Home().Run([this] {
      victim_->wire().Block(false);
      victim_->pipe().Close(Status::Cancelled("the end"));
    });
    for (int i = 0; i < 3; ++i) {
      TheClock()->Advance(100 * kMillisecondNs);
      Home().RunManually();
    }
    FUSEWIRE_CHECK(victim_->closed == 1);
    victim_->CheckDones();
    Home().Run([this] { victim_.reset(); });
  }

 private:
  void Step(uint8_t what) {
    if (victim_->closed > 0) return;
    switch (what % 16) {
      case 0: return victim_->Send(static_cast<size_t>(in_.OneOf(kNumbers) % 100000), (what & 16) != 0);
      case 1: return victim_->Consume();
      case 2: return victim_->pipe().Cancel(victim_->sent() - in_.Next() % 4);
      case 3: return victim_->wire().Block((what & 16) != 0);
      case 4: return TheClock()->Advance(in_.Next() * 2 * kMillisecondNs);
      case 5: return SayControl();
      case 6: return SayOdd();
      case 7: return SayChunk();
      default: return SayMessage();
    }
  }
  void Say(const std::string& frame) { victim_->wire().Feed(frame); }
  void SayControl() {
    constexpr wire::FrameKind kKinds[] = {wire::FrameKind::kCredit, wire::FrameKind::kWant,   wire::FrameKind::kReturn,
                                          wire::FrameKind::kRecall, wire::FrameKind::kPing,   wire::FrameKind::kPong,
                                          wire::FrameKind::kCancel, wire::FrameKind::kGoodbye};
    const wire::FrameKind kind = in_.OneOf(kKinds);
    const uint8_t aux = kind == wire::FrameKind::kGoodbye ? in_.Next() : 0;
    Say(script_.Control(kind, in_.OneOf(kNumbers), aux, kind == wire::FrameKind::kGoodbye ? in_.Text(20) : ""));
  }
  // Any header at all; its check is right.
  void SayOdd() {
    wire::FrameHeader header;
    header.kind = static_cast<wire::FrameKind>(in_.Next());
    header.method = in_.Next();
    header.call = in_.OneOf(kNumbers);
    header.aux = in_.Next();
    header.segments = in_.Next();
    header.body_bytes = in_.OneOf(kNumbers);
    const uint8_t how = in_.Next();
    if (how % 4 == 0) script_.sequence += in_.Next();
    std::string frame = script_.Frame(header, in_.Text(80));
    if (how % 4 == 1) frame[in_.Next() % frame.size()] ^= static_cast<char>(how / 4);
    Say(frame + in_.Text(200));
  }
  void SayChunk() {
    const uint64_t wanted = in_.OneOf(kNumbers);
    uint64_t bytes = std::min<uint64_t>(chunk_bytes_, left_);
    if (wanted % 4 != 0 && wanted != UINT64_MAX) bytes = wanted;
    left_ -= std::min(left_, bytes);
    Say(script_.Chunk(bytes) + std::string(std::min<uint64_t>(bytes, 64 * 1024), 'c'));
  }
  // A correct message, except for lengths from the input.
  void SayMessage() {
    const uint8_t how = in_.Next();
    const uint8_t count = how % 4;
    wire::FrameHeader header;
    header.kind = static_cast<wire::FrameKind>(1 + how / 4 % 4);
    header.method = in_.Next();
    header.call = in_.Next() % 16;
    header.segments = count;
    std::string table(wire::SegmentTableBytes(count), 0);
    for (uint8_t i = 0; i < count; ++i) {
      const uint64_t bytes = in_.OneOf(kNumbers);
      header.body_bytes += bytes;
      if (!table.empty()) wire::EncodeSegmentBytes(bytes, i, Bytes(table.data(), table.size()));
    }
    if ((how & 64) != 0) header.body_bytes += in_.Next() - 1;
    const uint64_t first = std::min(header.body_bytes, chunk_bytes_);
    left_ = header.body_bytes > chunk_bytes_ ? header.body_bytes - chunk_bytes_ : left_;
    Say(script_.Frame(header, table + in_.Text(20)) + std::string(std::min<uint64_t>(first, 64 * 1024), 'm'));
  }

  OpBytes& in_;
  FrameScript script_;
  uint64_t chunk_bytes_ = 4096, left_ = 0;
  std::unique_ptr<Victim> victim_;
};

}  // namespace
}  // namespace fusewire::pipe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fusewire::SetLogSink([](fusewire::LogLevel, const char*, void*) {}, nullptr);
  if (size > 2000) return 0;
  fusewire::OpBytes in(data, size);
  fusewire::pipe::Session(&in).Run();
  return 0;
}
