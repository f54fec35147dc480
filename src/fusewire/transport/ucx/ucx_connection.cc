// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_connection.h"

#if FUSEWIRE_HAS_UCX

#include <optional>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/transport/ucx/control_message.h"
#include "fusewire/transport/ucx/ucx_receiver.h"

namespace fusewire::transport {
namespace {

// How long what the peer sent before it ended may take to arrive, and how long it may take to learn why an endpoint
// broke.
constexpr int64_t kGraceNs = 2 * kSecondNs;
constexpr int64_t kBrokenGraceNs = 200 * kMillisecondNs;
constexpr int64_t kCutLookNs = 5 * kMillisecondNs;

}  // namespace

UcxConnection::UcxConnection(reactor::Reactor& home, UcxWorker* worker, const UcxOptions& options,
                             std::unique_ptr<Connection> lower, std::string dialled)
    : home_(home),
      lower_(std::move(lower), this),
      stream_(worker, this),
      negotiation_(worker, stream_.id(), options, &lower_, std::move(dialled)),
      later_([this] { DoLater(); }),
      grace_([this] { DoLater(); }) {}

UcxConnection::~UcxConnection() {
  FUSEWIRE_AT_HOME(home_);
  Stop();
  stream_.Settle();
}

void UcxConnection::Greet() {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  lower_.Start();
  negotiation_.Ask();
}

void UcxConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  lower_.SetStream(handler);
  lower_.Start();
  home_.Arm(&later_, 0);  // something may have come already, even the end
}

void UcxConnection::Look() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  if (!negotiation_.moved()) {
    lower_.Look();
  } else if (stream_.Look()) {
    OnStream();
  }
}

// ---- negotiation ----

void UcxConnection::OnControl(const UcxControlMessage& message, ConstBytes address) {
  Result<UcxNegotiation::Event> event = negotiation_.OnControl(message, address);
  if (!event.ok()) {
    Fail(event.status());
    return;
  }
  switch (event.value()) {
    case UcxNegotiation::Event::kNone: return;
    case UcxNegotiation::Event::kStayed: AnswerWrite(); return;
    case UcxNegotiation::Event::kReached: Move(); return;
    case UcxNegotiation::Event::kEnd: stream_.receiver().SetEnd(message.value); return;
  }
}

void UcxConnection::Move() {
  UcxPeer* peer = negotiation_.TakePeer();
  stream_.Begin(peer, negotiation_.peer_id());
  if (!negotiation_.listens()) {
    negotiation_.Move(*peer);
    const std::vector<uint8_t> kept = negotiation_.TakeKept();
    stream_.sender().WriteEarly(ViewOf(kept), stream_.receiver().next());
  }
  stream_.DeliverLater();  // its first records may have been faster than its control message
  AnswerWrite();
}

void UcxConnection::OnStranger(ConstBytes begun) {
  Status status = negotiation_.OnStranger();
  if (!status.ok()) {
    Fail(status);
    return;
  }
  FUSEWIRE_CHECK(handler_ != nullptr);
  Feed(handler_, &closed_, begun);
  if (!closed_) AnswerWrite();
}

void UcxConnection::OnControlSent() {
  if (!closed_ && negotiation_.stayed()) AnswerWrite();
}

void UcxConnection::OnLowerWritten(size_t bytes) {
  FUSEWIRE_CHECK(write_waiting_);
  write_waiting_ = false;
  handler_->OnWritten(bytes);
}

// ---- reading ----

void UcxConnection::OnStream() {
  if (closed_) {
    if (stream_.settled() && handler_ != nullptr && !told_) home_.Arm(&later_, 0);
    return;
  }
  if (handler_ == nullptr || !negotiation_.moved()) return;
  if (!negotiation_.awaits_move()) DeliverRecords();
  if (!closed_) AnswerWrite();
  if (!closed_) FinishIfEnded();
}

void UcxConnection::DeliverRecords() {
  UcxReceiver& receiver = stream_.receiver();
  size_t total = 0;
  receiver.FinishLoan(handler_);
  while (!closed_ && receiver.ready()) {
    if (total >= kReadBytesPerTurn) {
      stream_.DeliverLater();
      break;
    }
    // It answers what we lent: UCX will report that the loan is back, and the Write is answered first.
    if (stream_.sender().IsAnswerToLoan(receiver.NextSaw())) {
      if (stream_.sender().lends()) break;
      AnswerWrite();
      if (closed_) break;
    }
    total += receiver.DeliverNext(handler_);
  }
  if (closed_) return;
  if (!receiver.corrupt().ok()) {
    Fail(receiver.corrupt());
    return;
  }
  if (receiver.OwesTaken() && stream_.sender().SendTaken(receiver.taken())) receiver.OnTakenTold();
}

// ---- writing ----

void UcxConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!write_waiting_);
  if (closed_) return;  // OnClosed is on its way
  FUSEWIRE_CHECK(handler_ != nullptr);
  write_waiting_ = true;
  std::optional<size_t> taken;
  switch (negotiation_.stage()) {
    case UcxStage::kStayed:
      if (lower_.can_write()) lower_.Write(parts, count);
      return;
    case UcxStage::kAsking:
      taken = negotiation_.Keep(parts, count);
      if (*taken == 0) return;  // answered when there is a way
      break;
    case UcxStage::kMoved: taken = stream_.sender().Write(parts, count, stream_.receiver().next()); break;
    case UcxStage::kListening: break;
  }
  if (!taken.has_value()) return;
  write_waiting_ = false;
  handler_->OnWritten(*taken);
}

// Answers the Write that waits, if what it waits for has come.
void UcxConnection::AnswerWrite() {
  if (!write_waiting_ || closed_ || handler_ == nullptr) return;
  std::optional<size_t> taken;
  if (negotiation_.moved()) {
    if (stream_.broken().ok()) taken = stream_.sender().Answer();
  } else if (negotiation_.stayed() && lower_.can_write()) {
    taken = 0;
  }
  if (!taken.has_value()) return;
  write_waiting_ = false;
  handler_->OnWritten(*taken);
}

// ---- the end ----

void UcxConnection::OnLowerClosed(Status why) {
  if (closed_ && !lower_tells_end_) return;
  if (!closed_ && negotiation_.moved()) {
    home_.Arm(&later_, 0);
    return;
  }
  negotiation_.OnLowerClosed();
  if (!std::exchange(closed_, true)) why_closed_ = std::move(why);
  stream_.receiver().Drop();
  if (handler_ == nullptr) return;
  if (stream_.settled()) {
    TellEnd();
  } else {
    AwaitSettled();
  }
}

// The last call to the handler; it may destroy us.
void UcxConnection::TellEnd() {
  if (handler_ != nullptr && !std::exchange(told_, true)) handler_->OnClosed(why_closed_);
}

// The peer has gone: what it had written is still ours, as far as it came.
void UcxConnection::FinishIfEnded() {
  if (!lower_.ended()) {
    if (stream_.broken().ok()) return;
    if (!std::exchange(waits_for_rest_, true))
      home_.Arm(&grace_, kBrokenGraceNs);  // the lower connection may know better
    if (!grace_.armed()) Fail(stream_.broken());
    return;
  }
  const bool has_end = stream_.receiver().has_end();
  if (stream_.receiver().IsShort() && !stream_.receiver().lost()) {
    if (!std::exchange(waits_for_end_, true)) home_.Arm(&grace_, has_end ? kGraceNs : kBrokenGraceNs);
    if (grace_.armed()) return;
  }
  Fail(Status::Unavailable(has_end ? "the peer closed the connection" : "the peer's process has ended"));
}

void UcxConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  if (negotiation_.stayed() && lower_.started() && !lower_.ended()) {
    closed_ = lower_tells_end_ = true;
    why_closed_ = why;
    lower_.CloseStream(std::move(why));  // OnLowerClosed follows from there
    return;
  }
  why_closed_ = std::move(why);
  Stop();
  if (handler_ == nullptr) return;
  home_.Arm(&later_, 0);
}

// Sends the last control message, and asks the peer to give back what is ours.
void UcxConnection::Stop() {
  if (std::exchange(closed_, true)) return;
  negotiation_.Leave(stream_.sender().answered());
  stream_.receiver().Drop();
  lower_.Close();
  AwaitSettled();
}

// The peer has its time to give back what is ours.
void UcxConnection::AwaitSettled() {
  FUSEWIRE_CHECK(closed_);
  reactor::Reactor::Disarm(&grace_);
  if (!stream_.settled()) home_.Arm(&grace_, kUcxSettleNs);
}

void UcxConnection::TakeBackLanding() {
  FUSEWIRE_AT_HOME(home_);
  if (negotiation_.stayed()) {
    lower_.TakeBackLanding();
  } else {
    stream_.TakeBackLanding();
  }
}

void UcxConnection::DoLater() {
  if (closed_) {
    if (!stream_.settled() && grace_.armed()) return;
    if (!stream_.settled()) {
      stream_.Cut();
      stream_.Touch();
      home_.Arm(&grace_, kCutLookNs);
      return;
    }
    reactor::Reactor::Disarm(&grace_);
    if (!lower_tells_end_ || lower_.ended()) TellEnd();
    return;
  }
  if (lower_.has_early()) {
    const std::vector<uint8_t> early = lower_.TakeEarly();
    Feed(handler_, &closed_, ViewOf(early));
  }
  if (closed_ || !negotiation_.moved()) return;
  if (lower_.ended()) stream_.Look();
  OnStream();
}

}  // namespace fusewire::transport

#endif
