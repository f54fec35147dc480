// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What lies where in the memory that ranks share.
//
//   ArenaHeader | ArenaPosts of each rank | ArenaTable of each rank, thrice | share of each rank, thrice
//   1 page        256 B each                768 B each                        share_bytes each
//
// A rank writes into its own posts, tables and shares alone, and into the words of the header. Meetings are
// numbered; what is shown at meeting m lies in the m % 3 rd post, table and share: one is being written while another
// is reduced and the third is still read by whoever is late. Home: shared. Owns: nothing. Fails: never; a reader takes
// each word once and trusts none of it.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_ARENA_LAYOUT_H_
#define FUSEWIRE_COLLECTIVE_ARENA_ARENA_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fusewire/collective/arena/arena_options.h"

namespace fusewire {
namespace collective {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kArenaPageBytes = 4096;
constexpr uint64_t kArenaMagic = 0x32616e6572416677;  // "wfArena2"
constexpr uint64_t kTurns = 3;
constexpr size_t kTinyBytesMax = 40;  // what fits beside the words of a post, in one cache line

// Padded on purpose: each word that ranks write has a cache line of its own.
struct ArenaHeader {  // NOLINT(clang-analyzer-optin.performance.Padding): see above
  uint64_t magic;
  uint64_t ranks;
  uint64_t share_bytes;
  uint64_t one_shot_bytes;
  // A futex: rises by two when a meeting is complete; bit 0 says that somebody sleeps.
  alignas(kCacheLineBytes) std::atomic<uint32_t> bell;
  // Rises when somebody saw a rank die: look at your life lines now.
  alignas(kCacheLineBytes) std::atomic<uint32_t> revoked;
  // Once not 0, nobody meets here any more.
  std::atomic<uint32_t> closed;
};

// Progress is the number of the meeting, written last.
struct alignas(kCacheLineBytes) ArenaPost {
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> kind_op_type_root;
  std::atomic<uint64_t> amount;
  uint8_t tiny[kTinyBytesMax];
};

// Padded: a processor fetches lines in pairs, and two ranks' must not be one pair.
struct ArenaPosts {
  ArenaPost of[kTurns];
  uint8_t padding[kCacheLineBytes];
};

// What a rank sends to each rank, then what it expects from each.
struct alignas(kCacheLineBytes) ArenaTable {
  std::atomic<uint64_t> send[kArenaRanksMax];
  std::atomic<uint64_t> receive[kArenaRanksMax];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share these words");
static_assert(sizeof(std::atomic<uint32_t>) == 4, "the kernel reads the bell");

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_ARENA_LAYOUT_H_
