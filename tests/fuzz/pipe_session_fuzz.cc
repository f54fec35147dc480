// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := how:u8 op[...]      op := what:u8 [argument:u8]
//   how: bit 0: a secret; bits 1-2 the client's chunk; bits 3-4 the server's window; bit 5: a small budget.
// Two pipes on one connection in memory. The ops send, deliver, consume, cancel, close, let time pass, and mutate, drop
// or double bytes on their way from the client to the server. Whatever they do: each Done comes once, OnClosed once at
// the most, memory stays within the limits, no head arrives that was not sent, in the order in which it was sent, and
// no body either unless the input mutated something. If it did not, everything arrives.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/window.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {
namespace {

constexpr size_t kLineBytesMax = 64 * 1024;  // on the way in one direction

ManualClock* TheClock() {
  static ManualClock clock;
  return &clock;
}

// One for all inputs: making a reactor looks at the machine's processors, which takes longer than a whole session.
reactor::Reactor& Home() {
  static const std::unique_ptr<reactor::Reactor> home = reactor::Reactor::MakeManual(TheClock());
  return *home;
}

// One end of a connection in memory.
class End final : public transport::Connection {
 public:
  explicit End(const char* peer) : peer_address_(peer), tell_closed_([this] { handler_->OnClosed(why_); }) {}
  ~End() override {
    if (other != nullptr) {
      other->other = nullptr;
      other->eof_ = true;
    }
  }

  End* other = nullptr;
  std::string line;    // what this end has written
  size_t read_at = 0;  // of it, what the other end has read
  size_t unread() const { return line.size() - read_at; }

  void Start(transport::ConnectionHandler* handler) override { handler_ = handler; }
  void Write(const ConstBytes* parts, size_t count) override {
    FUSEWIRE_CHECK(!waiting_);
    if (closed_) return;
    size_t room = kLineBytesMax - std::min(unread(), kLineBytesMax);
    if (room == 0) {
      waiting_ = true;
      return;
    }
    size_t offered = 0, taken = 0;
    for (size_t i = 0; i < count; ++i) {
      FUSEWIRE_CHECK(parts[i].size > 0);
      offered += parts[i].size;
      size_t size = std::min(parts[i].size, room - taken);
      line.append(reinterpret_cast<const char*>(parts[i].data), size);
      taken += size;
    }
    FUSEWIRE_CHECK(offered > 0);
    handler_->OnWritten(taken);
  }
  void Close(Status why) override {
    if (closed_) return;
    closed_ = true;
    why_ = std::move(why);
    Home().Arm(&tell_closed_, 0);
    if (other != nullptr) other->eof_ = true;
  }
  const std::string& peer_address() const override { return peer_address_; }
  const char* wire() const override { return "memory"; }

  // Reads up to this much of what the other end wrote, at home.
  void Read(size_t bytes) {
    if (other == nullptr || other->unread() == 0) {
      if (eof_) Close(Status::Unavailable("the peer closed the connection").Peer(peer_address_).Next("look at it"));
      return;
    }
    for (bytes = std::min(bytes, other->unread()); bytes > 0 && !closed_;) bytes -= ReadOnce(bytes);
    if (other == nullptr || !other->waiting_ || other->closed_ || other->unread() >= kLineBytesMax) return;
    other->waiting_ = false;
    other->handler_->OnWritten(0);
  }

 private:
  size_t ReadOnce(size_t bytes) {
    Bytes parts[transport::kLandingPartsMax];
    size_t count = handler_->Landing(parts, transport::kLandingPartsMax);
    size_t look_ahead = handler_->LookAhead();
    const char* from = other->line.data() + other->read_at;
    size_t landed = 0;
    for (size_t i = 0; i < count && landed < bytes; ++i) {
      size_t size = std::min(parts[i].size, bytes - landed);
      std::copy_n(from + landed, size, reinterpret_cast<char*>(parts[i].data));
      landed += size;
    }
    size_t seen = std::min(look_ahead, bytes - landed);
    std::vector<uint8_t> ahead(from + landed, from + landed + seen);
    other->read_at += landed + seen;
    if (other->unread() == 0) {
      other->line.clear();
      other->read_at = 0;
    }
    FUSEWIRE_CHECK(landed + seen > 0);
    if (landed > 0) handler_->OnLanded(landed);
    if (seen > 0 && !closed_) handler_->OnBytes(ConstBytes(ahead.data(), ahead.size()));
    return landed + seen;
  }

