// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/pipe.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/heartbeat.h"
#include "fusewire/pipe/intake.h"
#include "fusewire/pipe/sender.h"

namespace fusewire::pipe {
namespace {

constexpr uint32_t kChunkBytesMin = 4096;  // smaller ones would be mostly headers

}  // namespace

// The life of a pipe: greeting, open, goodbye, closed. It gets the events of the connection and the clock, hands them
// to the part that they are for (sender, intake, heartbeat), and alone decides when the pipe opens and closes.
class Pipe::Core final : private transport::ConnectionHandler, private reactor::Flushable {
 public:
  Core(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
       uint16_t service, PipeHandler* handler);
  ~Core();

  // ---- see Pipe ----
  void Start(bool hands_over);
  void GoOn(const HandedOver& handed);
  void Close(Status why);
  void Leave(Status why);
  void Abort(const Status& why);
  void Abandon(wire::FrameKind kind, uint64_t call);
  bool open() const { return state_ == State::kOpen; }

 private:
  friend class Pipe;
  enum class State { kGreeting, kOpen, kSayingGoodbye, kClosed };

  // transport::ConnectionHandler
  size_t Landing(Bytes* parts, size_t parts_max) override {
    return open() ? intake_.reader().Landing(parts, parts_max) : 0;
  }
  size_t LookAhead() override { return open() ? intake_.reader().LookAhead() : wire::kGreetingBytesMax; }
  uint64_t Expected() override { return open() ? intake_.reader().Expected() : 0; }
  void OnLanded(size_t bytes) override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnDelivered() override { FinishGoodbye(); }
  void OnClosed(Status why) override;
  // reactor::Flushable
  void Flush() override;

  void OnGreetingBytes(ConstBytes* bytes);
  void HandOver(ConstBytes rest);
  Status OpenWith(const wire::Hello& hello);
  void OnRead(const Status& status);
  void OnTick();
  void LookAtPeer();
  void AfterWrite();
  void FinishGoodbye();
  void EndAll(const Status& why);

  PipeContext& context_;
  reactor::Reactor& home_;
  std::unique_ptr<transport::Connection> connection_;
  PipeHandler* const handler_;
  State state_ = State::kGreeting;
  Status why_leaving_;  // not ok: closes once no express message waits for credit
  Status why_closing_;
  PeerInfo peer_;
  PipeStats stats_;

