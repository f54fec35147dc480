// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Loans: the ranks of an arena read each other's large arrays where they are. Each shows at a meeting where its arrays
// are, the others read them, and at the last meeting of the call nobody reads any more. Which calls go that way, see
// loan_choice.h. Home: its rank's thread. Owns: what is known of the other processes. Fails: with a Status that names
// the rank whose memory can't be read any more, which breaks the arena; meetings, as they do.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/arena/loan_choice.h"
#include "fusewire/collective/kernels/pieces.h"

namespace fusewire::collective {

// From this size of a part on, a call of the system may cost less than a second copy.
constexpr size_t kLoanBytesMin = 32 * 1024;
// Above it, a call's arrays don't fit into the caches: memory's own speed counts, and copies that bypass the caches are
// better than the kernel's.
constexpr size_t kLoanBytesMax = 32 << 20;

// Where the ranks' arrays are, each in its own process.
struct LoanPlaces {
  std::array<uint64_t, kArenaRanksMax> from, to;
};

class Loans {
 public:
  // processes[r] is rank r's, 0 if it is not known; none at all: this rank reads nobody's memory.
  Loans(ArenaMeeting* meeting, std::vector<pid_t> processes, LoanRule rule);

  // How this call goes, which all ranks make with these sizes.
  Result<Way> Begin(const ArenaCall& call, CollectiveKind kind, size_t bytes, size_t part_bytes, int64_t deadline_ns);
  void End() { choice_.End(); }
  // The first meeting of a call whose kind and size are known: rank 0 shows there how the next such call goes.
  Status MeetFirst(const ArenaCall& call, int64_t deadline_ns);
  // At the next meeting, shows where this rank's arrays are, if others can read what they need of them meanwhile.
  void Offer(const Pieces& from, const Pieces& to, bool readable);
  // Whether all ranks lend, as they have shown at meeting `stage`. If not, the call goes through shares.
  bool AllLend(uint64_t stage, LoanPlaces* places);
  Status Read(const ArenaCall& call, int rank, uint64_t address, uint8_t* to, size_t bytes);

 private:
  // Whether all ranks can read each other's memory; all come to the same result.
  Status Try(const ArenaCall& call, int64_t deadline_ns);
  bool CanRead(int rank, const ArenaTable& table) const;

  ArenaMeeting* const meeting_;
  const std::vector<pid_t> processes_;
  const LoanRule rule_;
  bool tried_ = false;
  bool can_ = false;
  LoanChoice choice_;
};

// A call, from Begin to its end, however that comes.
class LoanTurn {
 public:
  explicit LoanTurn(Loans* loans) : loans_(loans) {}
  ~LoanTurn() { loans_->End(); }
  LoanTurn(const LoanTurn&) = delete;
  LoanTurn& operator=(const LoanTurn&) = delete;

 private:
  Loans* const loans_;
};

}  // namespace fusewire::collective