  const std::string peer_address_;
  transport::ConnectionHandler* handler_ = nullptr;
  bool waiting_ = false, closed_ = false, eof_ = false;
  Status why_;
  reactor::Timer tell_closed_;
};

struct Sent {
  wire::FrameKind kind;
  uint64_t call;
  std::string head, body;
  bool express;
  bool taken_back = false;
  int dones = 0;
  bool arrived = false;
};

// One task of the session: its pipe, what it sent and what it heard.
class Party final : public Receiver {
 public:
  Party(Role role, const Options& options, std::unique_ptr<End> end)
      : context_(options), end_(end.get()), pipe_(context_, Home(), std::move(end), role, 1, this) {}

  void Meet(Party* peer) {
    peer_ = peer;
    pipe_.Start();
  }

  void Send(size_t bytes, bool express) {
    auto call = static_cast<uint64_t>(sent_.size());
    auto kind = static_cast<wire::FrameKind>(1 + call % 4);
    auto letter = static_cast<char>('a' + call % 26);
    sent_.push_back({kind, call, std::string(bytes % 50, letter), std::string(bytes, letter), express});
    Sent* sent = &sent_.back();
    Message message;
    message.kind = sent->kind;
    message.call = sent->call;
    message.method = express ? 1 : 0;
    message.head = sent->head;
    message.express = express;
    // In two segments; they stay where they are until the end.
    Bytes body(sent->body.data(), bytes);
    if (bytes > 0) message.body.push_back(Buffer::Wrap(body.Sub(0, bytes / 3), nullptr, nullptr));
    if (bytes > 0) message.body.push_back(Buffer::Wrap(body.From(bytes / 3), nullptr, nullptr));
    pipe_.Send(std::move(message), [sent](Status status) {
      ++sent->dones;
      sent->taken_back = !status.ok();  // or refused: it will not arrive, at least not as a whole
    });
  }
  void Cancel(uint8_t back) {
    if (back < sent_.size()) pipe_.Cancel(sent_.size() - 1 - back);
  }
  void Consume(size_t count) {
    for (; count > 0 && !held_.empty(); --count) {
      pipe_.Consume(held_.front());
      held_.pop_front();
    }
  }

  // Bytes that were altered on their way.
  void SetBent() { mutated_ = true; }
  bool mutated() const { return mutated_; }
  bool opened() const { return opened_ > 0; }
  int closed() const { return closed_; }
  // It ended because the input let too little of what the two sent arrive for too long.
  bool is_silence() const { return is_silence_; }
  Pipe& pipe() { return pipe_; }
  End& end() { return *end_; }
  bool all_arrived() const {
    return std::all_of(sent_.begin(), sent_.end(), [](const Sent& sent) { return sent.arrived || sent.taken_back; });
  }
  void CheckDones() const {
    for (const Sent& sent : sent_) FUSEWIRE_CHECK(sent.dones == 1);
  }
  void CheckLimits() const {
    FUSEWIRE_CHECK(end_->unread() <= 2 * kLineBytesMax);
    uint64_t allowed = context_.options().window_bytes + pipe_.receive_window().reserved_bytes();
    FUSEWIRE_CHECK(closed_ > 0 || pipe_.receive_window().unconsumed_bytes() <= allowed);
    FUSEWIRE_CHECK(places_.size() <= 2);
  }

