// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "fusewire/base/sanitizers.h"
#include "fusewire/collective/schedule/interpreter_test.h"
#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

constexpr uint64_t kUntouched = 0xdeadbeefdeadbeefULL;

uint64_t Number(size_t rank, size_t i) { return (rank + 1) * 1000003 + i * 17; }
uint64_t Sum(uint64_t a, uint64_t b) { return a + b; }
// Neither associative nor commutative, so the result tells in which order the ranks were combined.
uint64_t Ordered(uint64_t a, uint64_t b) { return a * 0x9e3779b97f4a7c15ULL + b; }

// One collective of all ranks: what each holds before, and shall hold after.
struct Case {
  CollectiveKind kind;
  Algorithm algorithm;
  size_t n = 1;
  size_t root = 0;
  std::vector<size_t> counts;  // the all-to-all's: of every pair, row by row
  bool in_place = false;
  size_t segment_count = 8;
  std::vector<int> hosts = {};
  Algorithm between = Algorithm::kBinomial;

  std::string ToString() const {
    std::string text = KindName(kind) + " by " + AlgorithmName(algorithm) + ", n " + std::to_string(n) + ", root " +
                       std::to_string(root) + (in_place ? ", in place" : "") + ", counts";
    for (const size_t count : counts) text += " " + std::to_string(count);
    if (!hosts.empty()) text += ", " + AlgorithmName(between) + " between hosts";
    for (const int host : hosts) text += " " + std::to_string(host);
    return text;
  }
  Request RequestOf(size_t rank) const {
    Request request;
    request.kind = kind;
    request.algorithm = algorithm;
    request.ranks = static_cast<int>(n);
    request.rank = static_cast<int>(rank);
    request.root = static_cast<int>(root);
    request.in_place = in_place;
    request.segment_count = segment_count;
    request.hosts = hosts;
    request.between = between;
    if (kind != CollectiveKind::kAllToAll) {
      request.counts = counts;
      return request;
    }
    if (counts.size() == 1) {
      request.counts = counts;
      return request;
    }
    for (size_t peer = 0; peer < n; ++peer) {
      request.counts.push_back(counts[rank * n + peer]);
      request.receives.push_back(counts[peer * n + rank]);
    }
    return request;
  }
};

Numbers Ramp(size_t rank, size_t from, size_t count) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = Number(rank, from + i);
  return numbers;
}

Numbers Folded(size_t n, size_t from, size_t count, Combine combine) {
  Numbers numbers = Ramp(0, from, count);
  for (size_t rank = 1; rank < n; ++rank) {
    for (size_t i = 0; i < count; ++i) numbers[i] = combine(numbers[i], Number(rank, from + i));
  }
  return numbers;
}

void Append(Numbers* to, const Numbers& more) { to->insert(to->end(), more.begin(), more.end()); }

Numbers InputOf(const Case& c, size_t rank) {
  const size_t all = std::accumulate(c.counts.begin(), c.counts.end(), size_t{0});
  switch (c.kind) {
    case CollectiveKind::kBarrier: return {};
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce: return Ramp(rank, 0, c.counts[0]);
    case CollectiveKind::kBroadcast: return rank == c.root ? Ramp(rank, 0, c.counts[0]) : Numbers{};
    case CollectiveKind::kReduceScatter: return Ramp(rank, 0, all);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather: return Ramp(rank, 0, c.counts[rank]);
    case CollectiveKind::kScatter: return rank == c.root ? Ramp(rank, 0, all) : Numbers{};
    case CollectiveKind::kAllToAll: {
      Numbers numbers;
      for (size_t peer = 0; peer < c.n; ++peer)
        Append(&numbers, Ramp(rank * 100 + peer, 0, c.counts[c.counts.size() == 1 ? 0 : rank * c.n + peer]));
      return numbers;
    }
  }
  return {};
}

Numbers OutputOf(const Case& c, size_t rank, Combine combine) {
  const Blocks blocks(c.counts);
  Numbers numbers;
  switch (c.kind) {
    case CollectiveKind::kBarrier: return {};
    case CollectiveKind::kAllReduce: return Folded(c.n, 0, c.counts[0], combine);
    case CollectiveKind::kReduce: return rank == c.root ? Folded(c.n, 0, c.counts[0], combine) : Numbers{};
    case CollectiveKind::kBroadcast: return Ramp(c.root, 0, c.counts[0]);
    case CollectiveKind::kReduceScatter: return Folded(c.n, blocks.at(rank), blocks.count(rank), combine);
    case CollectiveKind::kGather:
      if (rank != c.root) return {};
      [[fallthrough]];
    case CollectiveKind::kAllGather:
      for (size_t peer = 0; peer < c.n; ++peer) Append(&numbers, Ramp(peer, 0, c.counts[peer]));
      return numbers;
    case CollectiveKind::kScatter: return Ramp(c.root, blocks.at(rank), blocks.count(rank));
    case CollectiveKind::kAllToAll:
      for (size_t peer = 0; peer < c.n; ++peer)
        Append(&numbers, Ramp(peer * 100 + rank, 0, c.counts[c.counts.size() == 1 ? 0 : peer * c.n + rank]));
      return numbers;
  }
  return {};
}