  Heartbeat heartbeat_;
  Sender sender_;
  Intake intake_;
  std::unique_ptr<Handshake> handshake_;  // gone once open
  int64_t greeted_by_ns_ = 0;
  reactor::Timer tick_;  // heartbeats; before that the limit of the greeting; at the end the limit of the goodbye
};

// ---- what other rooms see ----

Pipe::Pipe(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
           uint16_t service, PipeHandler* handler)
    : core_(std::make_unique<Core>(context, home, std::move(connection), role, service, handler)) {}

Pipe::~Pipe() = default;

void Pipe::Start(bool hands_over) { core_->Start(hands_over); }
void Pipe::GoOn(const HandedOver& handed) { core_->GoOn(handed); }
void Pipe::Close(Status why) { core_->Close(std::move(why)); }
void Pipe::Leave(Status why) { core_->Leave(std::move(why)); }
void Pipe::Abort(const Status& why) { core_->Abort(why); }
bool Pipe::open() const { return core_->open(); }
const PeerInfo& Pipe::peer() const { return core_->peer_; }
const PipeStats& Pipe::stats() const { return core_->stats_; }
reactor::Reactor& Pipe::home() { return core_->home_; }

void Pipe::Send(Message message, Done done) { core_->sender_.Send(std::move(message), std::move(done)); }
bool Pipe::HasRoom(size_t head_bytes) const { return core_->sender_.HasRoom(head_bytes); }
Status Pipe::CheckSize(size_t head_bytes, const Buffers& body) const {
  return core_->sender_.CheckSize(head_bytes, body);
}
void Pipe::Cancel(uint64_t call) { core_->sender_.Cancel(call); }
bool Pipe::GoesAtOnce(uint64_t cost) const { return core_->sender_.GoesAtOnce(cost); }
bool Pipe::BeginsAtOnce(uint64_t cost) const { return core_->sender_.BeginsAtOnce(cost); }

void Pipe::Consume(const wire::FrameHeader& header) { core_->intake_.Consume(header); }
void Pipe::Abandon(wire::FrameKind kind, uint64_t call) { core_->Abandon(kind, call); }
const ReceiveWindow& Pipe::receive_window() const { return core_->intake_.window(); }

// ---- its life ----

Pipe::Core::Core(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection,
                 Role role, uint16_t service, PipeHandler* handler)
    : context_(context),
      home_(home),
      connection_(std::move(connection)),
      handler_(handler),
      heartbeat_(context.options().silent_ns_max, home.now_ns()),
      sender_(context.options(), home, *connection_, peer_, stats_, this),
      intake_(context, home, sender_, heartbeat_, stats_, [this](const Status& why) { OnRead(why); }),
      // A dialer says in its hello what its peer may send; an acceptor decides it once the peer has proved itself.
      handshake_(std::make_unique<Handshake>(
          role, context.options(), service, role == Role::kDialer ? intake_.TakeWindow() : std::nullopt,
          [this] { return intake_.TakeWindow(); }, [this] { return connection_->Binding(); })),
      tick_([this] { OnTick(); }) {
  peer_.address = connection_->peer_address();
  peer_.wire = connection_->wire();
}

Pipe::Core::~Core() { Abort(Status::Cancelled("the pipe was destroyed")); }

void Pipe::Core::Start(bool hands_over) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(state_ == State::kGreeting);
  FUSEWIRE_CHECK(greeted_by_ns_ == 0);  // once
  FUSEWIRE_CHECK(!hands_over || handshake_->role() == Role::kAcceptor);
  if (hands_over) handshake_->LeaveOthers();
  bool mute = handshake_->role() == Role::kDialer && !intake_.has_window();
  std::string first = mute ? std::string() : handshake_->Begin();
  if (!first.empty()) {
    sender_.AppendGreeting(first);
    home_.FlushLater(this);
  }
  greeted_by_ns_ = AddNs(home_.now_ns(), context_.options().hello_ns_max);
  home_.Arm(&tick_, context_.options().hello_ns_max);
  connection_->Start(this);
  if (mute) Close(NoWindow());
}

void Pipe::Core::GoOn(const HandedOver& handed) {
  FUSEWIRE_AT_HOME(home_);
  handshake_->RefuseOthers(handed.refusal);
  Start(false);
  home_.Arm(&tick_, std::max<int64_t>(handed.greeted_by_ns - home_.now_ns(), 0));
  OnBytes(handed.heard);
}

// The greeting goes on at another home.
void Pipe::Core::HandOver(ConstBytes rest) {
  FUSEWIRE_CHECK(state_ == State::kGreeting);
  HandedOver handed;
  handed.service = handshake_->peer().service;
  handed.incoming = connection_->HandOver();
  if (handed.incoming == nullptr) {
    Close(Status::Refused("service " + wire::ServiceWords(handed.service) + " cannot be reached this way")
              .Phase("greeting"));
    return;
  }
  handed.heard = handshake_->hello_bytes() + rest.ToString();
  handed.greeted_by_ns = greeted_by_ns_;
  why_closing_ = Status::Cancelled("handed over");
  EndAll(why_closing_);
  handler_->OnHandedOver(std::move(handed));
}

// ---- input ----

void Pipe::Core::OnLanded(size_t bytes) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(state_ != State::kClosed);
  heartbeat_.OnHeard(home_.now_ns());
  stats_.bytes_in.Add(bytes);
  if (open()) OnRead(intake_.reader().OnLanded(bytes));
}

void Pipe::Core::OnBytes(ConstBytes bytes) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(state_ != State::kClosed);
  heartbeat_.OnHeard(home_.now_ns());
  stats_.bytes_in.Add(bytes.size);
  if (state_ == State::kGreeting) OnGreetingBytes(&bytes);
  if (open() && !bytes.empty()) OnRead(intake_.reader().OnBytes(bytes));
}