  FrameHandler* OnOpen(const PeerInfo&) override {
    FUSEWIRE_CHECK(opened_++ == 0);
    return this;
  }
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    FUSEWIRE_CHECK(opened_ == 1);
    FUSEWIRE_CHECK(closed_ == 0);
    FUSEWIRE_CHECK(header.body_bytes <= context_.options().limits.body_bytes_max);
    if (header.call % 5 == 1) return Landing::Discard();
    if (header.call % 5 == 2 && header.body_bytes <= kViewBytesMax) return Landing::View();
    Place& place = places_[header.sequence];
    place.memory.assign(header.body_bytes, '#');
    place.part = Bytes(place.memory.data(), place.memory.size());
    return Landing::Into(&place.part, 1);
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override {
    FUSEWIRE_CHECK(closed_ == 0);
    held_.push_back(header);
    std::string body = view.ToString();
    auto place = places_.find(header.sequence);
    if (place != places_.end()) {
      body = std::move(place->second.memory);
      places_.erase(place);
    }
    bool discarded = header.call % 5 == 1;
    peer_->OnArrived(header, wire::HeadOf(header, meta), mutated_ || discarded ? nullptr : &body);
    return Status::Ok();
  }
  void OnCancel(uint64_t) override { FUSEWIRE_CHECK(closed_ == 0); }
  void OnClosed(Status status) override {
    FUSEWIRE_CHECK(closed_++ == 0);
    FUSEWIRE_CHECK(!status.ok());
    FUSEWIRE_CHECK(!status.peer().empty());
    for (const char* words : {"silent", "no greeting", "neither uses nor gives back", "is never complete"}) {
      is_silence_ |= status.cause().find(words) != std::string::npos;
    }
    places_.clear();
  }

 private:
  struct Place {
    std::string memory;
    Bytes part;
  };

  // The other side has got a message of ours: it must be the next of its sort.
  void OnArrived(const wire::FrameHeader& header, ConstBytes head, const std::string* body) {
    bool express = header.method == 1;
    size_t& next = express ? next_express_ : next_in_order_;
    while (next < sent_.size() && (sent_[next].express != express || (sent_[next].taken_back && next != header.call)))
      ++next;
    FUSEWIRE_CHECK(next < sent_.size());
    Sent& sent = sent_[next++];
    FUSEWIRE_CHECK(!sent.arrived);
    sent.arrived = true;
    FUSEWIRE_CHECK(sent.kind == header.kind);
    FUSEWIRE_CHECK(sent.call == header.call);
    FUSEWIRE_CHECK(sent.head == head.ToString());
    FUSEWIRE_CHECK(sent.body.size() == header.body_bytes);
    FUSEWIRE_CHECK(body == nullptr || *body == sent.body);
  }

  PipeContext context_;
  End* const end_;
  Party* peer_ = nullptr;
  bool mutated_ = false;
  std::deque<Sent> sent_;  // by call
  size_t next_in_order_ = 0, next_express_ = 0;
  std::deque<wire::FrameHeader> held_;
  int opened_ = 0, closed_ = 0;
  bool is_silence_ = false;
  std::map<uint32_t, Place> places_;  // by sequence
  Pipe pipe_;                         // goes first
};

Options OptionsOf(uint8_t how, bool client) {
  Options options;
  options.name = client ? "worker:3" : "ps:0";
  options.incarnation = client ? 3 : 7;
  if ((how & 1) != 0) options.secret = "open sesame open";
  options.limits.meta_bytes_max = 4096;
  options.limits.body_bytes_max = 128 * 1024;
  if (client) options.limits.chunk_bytes_max = 4096U << (how >> 1 & 3);
  options.window_bytes = client ? 16 * 1024 : std::array<uint64_t, 4>{0, 4096, 16 * 1024, 64 * 1024}[how >> 3 & 3];
  options.receive_budget_bytes = (how & 32) != 0 ? 10 * 1024 : 300 * 1024;
  options.queued_bytes_max = 64 * 1024;
  options.silent_ns_max = kSecondNs;
  options.goodbye_ns_max = 100 * kMillisecondNs;
  return options;
}

class Session {
 public:
  explicit Session(uint8_t how) {
    auto client_end = std::make_unique<End>("ps:5555"), server_end = std::make_unique<End>("worker:4444");
    client_end->other = server_end.get();
    server_end->other = client_end.get();
    Home().Run([&] {
      client_ = std::make_unique<Party>(Role::kDialer, OptionsOf(how, true), std::move(client_end));
      server_ = std::make_unique<Party>(Role::kAcceptor, OptionsOf(how, false), std::move(server_end));
      client_->Meet(server_.get());
      server_->Meet(client_.get());
    });
  }