// Where the smaller array lies within the larger one, in place.
size_t ShiftOf(const Case& c, size_t rank, size_t input, size_t output) {
  return input == output || c.kind == CollectiveKind::kAllReduce ? 0 : Blocks(c.counts).at(rank);
}

struct Totals {
  size_t messages = 0;
  size_t moved = 0;
};

void Play(const Case& c, Combine combine, uint64_t seed, Totals* totals = nullptr) {
  SCOPED_TRACE(c.ToString() + ", seed " + std::to_string(seed));
  std::vector<Player> players(c.n);
  std::vector<Memory> where(c.n, Memory::kOutput);
  std::vector<size_t> shift(c.n, 0);
  Totals counted;
  for (size_t rank = 0; rank < c.n; ++rank) {
    Result<Schedule> schedule = Compile(c.RequestOf(rank));
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
    Player& player = players[rank];
    player.schedule = std::move(schedule).value();
    const Load load = LoadOf(player.schedule);
    counted.messages += load.messages;
    counted.moved += load.sent;
    const Numbers input = InputOf(c, rank);
    const size_t output = OutputOf(c, rank, combine).size();
    player.memory[2].assign(player.schedule.scratch_count, kUntouched);
    const bool both = (c.kind != CollectiveKind::kGather && c.kind != CollectiveKind::kScatter &&
                       c.kind != CollectiveKind::kReduce && c.kind != CollectiveKind::kBroadcast) ||
                      rank == c.root;
    if (!c.in_place || !both) {
      player.memory[0] = input;
      player.memory[1].assign(output, kUntouched);
      continue;
    }
    // Only the larger array exists.
    where[rank] =
        input.size() > output || c.kind == CollectiveKind::kReduceScatter || c.kind == CollectiveKind::kScatter
            ? Memory::kInput
            : Memory::kOutput;
    const size_t at = ShiftOf(c, rank, input.size(), output);
    if (where[rank] == Memory::kInput) {
      player.memory[0] = input;
      shift[rank] = at;
    } else {
      player.memory[1].assign(output, kUntouched);
      std::copy(input.begin(), input.end(), player.memory[1].begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  Interpreter interpreter(std::move(players), combine, seed);
  ASSERT_EQ(interpreter.Run(), "");
  EXPECT_EQ(interpreter.messages(), counted.messages);
  EXPECT_EQ(interpreter.moved(), counted.moved);
  for (size_t rank = 0; rank < c.n; ++rank) {
    const Numbers want = OutputOf(c, rank, combine);
    const Numbers& memory = interpreter.players()[rank].memory[static_cast<size_t>(where[rank])];
    ASSERT_GE(memory.size(), shift[rank] + want.size());
    const auto first = memory.begin() + static_cast<std::ptrdiff_t>(shift[rank]);
    ASSERT_TRUE(std::equal(want.begin(), want.end(), first)) << "rank " << rank;
  }
  if (totals != nullptr) *totals = counted;
}

// Counts of every shape: all equal, none, some zero, one that has all.
std::vector<std::vector<size_t>> ShapesOf(CollectiveKind kind, Algorithm algorithm, size_t n) {
  if (kind == CollectiveKind::kBarrier) return {{}};
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast) {
    return {{0}, {1}, {5}, {n}, {64}, {1001}};
  }
  if (algorithm == Algorithm::kBruck && kind == CollectiveKind::kAllToAll) return {{0}, {1}, {6}};
  const size_t many = kind == CollectiveKind::kAllToAll ? n * n : n;
  std::vector<std::vector<size_t>> shapes(4, std::vector<size_t>(many, 0));
  for (size_t i = 0; i < many; ++i) {
    shapes[1][i] = 6;
    shapes[2][i] = i * i % 5 * (i % 2);
    shapes[3][i] = i == many / 2 ? 40 : 0;
  }
  if (kind == CollectiveKind::kAllToAll) shapes.push_back({6});
  return shapes;
}

// Between numbers of ranks. All of them take minutes under a sanitizer, which finds as much in some.
constexpr size_t kStep = kSanitized ? 4 : 1;

TEST(Schedule, EveryAlgorithmOfEveryCollectiveForOneToSeventeenRanks) {
  size_t played = 0;
  for (uint8_t kind = 0; kind < kKinds; ++kind) {
    for (const Algorithm algorithm : AlgorithmsOf(static_cast<CollectiveKind>(kind))) {
      for (size_t n = 1; n <= 17; n += kStep) {
        for (const std::vector<size_t>& counts : ShapesOf(static_cast<CollectiveKind>(kind), algorithm, n)) {
          for (const bool in_place : {false, true}) {
            if (in_place && static_cast<CollectiveKind>(kind) == CollectiveKind::kAllToAll) continue;
            Case c{static_cast<CollectiveKind>(kind), algorithm, n, 0, counts, in_place, 8};
            const bool rooted = c.kind == CollectiveKind::kReduce || c.kind == CollectiveKind::kBroadcast ||
                                c.kind == CollectiveKind::kGather || c.kind == CollectiveKind::kScatter;
            for (c.root = 0; c.root < (rooted ? n : 1); c.root += 5) {
              const bool ordered = Reduces(c.kind) && IsReproducible(c.kind, algorithm);
              Play(c, ordered ? Ordered : Sum, 1 + played++);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(played, kSanitized ? 375U : 3000U);
}

// Hosts with as many ranks each, in turn or in a row; with more and with fewer; each its own; with numbers of any kind.
std::vector<std::vector<int>> HostsOf(size_t n) {
  std::vector<std::vector<int>> all(5, std::vector<int>(n));
  for (size_t rank = 0; rank < n; ++rank) {
    const int number = static_cast<int>(rank);
    all[0][rank] = number / 4;
    all[1][rank] = number % 3;
    all[2][rank] = number * number % 5;
    all[3][rank] = -number;
    all[4][rank] = rank + 1 == n ? 7 : 1 << 30;
  }
  return all;
}

TEST(Schedule, TwoLevelsForEveryPlacementOfRanks) {
  size_t played = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllGather}) {
    for (const Algorithm between : AlgorithmsOf(kind)) {
      if (between == Algorithm::kTwoLevel) continue;
      for (size_t n = 1; n <= 13; n += kStep) {
        for (const std::vector<int>& hosts : HostsOf(n)) {
          for (const std::vector<size_t>& counts : ShapesOf(kind, Algorithm::kTwoLevel, n)) {
            const bool in_place = played % 2 == 1;
            Case c{kind, Algorithm::kTwoLevel, n, 0, counts, in_place, 8, hosts, between};
            if (kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce) c.root = played % n;
            Play(c, Sum, 1 + played++);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
  EXPECT_GT(played, kSanitized ? 375U : 3000U);
}

// The purpose of the second level: each byte that leaves a host crosses the network once.
TEST(Schedule, TwoLevelsSendNoMoreBetweenHostsThanOneRankOfEachWould) {
  auto crossing = [](CollectiveKind kind, Algorithm algorithm, size_t count) {
    const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const Case c{kind,
                 algorithm,
                 16,
                 5,
                 std::vector<size_t>(kind == CollectiveKind::kAllGather ? 16 : 1, count),
                 false,
                 8,
                 hosts,
                 kind == CollectiveKind::kAllReduce ? Algorithm::kTwoShot : Algorithm::kBinomial};
    size_t crossed = 0;
    for (size_t rank = 0; rank < 16; ++rank) {
      const Result<Schedule> schedule = Compile(c.RequestOf(rank));
      EXPECT_TRUE(schedule.ok()) << schedule.status().ToString();
      if (!schedule.ok()) return size_t{0};
      for (const Stage& stage : schedule.value().stages) {
        for (const Step& step : stage) {
          const bool sends = step.what == Step::Do::kSend;
          if (sends && hosts[static_cast<size_t>(step.peer)] != hosts[rank]) crossed += step.span.count;
        }
      }
    }
    return crossed;
  };
  EXPECT_EQ(crossing(CollectiveKind::kAllReduce, Algorithm::kTwoLevel, 1600), 2U * 3 * 1600);
  EXPECT_EQ(crossing(CollectiveKind::kAllReduce, Algorithm::kTwoShot, 1600), 2U * 12 * 1600);
  EXPECT_EQ(crossing(CollectiveKind::kBroadcast, Algorithm::kTwoLevel, 1600), 3U * 1600);
  EXPECT_EQ(crossing(CollectiveKind::kReduce, Algorithm::kTwoLevel, 1600), 3U * 1600);
  EXPECT_EQ(crossing(CollectiveKind::kAllGather, Algorithm::kTwoLevel, 100), 3U * 16 * 100);
  EXPECT_EQ(crossing(CollectiveKind::kAllGather, Algorithm::kDirect, 100), 12U * 16 * 100);
}

TEST(Schedule, LoadsMatchTheTableInTheDocumentation) {
  Totals totals;
  Play({CollectiveKind::kAllReduce, Algorithm::kBinomial, 8, 0, {800}, true, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 14U);
  Play({CollectiveKind::kAllReduce, Algorithm::kRecursiveDoubling, 8, 0, {800}, true, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 24U);
  EXPECT_EQ(totals.moved, 24U * 800);
  Play({CollectiveKind::kAllReduce, Algorithm::kTwoShot, 8, 0, {800}, true, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 2U * 8 * 7);
  EXPECT_EQ(totals.moved, 2U * 7 * 800);
  Play({CollectiveKind::kAllReduce, Algorithm::kRing, 8, 0, {800}, true, 1000}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 2U * 8 * 7);
  EXPECT_EQ(totals.moved, 2U * 7 * 800);
  Play({CollectiveKind::kAllReduce, Algorithm::kRabenseifner, 8, 0, {800}, true, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 48U);
  EXPECT_EQ(totals.moved, 2U * 7 * 800);
  Play({CollectiveKind::kBarrier, Algorithm::kDissemination, 8, 0, {}, false, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 24U);
  Play({CollectiveKind::kBroadcast, Algorithm::kBinomial, 8, 3, {800}, false, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 7U);
  Play({CollectiveKind::kAllGather, Algorithm::kBruck, 8, 0, std::vector<size_t>(8, 100), false, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 24U);
  EXPECT_EQ(totals.moved, 7U * 800);
  Play({CollectiveKind::kAllToAll, Algorithm::kBruck, 8, 0, {100}, false, 8}, Sum, 1, &totals);
  EXPECT_EQ(totals.messages, 24U);
  EXPECT_EQ(totals.moved, 24U * 400);
}

TEST(Schedule, BrucksAllToAllWantsOneCountForAll) {
  Request request;
  request.kind = CollectiveKind::kAllToAll;
  request.algorithm = Algorithm::kBruck;
  request.ranks = 2;
  request.counts = request.receives = {3, 3};
  EXPECT_EQ(Compile(request).status().cause(), "all-to-all by bruck: the ranks' counts may differ");
  request.counts = {3};
  request.receives.clear();
  EXPECT_TRUE(Compile(request).ok());
}

// Exactly the last reduction of each element is marked: an average is divided once.
TEST(Schedule, AReductionIsMarkedLastOnceForEachElementThatIsReduced) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduce, CollectiveKind::kReduceScatter}) {
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      for (size_t n = 2; n <= 9; ++n) {
        Case c{kind,  algorithm, n, 0, std::vector<size_t>(kind == CollectiveKind::kReduceScatter ? n : 1, 144),
               false, 8};
        size_t marked = 0;
        for (size_t rank = 0; rank < n; ++rank) {
          const Result<Schedule> schedule = Compile(c.RequestOf(rank));
          for (const Stage& stage : schedule.value().stages) {
            for (const Step& step : stage) marked += step.last ? step.span.count : 0;
          }
        }
        size_t pow2 = 1;
        while (pow2 * 2 <= n) pow2 *= 2;
        size_t want = kind == CollectiveKind::kReduceScatter ? 144 * n : 144;
        if (algorithm == Algorithm::kOneShot) want *= n;  // each rank does it for itself
        if (algorithm == Algorithm::kRecursiveDoubling) want *= pow2;
        EXPECT_EQ(marked, want) << c.ToString();
      }
    }
  }
  for (const std::vector<int>& hosts : HostsOf(9)) {
    Case c{CollectiveKind::kAllReduce, Algorithm::kTwoLevel, 9, 0, {144}, false, 8, hosts, Algorithm::kTwoShot};
    size_t marked = 0;
    for (size_t rank = 0; rank < 9; ++rank) {
      const Result<Schedule> schedule = Compile(c.RequestOf(rank));
      for (const Stage& stage : schedule.value().stages) {
        for (const Step& step : stage) marked += step.last ? step.span.count : 0;
      }
    }
    EXPECT_EQ(marked, 144U) << c.ToString();
  }
}

TEST(Schedule, InvalidRequestsAreRefused) {
  Request request;
  request.kind = CollectiveKind::kAllReduce;
  request.algorithm = Algorithm::kChain;
  request.counts = {4};
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid);
  request.algorithm = Algorithm::kRing;
  EXPECT_TRUE(Compile(request).ok());
  request.rank = 1;
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid);
  request.rank = 0;
  request.counts = {4, 4};
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid);
  request.counts = {4};
  request.hosts = {1, 2};
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid) << "two hosts for one rank";
  request.hosts = {1};
  request.algorithm = Algorithm::kTwoLevel;
  EXPECT_TRUE(Compile(request).ok());
  request.between = Algorithm::kTwoLevel;
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid);
  request.between = Algorithm::kChain;
  EXPECT_EQ(Compile(request).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace fusewire::collective
