// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/arena_session.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/collective/group/group_operation.h"

namespace fusewire::collective {

bool ArenaSession::IsLegal(Phase from, Phase to) {
  switch (to) {
    case Phase::kUntried: return true;
    case Phase::kAgreeing: return from == Phase::kUntried;
    case Phase::kOpen: return from == Phase::kAgreeing;
    case Phase::kMessages: return true;
  }
  return false;
}

void ArenaSession::Enter(Phase phase) {
  FUSEWIRE_DCHECK(IsLegal(phase_, phase));
  phase_ = phase;
  FUSEWIRE_DCHECK((agreement_ != nullptr) || phase_ != Phase::kAgreeing);
  FUSEWIRE_DCHECK((arena_ != nullptr) || phase_ != Phase::kOpen);
}

Arena* ArenaSession::ArenaOf(uint32_t epoch) {
  if (phase_ == Phase::kOpen && arena_->closed()) Enter(Phase::kMessages);
  return phase_ == Phase::kOpen && epoch_ == epoch ? arena_.get() : nullptr;
}

// shared_ptr: see the header.
std::shared_ptr<Agreement> ArenaSession::BeginAgreeing(uint32_t epoch) {
  if (phase_ != Phase::kUntried || epoch_ != epoch) return nullptr;
  agreement_ = std::make_shared<Agreement>();
  if (agreement_failed_) agreement_->gathering.Cancel();
  Enter(Phase::kAgreeing);
  return agreement_;
}

void ArenaSession::EndAgreeing(uint32_t epoch, std::unique_ptr<Arena> arena) {
  agreement_.reset();
  if (phase_ != Phase::kAgreeing || epoch_ != epoch) {
    if (arena != nullptr) arena->Close();
    return;
  }
  served_turns_ = kSetUpTurns;
  arena_ = std::move(arena);
  Enter(arena_ != nullptr ? Phase::kOpen : Phase::kMessages);
}

// The token's hook only writes to an eventfd: it may run under the lock.
void ArenaSession::FailAgreement() {
  agreement_failed_ = true;
  if (agreement_ != nullptr) agreement_->gathering.Cancel();
}

void ArenaSession::PassOn(uint32_t epoch, uint64_t turn) {
  if (epoch == epoch_) messages_from_ = std::min(messages_from_, turn);
}

void ArenaSession::Close() {
  if (agreement_ != nullptr) agreement_->gathering.Cancel();
  Interrupt();
  Enter(Phase::kMessages);
}

bool ArenaSession::Close(const Arena& arena) {
  if (phase_ != Phase::kOpen || arena_.get() != &arena) return false;
  Close();
  return true;
}

void ArenaSession::Reopen(uint32_t epoch, bool several_ranks, bool in_use) {
  FUSEWIRE_DCHECK(epoch >= epoch_);
  Close();
  if (in_use && arena_ != nullptr) retired_ = std::move(arena_);
  arena_.reset();
  epoch_ = epoch;
  served_turns_ = 0;
  messages_from_ = kNever;
  agreement_failed_ = false;
  if (several_ranks) Enter(Phase::kUntried);
}

}  // namespace fusewire::collective
