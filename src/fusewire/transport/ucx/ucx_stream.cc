// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a connection does once its stream goes over UCX: records out, and records in.
#include "fusewire/transport/ucx/ucx_connection.h"

#if FUSEWIRE_HAS_UCX

#include <algorithm>
#include <utility>

#include "fusewire/transport/reading.h"

namespace fusewire {
namespace transport {
namespace {

// The peer hears what was taken when so much of it is new.
constexpr uint64_t kTakenStep = kUcxWindowBytes / 4;

}  // namespace

// ---- out ----

// Small parts side by side in messages, large ones as loans, until there is no room.
size_t UcxConnection::Take(const ConstBytes* parts, size_t count, size_t* offered) {
  size_t taken = 0;
  bool room = true;
  UcxSend* open = nullptr;
  auto begin = [&](UcxRecordKind kind) {
    UcxSend* send = worker->outbox().Take();
    send->record.to = peer_id_;
    send->record.kind = kind;
    send->record.sequence = next_out_++;
    send->record.value = next_in_;
    return send;
  };
  auto finish = [&] {
    if (open == nullptr) return;
    sent_cost_ += UcxCost(UcxRecordKind::kBytes, open->bytes);
    worker->outbox().Send(peer_, std::exchange(open, nullptr));
  };
  for (size_t i = 0; i < count; ++i) {
    *offered += parts[i].size;
    for (ConstBytes left = parts[i]; !left.empty() && room && peer_->failed == UCS_OK;) {
      size_t piece = 0;
      if (parts[i].size >= kUcxLendBytesMin) {
        finish();
        room = HasRoom(UcxCost(UcxRecordKind::kLoan, 0));
        if (!room) break;
        piece = std::min(left.size, kUcxLoanBytesMax);
        sent_cost_ += UcxCost(UcxRecordKind::kLoan, piece);
        ++loans_out_;
        worker->outbox().Lend(peer_, begin(UcxRecordKind::kLoan), left.Sub(0, piece), this);
        lent_to_ = next_out_;
      } else {
        if (open == nullptr) {
          room = HasRoom(UcxCost(UcxRecordKind::kBytes, kUcxBytesMax));
          if (!room) break;
          open = begin(UcxRecordKind::kBytes);
        }
        piece = std::min(left.size, kUcxBytesMax - open->bytes);
        CopyBytes(Bytes(open->data + open->bytes, piece), left.Sub(0, piece));
        open->bytes += piece;
        if (open->bytes == kUcxBytesMax) finish();
      }
      taken += piece;
      left = left.From(piece);
    }
  }
  finish();
  return taken;
}

void UcxConnection::OnLoanBack(ucs_status_t status) {
  --loans_out_;
  if (status != UCS_OK && broken_.ok()) broken_ = Status::Unavailable(worker->library().Describe("lending", status));
  worker->DeliverLater(this);
}

// ---- in ----

bool UcxConnection::OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) {
  if (closed_ || !corrupt_.ok()) return false;
  auto refuse = [this](const char* what) {
    corrupt_ = Status::Corrupt(std::string("over UCX the peer ") + what);
    return false;
  };
  if (record.kind == UcxRecordKind::kTaken) {
    if (record.value > sent_cost_) return refuse("took more than we sent");
    taken_by_peer_ = std::max(taken_by_peer_, record.value);
    return false;
  }
  const bool loan = record.kind == UcxRecordKind::kLoan;
  if (!loan && record.kind != UcxRecordKind::kBytes) return refuse("sent a record of no known kind");
  if (loan != rendezvous || bytes == 0 || bytes > (loan ? kUcxLoanBytesMax : kUcxBytesMax))
    return refuse("sent a record of the wrong size");
  came_cost_ += UcxCost(record.kind, bytes);
  if (came_cost_ - taken_cost_ > kUcxWindowBytes) return refuse("sent more than there is room for");
  // As many as may wait fit into this distance.
  if (record.sequence < next_in_ || record.sequence - next_in_ > kUcxWindowBytes / kUcxRecordCost)
    return refuse("sent a record out of all order");
  const bool fresh = records_.emplace(record.sequence, Record{data, bytes, loan, record.value}).second;
  if (!fresh) return refuse("sent a record twice");
  return true;
}

void UcxConnection::Deliver() {
  if (closed_) {
    if (settled() && handler_ != nullptr && !told_) home_.Arm(&later_, 0);
    return;
  }
  if (handler_ == nullptr || stage_ != Stage::kMoved) return;
  if (dialler_.empty()) DeliverRecords();  // before kMove there is no way to answer them
  if (!closed_) AnswerWrite();
  if (!closed_) FinishIfEnded();
}

void UcxConnection::DeliverRecords() {
  if (handler_ == nullptr) return;
  size_t total = 0;
  if (received_) FinishLoan();
  while (!closed_ && !receiving_ && !lost_ && HasNext()) {
    if (total >= kReadBytesPerTurn) {
      worker->DeliverLater(this);
      break;
    }
    const Record record = records_.begin()->second;
    // It answers what we lent: UCX will say that the loan is back, and that is heard first.
    if (lent_answer_ > 0 && record.saw >= lent_to_) {
      if (loans_out_ > 0) break;
      AnswerWrite();
      if (closed_) break;
    }
    records_.erase(records_.begin());
    total += record.bytes;
    if (record.loan) {
      ReceiveLoan(record);
    } else {
      Feed(ConstBytes(record.data, record.bytes));
      worker->GiveBack(record.data);
      ++next_in_;
      taken_cost_ += UcxCost(UcxRecordKind::kBytes, record.bytes);
    }
    if (received_) FinishLoan();
  }
  if (closed_) return;
  if (!corrupt_.ok()) {
    Fail(corrupt_);
    return;
  }
  if (taken_cost_ - taken_said_ >= kTakenStep) SendTaken();
}

// Straight into the handler's memory if all of it fits there; else aside, and from there.
void UcxConnection::ReceiveLoan(const Record& record) {
  Bytes into[kLandingPartsMax];
  size_t parts = handler_->Landing(into, kLandingPartsMax), room = 0, used = 0;
  while (used < parts && room < record.bytes) {
    into[used].size = std::min(into[used].size, record.bytes - room);
    room += into[used++].size;
  }
  if (room < record.bytes) {
    aside_ = std::make_unique_for_overwrite<uint8_t[]>(record.bytes);
    into[0] = Bytes(aside_.get(), record.bytes);
    used = 1;
  }
  receive_bytes_ = record.bytes;
  receiving_ = true;
  const ucs_status_t status = worker->Receive(record.data, into, used, this);
  if (status != UCS_INPROGRESS) OnReceived(status, record.bytes);
}

void UcxConnection::OnReceived(ucs_status_t status, size_t bytes) {
  receiving_ = false;
  received_ = true;
  receive_status_ = status == UCS_OK && bytes != receive_bytes_ ? UCS_ERR_MESSAGE_TRUNCATED : status;
  worker->DeliverLater(this);
}

void UcxConnection::FinishLoan() {
  received_ = false;
  const std::unique_ptr<uint8_t[]> aside = std::move(aside_);
  if (receive_status_ != UCS_OK) {
    if (broken_.ok())
      broken_ = Status::Unavailable(worker->library().Describe("landing what the peer lent", receive_status_));
    lost_ = true;
    return;
  }
  ++next_in_;
  taken_cost_ += UcxCost(UcxRecordKind::kLoan, 0);
  if (aside == nullptr) {
    handler_->OnLanded(receive_bytes_);
    return;
  }
  FeedLong(ConstBytes(aside.get(), receive_bytes_));
}

void UcxConnection::SendTaken() {
  if (peer_ == nullptr) return;
  taken_said_ = taken_cost_;
  UcxSend* send = worker->outbox().Take();
  send->record.to = peer_id_;
  send->record.kind = UcxRecordKind::kTaken;
  send->record.value = taken_cost_;
  worker->outbox().Send(peer_, send);
}

}  // namespace transport
}  // namespace fusewire

#endif
