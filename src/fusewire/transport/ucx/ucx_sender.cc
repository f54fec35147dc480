// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_sender.h"

#if FUSEWIRE_HAS_UCX

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {

void UcxSender::Begin(UcxPeer* peer, uint64_t peer_id) {
  FUSEWIRE_CHECK(peer_ == nullptr);
  FUSEWIRE_CHECK(next_ == 0);
  FUSEWIRE_CHECK(peer_id != 0);
  peer_ = peer;
  peer_id_ = peer_id;
}

std::optional<size_t> UcxSender::Write(const ConstBytes* parts, size_t count, uint64_t seen) {
  FUSEWIRE_CHECK(loans_out_ == 0);
  size_t taken = 0;
  if (!full_ && peer_ != nullptr) {
    size_t offered = 0;
    taken = Put(parts, count, &offered, seen);
    FUSEWIRE_DCHECK(taken <= offered);
    full_ = taken < offered;
  }
  if (loans_out_ > 0) {
    lent_answer_ = taken;
    return std::nullopt;
  }
  if (taken == 0) return std::nullopt;  // answered when there is a way, and room
  answered_ = next_;
  return taken;
}

std::optional<size_t> UcxSender::Answer() {
  if (loans_out_ > 0 || peer_ == nullptr) return std::nullopt;
  if (lent_answer_ > 0) {
    answered_ = next_;
    return std::exchange(lent_answer_, 0);
  }
  if (!HasRoom(UcxCost(UcxRecordKind::kBytes, kUcxBytesMax))) return std::nullopt;
  full_ = false;
  return 0;
}

void UcxSender::WriteEarly(ConstBytes bytes, uint64_t seen) {
  for (ConstBytes left = bytes; !left.empty();) {
    const ConstBytes piece = left.Sub(0, std::min<size_t>(left.size, kUcxBytesMax));
    size_t offered = 0;
    if (Put(&piece, 1, &offered, seen) < piece.size) break;  // there is room: UCX has lost the peer
    left = left.From(piece.size);
  }
  FUSEWIRE_CHECK(loans_out_ == 0);
  answered_ = next_;
}

// Small parts side by side in messages, large ones as loans, until there is no room.
size_t UcxSender::Put(const ConstBytes* parts, size_t count, size_t* offered, uint64_t seen) {
  size_t taken = 0;
  bool room = true;
  UcxSend* open = nullptr;
  auto finish = [&] {
    if (open == nullptr) return;
    sent_cost_ += UcxCost(UcxRecordKind::kBytes, open->bytes);
    end_.worker->outbox().Send(peer_, std::exchange(open, nullptr));
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
        end_.worker->outbox().Lend(peer_, NewRecord(UcxRecordKind::kLoan, seen), left.Sub(0, piece), this);
        lent_to_ = next_;
      } else {
        if (open == nullptr) {
          room = HasRoom(UcxCost(UcxRecordKind::kBytes, kUcxBytesMax));
          if (!room) break;
          open = NewRecord(UcxRecordKind::kBytes, seen);
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
  FUSEWIRE_DCHECK(sent_cost_ - taken_by_peer_ <= kUcxWindowBytes);
  return taken;
}

UcxSend* UcxSender::NewRecord(UcxRecordKind kind, uint64_t seen) {
  UcxSend* send = end_.worker->outbox().Take();
  send->record.to = peer_id_;
  send->record.kind = kind;
  send->record.sequence = next_++;
  send->record.value = seen;
  return send;
}

void UcxSender::OnLoanBack(ucs_status_t status) {
  FUSEWIRE_CHECK(loans_out_ > 0);
  --loans_out_;
  if (status != UCS_OK && broken_.ok())
    broken_ = Status::Unavailable(end_.worker->library().Describe("lending", status));
  end_.worker->DeliverLater(&end_);
}

bool UcxSender::OnTaken(uint64_t cost) {
  if (cost > sent_cost_) return false;
  taken_by_peer_ = std::max(taken_by_peer_, cost);
  return true;
}

bool UcxSender::SendTaken(uint64_t cost) {
  if (peer_ == nullptr) return false;
  UcxSend* send = end_.worker->outbox().Take();
  send->record.to = peer_id_;
  send->record.kind = UcxRecordKind::kTaken;
  send->record.value = cost;
  end_.worker->outbox().Send(peer_, send);
  return true;
}

}  // namespace fusewire::transport

#endif
