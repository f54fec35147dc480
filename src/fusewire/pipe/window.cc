// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/window.h"

#include <algorithm>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {
namespace {

// Room of this size is granted without being asked for.
constexpr uint64_t kGrantBytes = 64 * 1024;
// A peer that has sent this many messages while we sent nothing is not waiting for an answer that could carry credit.
constexpr uint64_t kStreamMessages = 4;
// A pipe's window grows to this share of the free half of the budget.
constexpr uint64_t kGrowthShare = 64;
// The small waiting messages that an honest peer may send ahead of one that is larger than the whole budget.
constexpr uint64_t kLargeSlackBytes = 64 << 20;

uint64_t AddBytes(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// A pipe that holds no more than this is not ended, however little is left for others.
constexpr uint64_t kPipeBytesMax = 16 << 20;

// A period, in times of silent_ns_max. More than one: it may be a while before a recall reaches the peer.
constexpr int64_t kPeriodSilences = 3;
constexpr uint64_t kSlowestBytesPerS = 64 * 1024;
constexpr uint64_t kPeriodsMax = 240;
// If our own loop stood still, the peer is not to blame.
constexpr int64_t kLooksPerSilence = 4;

}  // namespace

void SendWindow::Take(uint64_t cost) {
  FUSEWIRE_CHECK(CanSend(cost));
  sent_ += cost;
}

Status SendWindow::OnCredit(uint64_t bytes) {
  if (bytes > wire::kWindowBytesMax - limit_) {
    return Status::Corrupt("credit for " + std::to_string(bytes) + " bytes on top of " + std::to_string(limit_) +
                           " is more than can be counted");
  }
  limit_ += bytes;
  return Status::Ok();
}

bool SendWindow::Want(uint64_t cost, uint64_t* position) {
  uint64_t next = sent_ + cost;
  bool is_asked_for = wanted_ > limit_;  // by what the peer knows
  if (next <= limit_ && !is_asked_for) return false;
  if (next == wanted_) return false;
  // Also when it is less than before, because what waited was taken back: the peer must not hold budget for it.
  *position = wanted_ = next;
  FUSEWIRE_DCHECK(sent_ <= wanted_);
  return true;
}

uint64_t SendWindow::GiveBack() {
  FUSEWIRE_DCHECK(sent_ <= limit_);
  if (unused() <= standing_) return 0;
  uint64_t extra = unused() - standing_;
  limit_ -= extra;
  wanted_ = 0;
  return extra;
}

void ReceiveWindow::DcheckSums() const {
  FUSEWIRE_DCHECK(consumed_ <= received_);
  FUSEWIRE_DCHECK(received_ <= granted_);
  FUSEWIRE_DCHECK(exposed() <= standing_ + reserved_bytes());
  FUSEWIRE_DCHECK(large_ <= unconsumed_bytes());
  FUSEWIRE_DCHECK(!waiting_ || !closed_);
}

Status ReceiveWindow::OnReceived(uint64_t cost) {
  if (cost > granted_ - received_) {
    return Status::Corrupt("a message of " + std::to_string(cost) + " window bytes came with credit for " +
                           std::to_string(granted_ - received_));
  }
  FUSEWIRE_DCHECK(!closed_);
  received_ += cost;
  ++unanswered_;
  DcheckSums();
  const uint64_t budget_bytes = budget_.limit_bytes();
  if (cost > budget_bytes && large_ == 0) {
    large_ = cost;
  } else if (unconsumed_bytes() - large_ > AddBytes(budget_bytes, standing_ + kLargeSlackBytes)) {
    return Status::Overloaded(
               "credit for one large message was filled with others: " + std::to_string(unconsumed_bytes()) +
               " bytes are held, and the budget is " + std::to_string(budget_bytes))
        .Next("raise receive_budget_bytes, or look at the peer: it may not be ours");
  }
  return Status::Ok();
}

void ReceiveWindow::Consume(uint64_t cost) {
  FUSEWIRE_CHECK(cost <= received_ - consumed_);
  consumed_ += cost;
  if (cost == large_) large_ = 0;
  share_.Used(cost);
  // Others wait: the budget that this message held is for them, and is not granted to our peer again.
  if (reserved_bytes() > 0 && budget_.wanted()) Shrink();
  DcheckSums();
}

void ReceiveWindow::OnWant(uint64_t position, uint64_t message_bytes_max, uint64_t arriving) {
  FUSEWIRE_DCHECK(granted_ <= wire::kWindowBytesMax);
  FUSEWIRE_DCHECK(arriving <= unconsumed_bytes());
  // Also if what it asks for has been granted meanwhile: it had to ask because that is on its way for so long.
  grows_ |= position > wanted_ && unconsumed_bytes() - arriving <= exposed() / 2;
  uint64_t useful = std::min(message_bytes_max + standing_, wire::kWindowBytesMax - granted_);
  wanted_ = std::min(position, granted_ + useful);
}

Status ReceiveWindow::OnReturn(uint64_t bytes) {
  if (bytes > granted_ - received_) {
    return Status::Corrupt("the peer gives back " + std::to_string(bytes) + " bytes of credit and has " +
                           std::to_string(granted_ - received_));
  }
  granted_ -= bytes;
  returned_ += bytes;
  wanted_ = 0;  // a peer that gives back has nothing waiting
  Shrink();
  return Status::Ok();
}

// Keeps of the budget what the standing window does not cover.
void ReceiveWindow::Shrink() {
  uint64_t needed = exposed() > standing_ ? exposed() - standing_ : 0;
  if (needed >= reserved_bytes()) return;
  share_.Release(reserved_bytes() - needed);
  DcheckSums();
}

uint64_t ReceiveWindow::TakeGrant(int64_t now_ns, int64_t idle_ns, bool goes_along) {
  if (closed_) return 0;
  if (goes_along) unanswered_ = 0;
  uint64_t need = wanted_ > granted_ ? wanted_ - granted_ : 0;
  if (need > room()) {
    waiting_ = !share_.TryReserve(need - room(), now_ns, idle_ns);
    if (waiting_) {
      Shrink();  // a pipe that waits holds nothing idle
      waiting_ = !share_.TryReserve(need - room(), now_ns, idle_ns);
    }
  } else if (waiting_) {
    share_.GiveUp();
    waiting_ = false;
  }
  if (std::exchange(grows_, false) && !waiting_) Grow(now_ns, idle_ns);
  // Seldom enough to be cheap; early enough that a steady sender never stops, and that small messages go on beside a
  // large one that fills the window, or waits for the budget.
  const uint64_t all = standing_ + reserved_bytes();
  const bool may_wait = !goes_along && unanswered_ < kStreamMessages && need == 0;
  bool is_worth_a_frame = room() >= (may_wait ? all / 2 : std::min(all / 4, kGrantBytes));
  uint64_t grant = is_worth_a_frame ? room() : waiting_ ? 0 : need;
  granted_ += grant;
  DcheckSums();
  return grant;
}

// Otherwise a sender of many messages that together are more than the path holds would wait a round trip for each few.
void ReceiveWindow::Grow(int64_t now_ns, int64_t idle_ns) {
  const uint64_t used = budget_.used_bytes(), half = budget_.limit_bytes() / 2;
  const uint64_t share = used < half ? (half - used) / kGrowthShare : 0;
  const uint64_t reserved = reserved_bytes();
  if (share < reserved + kGrantBytes || budget_.wanted()) return;
  const uint64_t more = std::min(standing_ + reserved, share - reserved);
  if (share_.TryReserve(more, now_ns, idle_ns)) {
    share_.Used(more);  // no message is waiting for it
  } else {
    share_.GiveUp();
  }
}

bool ReceiveWindow::IsWanted() {
  if (reserved_bytes() == 0 || !budget_.wanted()) return false;
  Shrink();
  return true;
}

void ReceiveWindow::Close() {
  closed_ = true;
  granted_ = received_;
  wanted_ = 0;
  waiting_ = false;
  Shrink();
  share_.GiveUp();
}

// ---- pieces ----

Pieces::~Pieces() {
  if (taken_bytes_ > 0) budget_->GiveBack(taken_bytes_);
}

Status Pieces::Take() {
  const uint64_t more = held_bytes_ - taken_bytes_;
  taken_bytes_ = held_bytes_;
  const bool fits = budget_->Take(more);
  if (fits || held_bytes_ <= kPipeBytesMax) return Status::Ok();
  return Status::Overloaded("the peer's messages have " + std::to_string(held_bytes_ / kPieceBytes) +
                            " segments that are not consumed, and the budget is used up")
      .Next("put more into each segment, or raise receive_budget_bytes");
}

void Pieces::GiveBack() {
  const uint64_t less = taken_bytes_ - held_bytes_;
  taken_bytes_ -= less;
  budget_->GiveBack(less);
}

// ---- recall ----

Recall::Recall(int64_t silent_ns_max)
    : look_ns_max_(silent_ns_max / kLooksPerSilence), period_ns_(kPeriodSilences * silent_ns_max) {}

bool Recall::Look(uint64_t held_bytes, uint64_t moved_bytes, bool wanted, int64_t now_ns) {
  FUSEWIRE_DCHECK(looked_ns_ <= now_ns);
  const int64_t passed_ns = std::min(now_ns - std::exchange(looked_ns_, now_ns), look_ns_max_);
  if (!in_period_ || held_bytes == 0 || moved_bytes >= due_bytes_) {
    in_period_ = held_bytes > 0;
    due_bytes_ = moved_bytes + ShareOf(held_bytes);
    waited_ns_ = 0;
    return false;
  }
  // Time in which nobody waits does not count, and does not begin the period anew.
  if (wanted) waited_ns_ += passed_ns;
  return waited_ns_ >= period_ns_;
}

uint64_t Recall::ShareOf(uint64_t held_bytes) const {
  const uint64_t slowest = kSlowestBytesPerS * static_cast<uint64_t>(period_ns_ / kMillisecondNs) / 1000;
  return std::min(held_bytes, std::max(slowest, held_bytes / kPeriodsMax));
}

}  // namespace fusewire::pipe
