// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How ranks agree on an arena.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/collective/group/arena_lane.h"
#include "fusewire/collective/group/group_core.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/shm/gathering.h"
#include "fusewire/transport/shm/others_memory.h"

namespace fusewire::collective {
namespace {

constexpr size_t kNameBytes = 63;
// How long ranks wait for each other at the gathering: all of them are on their way when it opens.
constexpr int64_t kGatherNs = 5 * kSecondNs;

}  // namespace

// Turn 0 is an all-reduce with max: byte 0 is 1 if a rank can't share memory, the rest is the name of rank 0's
// gathering. Then all ranks meet there, and turn 1 succeeds once all have. A rank that has not met the others sends
// them the failure of turn 1.
void ArenaLane::SetUp(int64_t deadline_ns) {
  uint32_t epoch = 0;
  const auto setting_up = std::make_shared<SettingUp>();
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
    setting_up_ = setting_up;
    if (is_given_up_) setting_up->messages.Cancel();
    if (is_given_up_ || set_up_failed_ || way_ == Way::kMessages) setting_up->gathering.Cancel();
  }
  const int ranks = core_->ranks(), rank = core_->rank();
  std::array<uint8_t, 1 + kNameBytes> told = {};
  Status able = core_->endpoint().may_share() ? Status::Ok() : Status::Refused("its transport shares no memory");
  ArenaOptions options;
  // Larger shares need fewer meetings; those of two ranks still fit into the caches.
  if (ranks <= 2) options.share_bytes = 512 * 1024;
  std::unique_ptr<transport::Gathering> gathering;
  transport::Fd memory;
  if (able.ok() && rank == 0) {
    Result<int> made = CreateArenaMemory(ranks, options);
    Result<std::unique_ptr<transport::Gathering>> opened = transport::Gathering::Open();
    able = !made.ok() ? made.status() : opened.status();
    if (made.ok()) memory = transport::Fd(made.value());
    if (opened.ok()) gathering = std::move(opened).value();
    if (able.ok()) {
      FUSEWIRE_CHECK(gathering->name().size() < kNameBytes);
      std::copy(gathering->name().begin(), gathering->name().end(), told.begin() + 1);
    }
  }
  told[0] = able.ok() ? 0 : 1;
  const Status heard = RunOverMessages(0, Bytes(told.data(), told.size()), deadline_ns, &setting_up->messages);
  if (able.ok() && !heard.ok()) able = heard;
  if (able.ok() && told[0] != 0) able = Status::Refused("another rank shares no memory");

  std::unique_ptr<Arena> arena;
  if (able.ok()) {
    // Other ranks contribute to it too, so it may lack its terminating 0.
    const auto* first = reinterpret_cast<const char*>(told.data() + 1);
    const std::string name(first, strnlen(first, kNameBytes));
    const int64_t end_ns = std::min(deadline_ns, AddNs(Clock::Real()->NowNs(), kGatherNs));
    Result<transport::Gathered> gathered = rank == 0
                                               ? gathering->Hand(memory.get(), ranks, end_ns, &setting_up->gathering)
                                               : transport::ComeTo(name, rank, ranks, end_ns, &setting_up->gathering);
    gathering.reset();  // if it has failed, this ends the wait of the other ranks
    able = gathered.status();
    if (able.ok()) {
      ArenaSeat seat;
      seat.memory = gathered.value().file.get();
      seat.rank = rank;
      seat.ranks = ranks;
      seat.waits = &record_;
      for (transport::Fd& life : gathered.value().lives) {
        seat.processes.push_back(life.valid() ? transport::ProcessOf(life.get()) : 0);
        seat.lives.push_back(life.Release());
      }
      core_->home().Run([this, &seat, ranks] {
        for (int other = 0; other < ranks; ++other) seat.names.push_back(core_->NameOf(other));
      });
      Result<std::unique_ptr<Arena>> joined = Arena::Join(std::move(seat), options);
      able = joined.status();
      if (able.ok()) arena = std::move(joined).value();
    }
  }
  const bool all_try = heard.ok() && told[0] == 0;
  if (all_try && !able.ok()) {
    // At once, since the others may wait for this rank.
    core_->home().Post([core = core_->shared_from_this(), epoch, able] { core->SendFailed(epoch, 1, able); });
  } else {
    uint8_t nothing = 0;
    const Status agreed = RunOverMessages(1, Bytes(&nothing, 1), deadline_ns, &setting_up->messages);
    if (able.ok() && !agreed.ok()) able = agreed;
  }
  if (!able.ok()) {
    Tell(able);
    if (arena != nullptr) arena->Close();
  }
  MutexLock lock(mutex_);
  setting_up_.reset();
  if (way_ != Way::kUntried || epoch_ != epoch) {
    if (arena != nullptr) arena->Close();
    return;
  }
  way_ = able.ok() ? Way::kArena : Way::kMessages;
  served_turns_ = kSetUpTurns;
  if (able.ok()) arena_ = std::move(arena);
}

// A warning if the machine prevents an arena; only information if the configuration excludes it, or the group ends.
void ArenaLane::Tell(const Status& why) const {
  const bool is_chosen = !core_->endpoint().may_share() || why.code() == Code::kCancelled;
  const LogLevel level = is_chosen ? LogLevel::kInfo : LogLevel::kWarn;
  if (level < GetLogLevel()) return;
  WriteLog(level, "group %s: its ranks share no arena, so collectives go over messages: %s",
           core_->options().name.c_str(), why.ToString().c_str());
}

Status ArenaLane::RunOverMessages(uint64_t turn, Bytes told, int64_t deadline_ns, reactor::CancelToken* cancel) {
  auto operation = std::make_unique<GroupOperation>();
  CollectiveSpec& spec = operation->spec;
  spec.kind = CollectiveKind::kAllReduce;
  spec.reduction.op = Op::kMax;
  spec.reduction.type = Type::kU8;
  spec.counts = {told.size};
  spec.to = Pieces(told.data, told.size);
  spec.timeout_ns = deadline_ns == kForeverNs ? kForeverNs : std::max<int64_t>(deadline_ns - Clock::Real()->NowNs(), 1);
  {
    MutexLock lock(mutex_);
    operation->given_epoch = epoch_;
  }
  operation->given_turn = turn;
  operation->cancel = cancel;
  return core_->RunOverMessages(std::move(operation));
}

}  // namespace fusewire::collective
