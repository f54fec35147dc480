// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of a pipe: greeting, heartbeats, input, the end. What it sends is in pipe_send.cc.
#include "fusewire/pipe/pipe.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/wire/meta.h"

namespace fusewire {
namespace pipe {
namespace {

constexpr uint32_t kChunkBytesMin = 4096;  // smaller ones would be mostly headers
// A silent peer gets a second look after this long: perhaps it was our own loop that stood still.
constexpr int64_t kSecondLookNs = 50 * kMillisecondNs;

uint64_t LargestMessage(const wire::Limits& limits) {
  return wire::kHeaderBytes + limits.meta_bytes_max + limits.body_bytes_max + limits.chunk_bytes_max;
}

}  // namespace

Pipe::Pipe(Shared& shared, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
           uint16_t service, PipeHandler* handler)
    : shared_(shared),
      home_(home),
      connection_(std::move(connection)),
      handler_(handler),
      window_bytes_(role == Role::kDialer ? shared.TakeWindow() : std::nullopt),
      handshake_(
          std::make_unique<Handshake>(role, shared.options(), service, window_bytes_, [this] { return Admit(); })),
      reader_(shared.options().limits, this),
      receive_window_(window_bytes_.value_or(0), &shared.receive_budget()),
      chunk_bytes_(shared.options().limits.chunk_bytes_max),
      bulk_bytes_(std::min(connection_->BulkBytes(), kExpressBytesMax)),
      heard_ns_(home.now_ns()),
      said_ns_(home.now_ns()),
      tick_([this] { OnTick(); }),
      again_([this] { home_.FlushLater(this); }),
      recall_([this] { RecallIfWanted(); }) {
  peer_.address = connection_->peer_address();
  peer_.wire = connection_->wire();
}

Pipe::~Pipe() {
  Abort(Status::Cancelled("the pipe was destroyed"));
  shared_.ReturnWindow(window_bytes_.value_or(0));
}

// A peer whose hello is one of ours gets its part of the window budget.
std::optional<uint64_t> Pipe::Admit() {
  window_bytes_ = shared_.TakeWindow();
  receive_window_.Open(window_bytes_.value_or(0));
  return window_bytes_;
}

void Pipe::Start(OtherHomes* others) {
  FUSEWIRE_AT_HOME(home_);
  others_ = others;
  if (others != nullptr) handshake_->LeaveOthers();
  bool mute = handshake_->role() == Role::kDialer && !window_bytes_.has_value();
  std::string first = mute ? std::string() : handshake_->Begin();
  if (!first.empty()) {
    Bytes room = out_.Append(first.size());
    CopyBytes(room, first);
    home_.FlushLater(this);
  }
  greeted_by_ns_ = AddNs(home_.now_ns(), shared_.options().hello_ns_max);
  home_.Arm(&tick_, shared_.options().hello_ns_max);
  connection_->Start(this);
  if (mute) Close(NoWindow());
}

void Pipe::GoOn(const HandedOver& handed) {
  handshake_->RefuseOthers(handed.refusal);
  Start();
  home_.Arm(&tick_, std::max<int64_t>(handed.greeted_by_ns - home_.now_ns(), 0));
  OnBytes(handed.heard);
}

// The greeting goes on at another home.
void Pipe::HandOver(ConstBytes rest) {
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
  others_->OnHandedOver(std::move(handed));
}

Status Pipe::Describe(const Status& why) const { return why.Peer(peer_.ToString()); }

// ---- input ----

size_t Pipe::Landing(Bytes* parts, size_t parts_max) { return open() ? reader_.Landing(parts, parts_max) : 0; }

size_t Pipe::LookAhead() { return open() ? reader_.LookAhead() : wire::kGreetingBytesMax; }

void Pipe::Heard() {
  heard_ns_ = home_.now_ns();
  suspect_ = false;
}

void Pipe::OnLanded(size_t bytes) {
  Heard();
  stats_.bytes_in.Add(bytes);
  if (open()) Check(reader_.OnLanded(bytes));
}

void Pipe::Abandon(wire::FrameKind kind, uint64_t call) {
  FUSEWIRE_AT_HOME(home_);
  if (connection_ != nullptr && reader_.IsFilling(kind, call)) connection_->TakeBackLanding();
  reader_.Abandon(kind, call);
}

void Pipe::OnBytes(ConstBytes bytes) {
  Heard();
  stats_.bytes_in.Add(bytes.size);
  if (state_ == State::kGreeting) OnGreetingBytes(&bytes);
  if (open() && !bytes.empty()) Check(reader_.OnBytes(bytes));
}

void Pipe::OnGreetingBytes(ConstBytes* bytes) {
  std::string answer;
  Status status = handshake_->Feed(bytes, &answer);
  if (!answer.empty()) {
    Bytes room = out_.Append(answer.size());
    CopyBytes(room, answer);
    Write();  // at once: it may be the last that we say
  }
  if (status.ok() && handshake_->is_for_other()) {
    HandOver(std::exchange(*bytes, ConstBytes()));
    return;
  }
  if (status.ok() && handshake_->done()) status = OpenWith(handshake_->peer());
  if (!status.ok()) Close(status.Next("check that both tasks run the same version of Fusewire"));
}

Status Pipe::OpenWith(const wire::Hello& hello) {
  peer_.name = hello.name;
  peer_.incarnation = hello.incarnation;
  peer_.features = hello.features;
  chunk_bytes_ = std::min(chunk_bytes_, hello.chunk_bytes);
  if (chunk_bytes_ < kChunkBytesMin)
    return Status::Corrupt("the peer wants chunks of " + std::to_string(chunk_bytes_) + " bytes").Phase("greeting");
  reader_.SetChunkBytes(chunk_bytes_);
  send_window_.Open(hello.window_bytes);
  DemoteLongExpress();
  handshake_.reset();
  state_ = State::kOpen;
  opened_ns_ = home_.now_ns();
  home_.Arm(&tick_, shared_.options().silent_ns_max / 4);
  home_.FlushLater(this);
  peer_.wire = connection_->wire();  // it may have moved while we greeted
  messages_ = handler_->OnOpen(peer_);
  FUSEWIRE_CHECK(messages_ != nullptr);
  return Status::Ok();
}

// A broken rule of the wire, or a refusal of the receiver's: both end the pipe.
void Pipe::Check(const Status& status) {
  if (status.ok() || !open()) return;  // behind a goodbye anything may stand
  uint64_t held_back = 0;
  if (shared_.broken_log().Allow(peer_.address, home_.now_ns(), &held_back)) {
    FUSEWIRE_LOG(kWarn, "pipe to %s is closed (%llu more in between): %s", peer_.ToString().c_str(),
                 static_cast<unsigned long long>(held_back), status.ToString().c_str());
  }
  Close(status.Phase("reading").Next("run the same version of Fusewire in both tasks; if they are, report this"));
}

Result<pipe::Landing> Pipe::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  if (!open()) return pipe::Landing::Discard();  // the receiver closed us in the middle of a read
  FUSEWIRE_TRY(receive_window_.OnReceived(WindowCost(header)));
  return messages_->OnHeader(header, meta);
}

Status Pipe::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) {
  stats_.messages_in.Add();
  if (!open()) return Status::Ok();
  return messages_->OnMessage(header, meta, view);
}

