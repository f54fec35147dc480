// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_receiver.h"

#if FUSEWIRE_HAS_UCX

#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {

namespace {

void FeedPiece(ConnectionHandler* handler, const bool* closed, ConstBytes data) {
  while (!data.empty() && !*closed) {
    Bytes into[kLandingPartsMax];
    const size_t parts = handler->Landing(into, kLandingPartsMax);
    FUSEWIRE_DCHECK(parts <= kLandingPartsMax);
    const size_t ahead_max = std::min(handler->LookAhead(), sizeof(look_ahead));
    size_t landed = 0, landing = 0;
    for (size_t i = 0; i < parts; ++i) {
      const size_t piece = std::min(into[i].size, data.size);
      CopyBytes(into[i].Sub(0, piece), data.Sub(0, piece));
      data = data.From(piece);
      landed += piece;
      landing += into[i].size;
    }
    FUSEWIRE_CHECK(landing + ahead_max > 0);
    if (landed > 0) handler->OnLanded(landed);
    const size_t ahead = std::min(ahead_max, data.size);
    if (*closed || ahead == 0) continue;
    CopyBytes(Bytes(look_ahead, ahead), data.Sub(0, ahead));
    data = data.From(ahead);
    handler->OnBytes(ConstBytes(look_ahead, ahead));
  }
}

}  // namespace

// In pieces that are too small to count as large copies.
void Feed(ConnectionHandler* handler, const bool* closed, ConstBytes data) {
  FUSEWIRE_DCHECK(handler != nullptr);
  while (!data.empty() && !*closed) {
    const ConstBytes piece = data.Sub(0, std::min(data.size, kCopyBytesMax - 1));
    FeedPiece(handler, closed, piece);
    data = data.From(piece.size);
  }
}

void UcxReceiver::Refuse(const char* what) {
  if (corrupt_.ok()) corrupt_ = Status::Corrupt(std::string("over UCX the peer ") + what);
}

bool UcxReceiver::OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) {
  FUSEWIRE_DCHECK(takes());
  auto refuse = [this](const char* what) {
    Refuse(what);
    return false;
  };
  const bool loan = record.kind == UcxRecordKind::kLoan;
  if (!loan && record.kind != UcxRecordKind::kBytes) return refuse("sent a record of no known kind");
  if (loan != rendezvous || bytes == 0 || bytes > (loan ? kUcxLoanBytesMax : kUcxBytesMax))
    return refuse("sent a record of the wrong size");
  came_cost_ += UcxCost(record.kind, bytes);
  if (came_cost_ - taken_cost_ > kUcxWindowBytes) return refuse("sent more than there is room for");
  // All that may wait fit into this distance.
  if (record.sequence < next_ || record.sequence - next_ > kUcxWindowBytes / kUcxRecordCost)
    return refuse("sent a record out of order");
  const bool fresh = records_.emplace(record.sequence, Record{data, bytes, loan, record.value}).second;
  if (!fresh) return refuse("sent a record twice");
  return true;
}

void UcxReceiver::Drop() {
  dropped_ = true;
  for (const auto& [sequence, record] : records_) end_.worker->GiveBack(record.data);
  records_.clear();
}

size_t UcxReceiver::DeliverNext(ConnectionHandler* handler) {
  FUSEWIRE_CHECK(ready());
  const Record record = records_.begin()->second;
  records_.erase(records_.begin());
  if (record.loan) {
    ReceiveLoan(handler, record);
    FinishLoan(handler);
  } else {
    Feed(handler, &dropped_, ConstBytes(record.data, record.bytes));
    end_.worker->GiveBack(record.data);
    ++next_;
    taken_cost_ += UcxCost(UcxRecordKind::kBytes, record.bytes);
    FUSEWIRE_DCHECK(taken_cost_ <= came_cost_);
  }
  return record.bytes;
}

// Straight into the handler's memory if all of it fits there; else aside, and from there.
void UcxReceiver::ReceiveLoan(ConnectionHandler* handler, const Record& record) {
  FUSEWIRE_CHECK(loan_ == Loan::kNone);
  FUSEWIRE_CHECK(aside_ == nullptr);
  Bytes into[kLandingPartsMax];
  size_t parts = handler->Landing(into, kLandingPartsMax), room = 0, used = 0;
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
  loan_ = Loan::kLanding;
  const ucs_status_t status = end_.worker->Receive(record.data, into, used, &end_);
  if (status != UCS_INPROGRESS) OnReceived(status, record.bytes);
}

void UcxReceiver::OnReceived(ucs_status_t status, size_t bytes) {
  FUSEWIRE_CHECK(receiving());
  loan_ = Loan::kLanded;
  receive_status_ = status == UCS_OK && bytes != receive_bytes_ ? UCS_ERR_MESSAGE_TRUNCATED : status;
  end_.worker->DeliverLater(&end_);
}

void UcxReceiver::FinishLoan(ConnectionHandler* handler) {
  if (loan_ != Loan::kLanded) return;
  loan_ = Loan::kNone;
  const std::unique_ptr<uint8_t[]> aside = std::move(aside_);
  if (receive_status_ != UCS_OK) {
    if (broken_.ok()) {
      broken_ = Status::Unavailable(end_.worker->library().Describe("landing what the peer lent", receive_status_));
    }
    loan_ = Loan::kLost;
    return;
  }
  ++next_;
  taken_cost_ += UcxCost(UcxRecordKind::kLoan, 0);
  FUSEWIRE_DCHECK(taken_cost_ <= came_cost_);
  if (aside == nullptr) {
    handler->OnLanded(receive_bytes_);
    return;
  }
  Feed(handler, &dropped_, ConstBytes(aside.get(), receive_bytes_));
}

}  // namespace fusewire::transport

#endif
