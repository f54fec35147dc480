// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/intake.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/wire/hello.h"

namespace fusewire::pipe {
namespace {

// How often a pipe that holds a share of the budget looks whether others wait for it.
constexpr int64_t kLookNs = 20 * kMillisecondNs;

uint64_t LargestMessage(const wire::Limits& limits) {
  return wire::kHeaderBytes + limits.meta_bytes_max + limits.body_bytes_max + limits.chunk_bytes_max;
}

}  // namespace

Intake::Intake(PipeContext& context, reactor::Reactor& home, Sender& sender, Heartbeat& heartbeat, PipeStats& stats,
               OnStuck on_stuck)
    : context_(context),
      home_(home),
      sender_(sender),
      heartbeat_(heartbeat),
      stats_(stats),
      on_stuck_(std::move(on_stuck)),
      reader_(context.options().limits, this),
      self_(std::make_shared<Intake*>(this)),
      window_(0, &context.receive_budget(),
              [&home, self = self_] {
                home.Post([self] {
                  if (*self != nullptr) (*self)->sender_.FlushSoon();
                });
              }),
      pieces_(&context.receive_budget()),
      recall_(context.options().silent_ns_max),
      looks_{reactor::Timer([this] { sender_.FlushSoon(); }), reactor::Timer([this] { LookAtPeer(); })} {}

Intake::~Intake() {
  *self_ = nullptr;
  context_.ReturnWindow(window_bytes_.value_or(0));
}

std::optional<uint64_t> Intake::TakeWindow() {
  FUSEWIRE_CHECK(!window_bytes_.has_value());
  window_bytes_ = context_.TakeWindow();
  window_.Open(window_bytes_.value_or(0));
  return window_bytes_;
}

void Intake::Open(uint32_t chunk_bytes, FrameHandler* messages) {
  FUSEWIRE_CHECK(messages != nullptr);
  FUSEWIRE_CHECK(messages_ == nullptr);
  FUSEWIRE_CHECK(goodbye_.ok());
  FUSEWIRE_CHECK(reader_.frames() == 0);
  reader_.SetChunkBytes(chunk_bytes);
  messages_ = messages;
}

void Intake::Close() {
  messages_ = nullptr;
  window_.Close();
  reactor::Reactor::Disarm(&looks_.at_budget);
  reactor::Reactor::Disarm(&looks_.at_peer);
}

// ---- what the reader has found ----

Result<Landing> Intake::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  if (!open()) return Landing::Discard();  // the receiver closed us in the middle of a read
  FUSEWIRE_TRY(window_.OnReceived(WindowCost(header)));
  if (header.segments > 1) FUSEWIRE_TRY(pieces_.OnReceived(header.segments));
  return messages_->OnHeader(header, meta);
}

Status Intake::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) {
  stats_.messages_in.Add();
  if (!open()) return Status::Ok();
  window_.OnArrived();
  return messages_->OnMessage(header, meta, view);
}

Status Intake::OnControl(const wire::FrameHeader& header, ConstBytes meta) {
  stats_.frames_in.Add();
  if (!open()) return Status::Ok();
  switch (header.kind) {
    case wire::FrameKind::kCredit: return sender_.OnCredit(header.call);
    case wire::FrameKind::kWant:
      window_.OnWant(header.call, LargestMessage(context_.options().limits), reader_.Arriving());
      sender_.FlushSoon();
      return Status::Ok();
    case wire::FrameKind::kReturn:
      FUSEWIRE_TRY(window_.OnReturn(header.call));
      sender_.FlushSoon();
      return Status::Ok();
    case wire::FrameKind::kRecall: sender_.OnRecall(); return Status::Ok();
    case wire::FrameKind::kPing: sender_.OnPing(header.call); return Status::Ok();
    case wire::FrameKind::kPong:
      if (std::optional<int64_t> ping_ns = heartbeat_.OnPong(header.call, home_.now_ns())) {
        stats_.ping_ns.Add(static_cast<uint64_t>(*ping_ns));
      }
      return Status::Ok();
    case wire::FrameKind::kCancel: messages_->OnCancel(header.call); return Status::Ok();
    case wire::FrameKind::kGoodbye: OnGoodbye(header, meta); return Status::Ok();
    default: return Status::Corrupt(std::string("an unexpected frame: ") + wire::KindName(header.kind));
  }
}

void Intake::OnGoodbye(const wire::FrameHeader& header, ConstBytes meta) {
  auto code = header.aux == 0 || header.aux > kCodeMax ? Code::kUnavailable : static_cast<Code>(header.aux);
  goodbye_ = Status(code, "the peer said goodbye: " + meta.ToString())
                 .Phase("reading")
                 .Next("look at the peer's log; what is sent from now on goes over a new connection");
  FUSEWIRE_CHECK(!goodbye_.ok());
  Close();
}

// ---- credit ----

void Intake::Consume(const wire::FrameHeader& header) {
  FUSEWIRE_AT_HOME(home_);
  window_.Consume(WindowCost(header));
  pieces_.Consume(header.segments);
  sender_.FlushSoon();
}

void Intake::SendGrant() {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(window_bytes_.has_value());
  const bool waited = window_.waiting();
  const uint64_t grant = window_.TakeGrant(home_.now_ns(), home_.idle_ns(), sender_.has_output());
  if (grant > 0) sender_.AppendControl(wire::FrameKind::kCredit, 0, grant);
  if (window_.reserved_bytes() > 0 && !looks_.at_peer.armed()) home_.Arm(&looks_.at_peer, kLookNs);
  if (!window_.waiting()) return;
  if (!waited) stats_.budget_stalls.Add();
  if (window_.waits_first() && !looks_.at_budget.armed()) home_.Arm(&looks_.at_budget, Pace::kPeriodNs);
}

void Intake::LookAtPeer() {
  const bool wanted = window_.IsWanted();
  const uint64_t arriving = reader_.Arriving();
  const uint64_t held = window_.HeldByPeer(arriving);
  if (recall_.Look(held, window_.MovedBytes(arriving), wanted, home_.now_ns())) {
    on_stuck_(Status::Overloaded("the peer neither uses nor gives back " + std::to_string(held) +
                                 " bytes of credit that others wait for")
                  .Phase("recalling credit")
                  .AgeMs(recall_.waited_ns() / kMillisecondNs)
                  .Next("look at the peer: it may be overloaded, or not ours; raise receive_budget_bytes if its "
                        "network is this slow"));
    return;
  }
  // Asked repeatedly: credit that the peer cannot return now, it may return soon.
  if (wanted && window_.HasSpareCredit()) sender_.AppendControl(wire::FrameKind::kRecall, 0, 0);
  if (window_.reserved_bytes() > 0) home_.Arm(&looks_.at_peer, kLookNs);
}

// ---- time ----

// A meta is checked once it is complete. If its length was corrupted on the way, it never is: the bytes of later
// frames, such as heartbeats, are taken for it.
Status Intake::CheckMetaGrows(int64_t now_ns) {
  const int64_t age_ns = reader_.MetaAgeNs(now_ns);
  if (age_ns < context_.options().silent_ns_max) return Status::Ok();
  return Status::Corrupt("a frame whose head is never complete").AgeMs(age_ns / kMillisecondNs);
}

}  // namespace fusewire::pipe