  void Play(ConstBytes ops) {
    for (size_t count = 0; ops.size >= 2 && count < 64; ++count) {
      uint8_t what = ops.data[0] % 16, argument = ops.data[1];
      ops = ops.From(2);
      Home().Run([&] { Do(what, argument); });
      client_->CheckLimits();
      server_->CheckLimits();
    }
  }

  void Finish() {
    // All that can still arrive does; without a standing window that is one message for each round.
    for (int i = 0; i < (disturbed_ ? 150 : 2000) && !quiet(); ++i) {
      Home().Run([&] {
        for (Party* party : {server_.get(), client_.get()}) {
          if (party->closed() == 0) party->end().Read(SIZE_MAX);
          if (party->closed() == 0) party->Consume(SIZE_MAX);
        }
      });
      TheClock()->Advance(10 * kMillisecondNs);
      Home().RunManually();
    }
    bool silence = client_->is_silence() || server_->is_silence();
    FUSEWIRE_CHECK(disturbed_ || silence || (client_->all_arrived() && server_->all_arrived()));
    FUSEWIRE_CHECK(disturbed_ || silence || client_->closed() + server_->closed() == 0);
    Home().Run([&] {
      client_->pipe().Close(Status::Cancelled("the end"));
      server_->pipe().Close(Status::Cancelled("the end"));
    });
    for (int i = 0; i < 3; ++i) {
      TheClock()->Advance(100 * kMillisecondNs);
      Home().RunManually();
    }
    for (Party* party : {client_.get(), server_.get()}) {
      FUSEWIRE_CHECK(party->closed() == 1);
      party->CheckDones();
    }
    Home().Run([&] {
      client_.reset();
      server_.reset();
    });
  }

 private:
  bool quiet() const {
    bool ended = client_->closed() > 0 && server_->closed() > 0;
    return ended || (client_->all_arrived() && server_->all_arrived());
  }

  void Do(uint8_t what, uint8_t argument) {
    size_t bytes = argument < 128 ? argument * 4 : (argument - 127) * 200;
    std::string& line = client_->end().line;
    size_t at = client_->end().read_at;
    switch (what) {
      case 0: return client_->Send(bytes, false);
      case 1: return server_->Send(bytes, false);
      case 2: return client_->Send(argument, true);
      case 3: return server_->Send(argument, true);
      case 4: return server_->end().Read(bytes + 1);
      case 5: return client_->end().Read(bytes + 1);
      case 6: return server_->Consume(argument);
      case 7: return client_->Consume(argument);
      case 8: return client_->Cancel(argument);
      case 9: return TheClock()->Advance(argument * 2 * kMillisecondNs);
      case 10: return Mutate([&] { line[at + argument % (line.size() - at)] ^= static_cast<char>(1 << argument % 8); });
      case 11: return Mutate([&] { line.erase(at, std::min(bytes % 100 + 1, line.size() - at)); });
      case 12: return Mutate([&] { line.insert(at, line.substr(at, bytes % 100 + 1)); });
      case 13: return Disturb([&] { client_->pipe().Close(Status::Cancelled("enough")); });
      case 14: return Disturb([&] { server_->pipe().Close(Status::Unavailable("shutting down")); });
      default: return Disturb([&] { client_->end().Close(Status::Unavailable("reset").Peer("ps:5555")); });
    }
  }
  template <class How>
  void Mutate(How how) {
    if (client_->end().unread() == 0 || client_->end().unread() > kLineBytesMax) return;
    server_->SetBent();
    Disturb(how);
  }
  template <class How>
  void Disturb(How how) {
    disturbed_ = true;
    how();
  }

  std::unique_ptr<Party> client_, server_;
  bool disturbed_ = false;  // something may be lost from now on
};

}  // namespace
}  // namespace fusewire::pipe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  fusewire::SetLogLevel(fusewire::LogLevel::kOff);
  fusewire::pipe::Session session(data[0]);
  session.Play(fusewire::ConstBytes(data + 1, size - 1));
  session.Finish();
  return 0;
}