Status Pipe::OnControl(const wire::FrameHeader& header, ConstBytes meta) {
  stats_.frames_in.Add();
  if (!open()) return Status::Ok();
  switch (header.kind) {
    case wire::FrameKind::kCredit:
      FUSEWIRE_TRY(send_window_.OnCredit(header.call));
      home_.FlushLater(this);
      return Status::Ok();
    case wire::FrameKind::kWant:
      receive_window_.OnWant(header.call, LargestMessage(shared_.options().limits));
      home_.FlushLater(this);
      return Status::Ok();
    case wire::FrameKind::kReturn:
      FUSEWIRE_TRY(receive_window_.OnReturn(header.call));
      home_.FlushLater(this);
      return Status::Ok();
    case wire::FrameKind::kRecall:
      give_back_ = true;
      home_.FlushLater(this);
      return Status::Ok();
    case wire::FrameKind::kPing:
      // Said when there is room to write, and only the last one: who pings without listening must not fill our memory.
      pong_due_ = true;
      pong_call_ = header.call;
      home_.FlushLater(this);
      return Status::Ok();
    case wire::FrameKind::kPong:
      if (pinged_ns_ != 0 && header.call == static_cast<uint64_t>(pinged_ns_)) {
        stats_.ping_ns.Add(static_cast<uint64_t>(home_.now_ns() - pinged_ns_));
        pinged_ns_ = 0;
      }
      return Status::Ok();
    case wire::FrameKind::kCancel: messages_->OnCancel(header.call); return Status::Ok();
    case wire::FrameKind::kGoodbye: {
      auto code = header.aux == 0 || header.aux > kCodeMax ? Code::kUnavailable : static_cast<Code>(header.aux);
      std::string words = meta.ToString();
      state_ = State::kSayingGoodbye;  // it has heard enough of us
      receive_window_.Close();
      why_closing_ = Describe(Status(code, "the peer said goodbye: " + words)
                                  .Phase("reading")
                                  .Next("look at the peer's log; what is sent from now on goes over a new connection"));
      connection_->Close(why_closing_);
      return Status::Ok();
    }
    default: return Status::Corrupt(std::string("an unexpected frame: ") + wire::KindName(header.kind));
  }
}

void Pipe::Consume(const wire::FrameHeader& header) {
  FUSEWIRE_AT_HOME(home_);
  receive_window_.Consume(WindowCost(header));
  home_.FlushLater(this);
}

// ---- time ----