void Pipe::Core::OnGreetingBytes(ConstBytes* bytes) {
  FUSEWIRE_DCHECK(handshake_ != nullptr);
  std::string answer;
  Status status = handshake_->Feed(bytes, &answer);
  if (!answer.empty()) {
    sender_.AppendGreeting(answer);
    sender_.Write();  // at once: it may be the last that we send
  }
  if (status.ok() && handshake_->is_for_other()) {
    HandOver(std::exchange(*bytes, ConstBytes()));
    return;
  }
  if (status.ok() && handshake_->done()) status = OpenWith(handshake_->peer());
  if (!status.ok()) Close(status.Next("check that both tasks run the same version of Fusewire"));
}

Status Pipe::Core::OpenWith(const wire::Hello& hello) {
  FUSEWIRE_CHECK(state_ == State::kGreeting);
  peer_.name = hello.name;
  peer_.incarnation = hello.incarnation;
  peer_.features = hello.features;
  const uint32_t chunk_bytes = std::min(context_.options().limits.chunk_bytes_max, hello.chunk_bytes);
  if (chunk_bytes < kChunkBytesMin)
    return Status::Corrupt("the peer wants chunks of " + std::to_string(chunk_bytes) + " bytes").Phase("greeting");
  sender_.Open(chunk_bytes, hello.window_bytes);
  handshake_.reset();
  state_ = State::kOpen;
  home_.Arm(&tick_, heartbeat_.PeriodNs());
  home_.FlushLater(this);
  peer_.wire = connection_->wire();  // it may have moved while we greeted
  FrameHandler* messages = handler_->OnOpen(peer_);
  FUSEWIRE_CHECK(messages != nullptr);
  if (open()) intake_.Open(chunk_bytes, messages);
  return Status::Ok();
}

// After each read. A violation of the protocol, and a refusal of the receiver's, both end the pipe; so does a goodbye.
void Pipe::Core::OnRead(const Status& status) {
  if (status.ok() && intake_.goodbye().ok()) return;
  if (!open()) return;  // behind a goodbye anything may stand
  if (!intake_.goodbye().ok()) {
    state_ = State::kSayingGoodbye;  // the peer needs no goodbye from us
    why_closing_ = intake_.goodbye().Peer(peer_.ToString());
    sender_.Stop(why_closing_);
    connection_->Close(why_closing_);
    return;
  }
  uint64_t held_back = 0;
  if (context_.broken_log().Allow(peer_.address, home_.now_ns(), &held_back)) {
    FUSEWIRE_LOG(kWarn, "pipe to %s is closed (%llu more in between): %s", peer_.ToString().c_str(),
                 static_cast<unsigned long long>(held_back), status.Explained().c_str());
  }
  Close(status.Phase("reading").Next("run the same version of Fusewire in both tasks; if they do, report this"));
}

void Pipe::Core::Abandon(wire::FrameKind kind, uint64_t call) {
  FUSEWIRE_AT_HOME(home_);
  if (connection_ != nullptr && intake_.reader().IsFilling(kind, call)) connection_->TakeBackLanding();
  intake_.reader().Abandon(kind, call);
}

// ---- output ----

void Pipe::Core::Flush() {
  if (state_ == State::kClosed) return;
  if (open()) intake_.SendGrant();
  sender_.Write();
  AfterWrite();
}

void Pipe::Core::OnWritten(size_t bytes) {
  sender_.OnWritten(bytes);
  AfterWrite();
}

void Pipe::Core::AfterWrite() {
  if (!why_leaving_.ok() && !sender_.holds_express_back()) Close(why_leaving_);
  FinishGoodbye();
}

// ---- time ----

void Pipe::Core::OnTick() {
  FUSEWIRE_CHECK(state_ != State::kClosed);
  if (state_ == State::kGreeting) {
    Close(handshake_->CutOff(Status::Timeout("no greeting"))
              .AgeMs(context_.options().hello_ns_max / kMillisecondNs)
              .Next("check that a Fusewire task listens there"));
    home_.Arm(&tick_, 0);  // there is no more time for what is still unwritten
    return;
  }
  if (state_ == State::kSayingGoodbye) {
    connection_->Close(why_closing_);
    return;
  }
  if (Expected() > 0) connection_->Look();  // a long body that trickles is not silence
  if (open()) LookAtPeer();
}

