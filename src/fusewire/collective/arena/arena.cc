// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An arena from Join to Close. arena_collectives.cc has its collectives.
#include "fusewire/collective/arena/arena.h"

#include <algorithm>
#include <utility>

#include "fusewire/collective/arena/arena_meeting.h"

namespace fusewire {
namespace collective {
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
      one_shot_bytes_(
          std::min(options.one_shot_bytes != 0 ? options.one_shot_bytes : kOneShotBytes, options.share_bytes)),
      meeting_(std::make_unique<ArenaMeeting>(std::move(seat), options)) {}

Arena::~Arena() = default;

Status Arena::Decline(Code why, int64_t deadline_ns) { return meeting_->Decline(why, deadline_ns); }

void Arena::Close() { meeting_->Close(); }

bool Arena::closed() const { return meeting_->closed(); }

void Arena::SetCancel(reactor::CancelToken* cancel) { meeting_->SetCancel(cancel); }

const ArenaCounts& Arena::counts() const { return meeting_->counts(); }

}  // namespace collective
}  // namespace fusewire
