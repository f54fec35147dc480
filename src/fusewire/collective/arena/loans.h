// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Loans: the ranks of an arena read each other's large arrays where they are. Each shows at a meeting where its arrays
// are, the others read them, and at the last meeting of the call nobody reads any more. LoanChoice
// says which calls do. Home: its rank's thread. Owns: what is known of the other processes. Fails: with a Status that
// names the rank whose memory can't be read any more, which breaks the arena; meetings, as they do.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/arena/arena_options.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

// Whether large arrays of an arena's ranks go through shares, or are lent: the others read them where they are, which
// saves a copy. Rank 0 times both ways, for each kind and size of call, and tells the others with each call how the
// next one of that kind and size goes; so all ranks know the way of a call before they meet for it. Home: its rank's
// thread. Owns: what it has measured.
enum class Way : uint8_t { kShares = 0, kLoans = 1 };

class LoanChoice {
 public:
  LoanChoice(int rank, LoanRule rule) : rank_(rank), rule_(rule) {}

  // A call begins, and these are its kind and size. Its way; at rank 0, the clock starts.
  Way Begin(CollectiveKind kind, size_t bytes);
  // At the first meeting after Begin: rank 0 shows the way of the next such call, and all take it over.
  bool has_to_agree() const { return entry_ != nullptr && !agreed_; }
  Way Next();
  void Agree(uint64_t next);
  // All ranks' arrays had to be in one piece, and they were not.
  void OnRefused();
  // May be called without a Begin.
  void End();

 private:
  // How rank 0 judges one kind and size of call.
  struct Entry {
    Way way = Way::kLoans;  // of the next call
    // The rest is rank 0's.
    uint32_t calls = 0;
    Way better = Way::kLoans, last = Way::kLoans;
    uint32_t in_a_row = 0;                     // calls that went the last one's way
    std::array<int64_t, 2> costs_ns = {0, 0};  // of each way; 0: not measured
  };
  static constexpr size_t kSizes = 64;

  const int rank_;
  const LoanRule rule_;
  std::array<std::array<Entry, kSizes>, kKinds> entries_;
  // Of the call under way.
  Entry* entry_ = nullptr;
  Way way_ = Way::kShares;
  bool agreed_ = false;
  int64_t since_ns_ = 0;
};

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

// A call, from Begin to its end, also after an error.
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
