// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The layout of the memory that ranks share.
//   ArenaHeader | ArenaPosts of each rank | ArenaTable of each rank, thrice | share of each rank, thrice
//   1 page        256 B each                832 B each                        share_bytes each
// A rank writes only its own posts, tables and shares, and the words of the header. Meetings are numbered: meeting m
// uses post, table and share number m % 3. One of the three is being written while another is reduced, and a late rank
// may still read the third. Home: shared. Fails: never; a reader loads each word once and trusts none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fusewire/collective/arena/arena_options.h"

namespace fusewire::collective {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kArenaPageBytes = 4096;
constexpr uint64_t kArenaMagic = 0x33616e6572416677;  // "wfArena3"
constexpr uint64_t kTurns = 3;
constexpr size_t kTinyBytesMax = 40;  // the room beside the words of a post, in one cache line

// Padded on purpose: each word that ranks write has a cache line of its own.
struct ArenaHeader {  // NOLINT(clang-analyzer-optin.performance.Padding): see above
  uint64_t magic;
  uint64_t ranks;
  uint64_t share_bytes;
  uint64_t one_shot_bytes;
  // A futex: rises by two when a meeting is complete; bit 0 is set while a rank sleeps.
  alignas(kCacheLineBytes) std::atomic<uint32_t> bell;
  // Rises when a rank has seen another one die: each rank then checks its life lines at once.
  alignas(kCacheLineBytes) std::atomic<uint32_t> revoked;
  // Not 0: closed, and no further meeting completes.
  std::atomic<uint32_t> closed;
};

// `progress` is the number of the meeting; it is written last.
struct alignas(kCacheLineBytes) ArenaPost {
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> kind_op_type_root;
  std::atomic<uint64_t> amount;
  uint8_t tiny[kTinyBytesMax];
};

// Padded: a processor fetches cache lines in pairs, and the posts of two ranks must not share a pair.
struct ArenaPosts {
  ArenaPost of[kTurns];
  uint8_t padding[kCacheLineBytes];
};

// The bytes that a rank sends to each rank, then those that it expects from each; and what loans.h tells of.
struct alignas(kCacheLineBytes) ArenaTable {
  std::atomic<uint64_t> send[kArenaRanksMax];
  std::atomic<uint64_t> receive[kArenaRanksMax];
  // Where its arrays are, in its own process, and whether each is in one piece that others may read; or its probe, and
  // whether it can read all others'.
  std::atomic<uint64_t> from;
  std::atomic<uint64_t> to;
  std::atomic<uint64_t> lends;
  std::atomic<uint64_t> next_way;  // rank 0's
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share these words");
static_assert(sizeof(std::atomic<uint32_t>) == 4, "the kernel reads the bell");
static_assert(sizeof(ArenaHeader) <= kArenaPageBytes, "the header has a page of its own");
static_assert(sizeof(ArenaPost) == kCacheLineBytes, "a post and its tiny array are one cache line");
static_assert(sizeof(ArenaPosts) == 4 * kCacheLineBytes, "as drawn above");
static_assert(sizeof(ArenaTable) == 13 * kCacheLineBytes, "as drawn above");

}  // namespace fusewire::collective
