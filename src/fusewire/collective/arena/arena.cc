// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An arena from Join to Close. Its collectives are in arena_reductions.cc and arena_moves.cc.
#include "fusewire/collective/arena/arena.h"

#include <algorithm>
#include <utility>

#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/arena/arena_steps.h"
#include "fusewire/collective/arena/loans.h"

namespace fusewire::collective {
namespace {

constexpr size_t kOneShotBytes = 16 * 1024;

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Join(ArenaSeat seat, const ArenaOptions& options) {
  const int memory = seat.memory;
  std::unique_ptr<Arena> arena(new Arena(std::move(seat), options));
  FUSEWIRE_TRY(arena->meeting_->Join(memory));
  return arena;
}

Arena::Arena(ArenaSeat seat, const ArenaOptions& options)
    : rank_(seat.rank),
      ranks_(seat.ranks),
      meeting_(std::make_unique<ArenaMeeting>(seat, options)),
      loans_(std::make_unique<Loans>(meeting_.get(), std::move(seat.processes), options.loans)),
      reductions_(std::make_unique<ArenaReductions>(
          meeting_.get(), loans_.get(),
          std::min(options.one_shot_bytes != 0 ? options.one_shot_bytes : kOneShotBytes, options.share_bytes))),
      moves_(std::make_unique<ArenaMoves>(meeting_.get(), loans_.get())) {}

Arena::~Arena() = default;

Status Arena::Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns) {
  if (spec.kind == CollectiveKind::kBarrier)
    return meeting_->Meet(ArenaCall::Of(CollectiveKind::kBarrier, {}, kNoRoot, 0), deadline_ns);
  return Reduces(spec.kind) ? reductions_->Run(spec, arrays, deadline_ns) : moves_->Run(spec, arrays, deadline_ns);
}

Status Arena::Decline(Code why, int64_t deadline_ns) { return meeting_->Decline(why, deadline_ns); }

void Arena::Close() { meeting_->Close(); }

bool Arena::closed() const { return meeting_->closed(); }

void Arena::SetCancel(reactor::CancelToken* cancel) { meeting_->SetCancel(cancel); }

const ArenaCounts& Arena::counts() const { return meeting_->counts(); }

}  // namespace fusewire::collective
