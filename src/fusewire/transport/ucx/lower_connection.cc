// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/lower_connection.h"

#include <string>

#include "fusewire/base/check.h"

namespace fusewire::transport {

void UcxLowerConnection::Start() {
  if (!std::exchange(started_, true)) connection_->Start(this);
}

void UcxLowerConnection::Look() {
  if (started_ && !ended_) connection_->Look();
}

void UcxLowerConnection::TakeBackLanding() {
  if (started_ && !ended_) connection_->TakeBackLanding();
}

void UcxLowerConnection::CloseStream(Status why) {
  FUSEWIRE_CHECK(started_);
  connection_->Close(std::move(why));
}

void UcxLowerConnection::Close() {
  if (!std::exchange(ended_, true) && started_) connection_->Close(Status::Cancelled("closed"));
}

// ---- in ----

size_t UcxLowerConnection::Landing(Bytes* parts, size_t parts_max) {
  if (reads_control_) {
    parts[0] = reader_.room();
    return 1;
  }
  return direct() ? stream_->Landing(parts, parts_max) : 0;
}

size_t UcxLowerConnection::LookAhead() {
  if (reads_control_) return 0;
  return direct() ? stream_->LookAhead() : kUcxEarlyBytesMax;
}

uint64_t UcxLowerConnection::Expected() { return reads_control_ || !direct() ? 0 : stream_->Expected(); }

void UcxLowerConnection::OnLanded(size_t bytes) {
  if (!reads_control_) {
    FUSEWIRE_CHECK(direct());
    stream_->OnLanded(bytes);
    return;
  }
  switch (reader_.OnLanded(bytes)) {
    case UcxControlReader::State::kPartial: return;
    case UcxControlReader::State::kWhole: {
      const UcxControlReader whole = std::exchange(reader_, UcxControlReader());
      handler_.OnControl(whole.message(), whole.address());
      return;
    }
    case UcxControlReader::State::kStranger: {
      const UcxControlReader begun = std::exchange(reader_, UcxControlReader());
      handler_.OnStranger(begun.begun());
      return;
    }
    case UcxControlReader::State::kCorrupt: handler_.OnMisbehaved(reader_.why()); return;
  }
}

void UcxLowerConnection::OnBytes(ConstBytes bytes) {
  FUSEWIRE_CHECK(!reads_control_);
  if (direct()) {
    stream_->OnBytes(bytes);
    return;
  }
  AppendBytes(&early_in_, bytes);
  if (early_in_.size() <= kUcxEarlyBytesMax) return;
  handler_.OnMisbehaved(Status::Overloaded("the peer sent more than " + std::to_string(kUcxEarlyBytesMax) +
                                           " bytes before this end had a reader"));
}

std::vector<uint8_t> UcxLowerConnection::TakeEarly() { return std::exchange(early_in_, {}); }

void UcxLowerConnection::OnClosed(Status why) {
  ended_ = true;
  handler_.OnLowerClosed(std::move(why));
}

// ---- out ----

void UcxLowerConnection::OnDelivered() {
  if (stream_ != nullptr) stream_->OnDelivered();
}

// The stream's handler writes nothing between two control messages.
void UcxLowerConnection::Send(const UcxControlMessage& message, ConstBytes behind) {
  FUSEWIRE_CHECK(started_);
  const bool address = HasAddress(message.kind);
  FUSEWIRE_CHECK(behind.empty() || address || message.kind == UcxControlKind::kStay);
  EncodeControl(message, address ? behind : ConstBytes(), &waiting_);
  if (!address) AppendBytes(&waiting_, behind);
  SendNext();
}

void UcxLowerConnection::SendNext() {
  if (writing_ || ended_) return;
  if (out_.empty()) out_.swap(waiting_);
  if (out_.empty()) return;
  FUSEWIRE_CHECK(sent_ < out_.size());
  writing_ = writes_control_ = true;
  const ConstBytes rest = ConstBytes(out_.data(), out_.size()).From(sent_);
  connection_->Write(&rest, 1);
}

void UcxLowerConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_CHECK(can_write());
  writing_ = true;
  connection_->Write(parts, count);
}

void UcxLowerConnection::OnWritten(size_t bytes) {
  FUSEWIRE_CHECK(writing_);
  writing_ = false;
  if (!std::exchange(writes_control_, false)) {
    handler_.OnLowerWritten(bytes);
    return;
  }
  FUSEWIRE_CHECK(bytes <= out_.size() - sent_);
  sent_ += bytes;
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  SendNext();
  if (can_write()) handler_.OnControlSent();
}

}  // namespace fusewire::transport