void Pipe::Core::LookAtPeer() {
  int64_t now_ns = home_.now_ns();
  switch (heartbeat_.Look(now_ns)) {
    case Heartbeat::Peer::kHeard: break;
    case Heartbeat::Peer::kSuspect: home_.Arm(&tick_, Heartbeat::SecondLookNs()); return;
    case Heartbeat::Peer::kSilent:
      Close(Status::Unavailable("the peer is silent")
                .Phase("waiting for a heartbeat")
                .AgeMs(heartbeat_.silent_ns(now_ns) / kMillisecondNs)
                .Next("look at the peer: it may be stopped, overloaded, or cut off; raise silent_ns_max if such pauses "
                      "are normal"));
      home_.Arm(&tick_, 0);  // the peer does not read: the goodbye goes now or never
      return;
  }
  OnRead(intake_.CheckMetaGrows(now_ns));
  if (!open()) return;
  if (std::optional<uint64_t> ping = heartbeat_.Ping(now_ns, sender_.wrote_ns())) {
    sender_.AppendControl(wire::FrameKind::kPing, 0, *ping);
  }
  // No message since the last look: the larger windows are not needed now. Heartbeats do not count, whichever side
  // asks for them.
  if (heartbeat_.IsIdle(stats_.messages_in.Read() + stats_.messages_out.Read())) {
    sender_.Rest();
    intake_.Rest();
  }
  sender_.Trim();
  home_.FlushLater(this);
  home_.Arm(&tick_, heartbeat_.NextLookNs(now_ns));
}

// ---- the end ----

void Pipe::Core::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (state_ == State::kSayingGoodbye || state_ == State::kClosed) return;
  FUSEWIRE_CHECK(!why.ok());
  why_closing_ = why.Peer(peer_.ToString());
  bool was_open = open();
  state_ = State::kSayingGoodbye;
  intake_.Close();
  sender_.Stop(why_closing_);
  if (was_open) {
    sender_.AppendControl(wire::FrameKind::kGoodbye, static_cast<uint32_t>(why.code()), 0,
                          ConstBytes(why.cause().data(), std::min<size_t>(why.cause().size(), 512)));
  }
  // Before the greeting is over no peer understands a goodbye; but a refusal may be on its way to the network.
  home_.Arm(&tick_, context_.options().goodbye_ns_max);
  home_.FlushLater(this);
}

void Pipe::Core::Leave(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (!open() || !sender_.holds_express_back()) {
    Close(std::move(why));
  } else {
    why_leaving_ = std::move(why);
  }
}

// The peer can read every message that had begun to be sent, and the goodbye after them.
void Pipe::Core::FinishGoodbye() {
  if (state_ != State::kSayingGoodbye || !sender_.idle()) return;
  if (connection_->Delivered()) connection_->Close(why_closing_);
}

void Pipe::Core::OnClosed(Status why) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(state_ != State::kClosed);
  FUSEWIRE_CHECK(!why.ok());
  if (why_closing_.ok()) {
    Status in_words = state_ == State::kGreeting ? handshake_->CutOff(why) : why.Phase("reading");
    why_closing_ = in_words.Peer(peer_.ToString());
  }
  EndAll(why_closing_);
  handler_->OnClosed(why_closing_);
}

void Pipe::Core::Abort(const Status& why) {
  if (state_ == State::kClosed) return;
  if (why_closing_.ok()) why_closing_ = why.Peer(peer_.ToString());
  connection_.reset();  // the network releases all memory before any Done is called
  EndAll(why_closing_);
}

void Pipe::Core::EndAll(const Status& why) {
  FUSEWIRE_CHECK(state_ != State::kClosed);
  state_ = State::kClosed;
  intake_.Close();
  reactor::Reactor::Disarm(&tick_);
  Flushable::Unlink();
  sender_.End(why);
}

}  // namespace fusewire::pipe