void Pipe::OnTick() {
  const Options& options = shared_.options();
  int64_t now_ns = home_.now_ns();
  if (state_ == State::kGreeting) {
    Close(handshake_->CutOff(Status::Timeout("no greeting"))
              .AgeMs(options.hello_ns_max / kMillisecondNs)
              .Next("check that a Fusewire task listens there"));
    home_.Arm(&tick_, 0);  // what could not be written until now is not worth more time
    return;
  }
  if (state_ == State::kSayingGoodbye) {
    connection_->Close(why_closing_);
    return;
  }
  if (reader_.Expected() > 0) connection_->Look();  // a long body that trickles is not silence
  if (!open()) return;
  int64_t silent_ns = now_ns - heard_ns_;
  if (silent_ns >= options.silent_ns_max) {
    if (suspect_) {
      Close(Status::Unavailable("the peer is silent")
                .Phase("waiting for a heartbeat")
                .AgeMs(silent_ns / kMillisecondNs)
                .Next("look at the peer: it may be stopped, overloaded, or cut off; raise silent_ns_max if such pauses "
                      "are normal"));
      home_.Arm(&tick_, 0);  // nobody listens: the goodbye goes now or never
      return;
    }
    suspect_ = true;
    home_.Arm(&tick_, kSecondLookNs);
    return;
  }
  Check(CheckMetaGrows());
  if (!open()) return;
  int64_t period_ns = options.silent_ns_max / 4;
  if (now_ns - said_ns_ >= period_ns / 2 || silent_ns >= period_ns) {
    if (pinged_ns_ == 0) pinged_ns_ = now_ns;
    AppendControl(wire::FrameKind::kPing, 0, static_cast<uint64_t>(pinged_ns_));
  }
  RestIfIdle();
  if (out_.empty() && writes_ == 0) out_.Trim();
  home_.FlushLater(this);
  home_.Arm(&tick_, std::min(period_ns, std::max<int64_t>(options.silent_ns_max - silent_ns, kMillisecondNs)));
}

// A meta is checked when it is complete; if its length was bent on the way, that never happens, and heartbeats fall
// into it one by one.
Status Pipe::CheckMetaGrows() {
  uint64_t coming = reader_.in_meta() ? uint64_t{1} + reader_.frames() : 0;
  bool same = std::exchange(meta_at_tick_, coming) == coming && coming != 0;
  if (!same) meta_since_ns_ = home_.now_ns();
  int64_t age_ns = home_.now_ns() - meta_since_ns_;
  if (age_ns < shared_.options().silent_ns_max) return Status::Ok();
  return Status::Corrupt("a frame whose head does not come to its end").AgeMs(age_ns / kMillisecondNs);
}

// No message since the last tick: nobody needs the larger windows now. Heartbeats do not count, whoever asks for them.
void Pipe::RestIfIdle() {
  uint64_t messages = stats_.messages_in.Read() + stats_.messages_out.Read();
  if (std::exchange(messages_at_tick_, messages) != messages) return;
  give_back_ |= express_.empty() && in_order_.empty();
  receive_window_.Rest();
}

// ---- the end ----

void Pipe::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (state_ == State::kSayingGoodbye || state_ == State::kClosed) return;
  FUSEWIRE_CHECK(!why.ok());
  why_closing_ = Describe(why);
  bool was_open = open();
  state_ = State::kSayingGoodbye;
  receive_window_.Close();
  if (was_open) {
    AppendControl(wire::FrameKind::kGoodbye, static_cast<uint32_t>(why.code()), 0,
                  ConstBytes(why.cause().data(), std::min<size_t>(why.cause().size(), 512)));
  }
  // Before the greeting is over there is nobody to say goodbye to; but a refusal may be on its way to the network.
  home_.Arm(&tick_, shared_.options().goodbye_ns_max);
  home_.FlushLater(this);
}

// Everything that had begun to travel, and the goodbye behind it, is where the peer can read it.
void Pipe::FinishGoodbye() {
  if (state_ != State::kSayingGoodbye || !out_.empty() || writes_ > 0) return;
  if (connection_->Delivered()) {
    connection_->Close(why_closing_);
  } else {
    home_.Arm(&again_, kMillisecondNs);
  }
}

void Pipe::OnClosed(Status why) {
  if (why_closing_.ok()) {
    why_closing_ = Describe(state_ == State::kGreeting ? handshake_->CutOff(why) : why.Phase("reading"));
  }
  EndAll(why_closing_);
  handler_->OnClosed(why_closing_);
}

void Pipe::Abort(const Status& why) {
  if (state_ == State::kClosed) return;
  if (why_closing_.ok()) why_closing_ = Describe(why);
  connection_.reset();  // the network lets go of everything before anybody hears that it is done
  EndAll(why_closing_);
}

// Every Done hears of it, in the order in which the messages would have been sent.
void Pipe::EndAll(const Status& why) {
  state_ = State::kClosed;
  receive_window_.Close();
  for (reactor::Timer* timer : {&tick_, &again_, &recall_}) reactor::Reactor::Disarm(timer);
  Flushable::Unlink();
  writes_ = 0;
  out_.Fail(why);
  LongSend long_send = std::move(long_);
  long_ = LongSend();
  long_send.body.clear();
  if (long_send.done) long_send.done(why);
  for (std::deque<Waiting>* queue : {&express_, &in_order_}) {
    while (!queue->empty()) {
      Waiting waiting = std::move(queue->front());
      queue->pop_front();
      waiting.message.body.clear();
      if (waiting.done) waiting.done(why);
    }
  }
  queued_bytes_ = 0;
}

}  // namespace pipe
}  // namespace fusewire
