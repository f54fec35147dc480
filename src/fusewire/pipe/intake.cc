// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/intake.h"

#include <optional>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/pipe/message.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/meta.h"

namespace fusewire::pipe {
namespace {

uint64_t LargestMessage(const wire::Limits& limits) {
  return wire::kHeaderBytes + limits.meta_bytes_max + limits.body_bytes_max + limits.chunk_bytes_max;
}

}  // namespace

Intake::Intake(const Options& options, reactor::Reactor& home, Sender& sender, Grants& grants, Heartbeat& heartbeat,
               PipeStats& stats)
    : options_(options),
      home_(home),
      sender_(sender),
      grants_(grants),
      heartbeat_(heartbeat),
      stats_(stats),
      reader_(options.limits, this) {}

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
  grants_.window().Close();
}

size_t Intake::Landing(Bytes* parts, size_t parts_max) const { return open() ? reader_.Landing(parts, parts_max) : 0; }

size_t Intake::LookAhead() const { return open() ? reader_.LookAhead() : wire::kGreetingBytesMax; }

Result<pipe::Landing> Intake::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  if (!open()) return pipe::Landing::Discard();  // the receiver closed us in the middle of a read
  FUSEWIRE_TRY(grants_.window().OnReceived(WindowCost(header)));
  if (header.segments > 1) FUSEWIRE_TRY(grants_.pieces().OnReceived(header.segments));
  return messages_->OnHeader(header, meta);
}

Status Intake::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) {
  stats_.messages_in.Add();
  if (!open()) return Status::Ok();
  return messages_->OnMessage(header, meta, view);
}

Status Intake::OnControl(const wire::FrameHeader& header, ConstBytes meta) {
  stats_.frames_in.Add();
  if (!open()) return Status::Ok();
  switch (header.kind) {
    case wire::FrameKind::kCredit: return sender_.OnCredit(header.call);
    case wire::FrameKind::kWant:
      grants_.window().OnWant(header.call, LargestMessage(options_.limits));
      sender_.FlushSoon();
      return Status::Ok();
    case wire::FrameKind::kReturn:
      FUSEWIRE_TRY(grants_.window().OnReturn(header.call));
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

// A meta is checked when it is complete; if its length was bent on the way, that never happens, and heartbeats fall
// into it one by one.
Status Intake::CheckMetaGrows(int64_t now_ns) {
  uint64_t coming = reader_.in_meta() ? uint64_t{1} + reader_.frames() : 0;
  bool same = std::exchange(meta_at_check_, coming) == coming && coming != 0;
  if (!same) meta_since_ns_ = now_ns;
  int64_t age_ns = now_ns - meta_since_ns_;
  if (age_ns < options_.silent_ns_max) return Status::Ok();
  return Status::Corrupt("a frame whose head does not come to its end").AgeMs(age_ns / kMillisecondNs);
}

void Intake::Consume(const wire::FrameHeader& header) {
  FUSEWIRE_AT_HOME(home_);
  grants_.window().Consume(WindowCost(header));
  grants_.pieces().Consume(header.segments);
  sender_.FlushSoon();
}

}  // namespace fusewire::pipe
