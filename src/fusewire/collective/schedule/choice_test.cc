// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/schedule/choice.h"

#include <gtest/gtest.h>

#include <string>

#include "fusewire/collective/schedule/interpreter_test.h"
#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

// The figures of each algorithm: the model must agree with the schedules.
TEST(Choice, TheModelCountsWhatSchedulesSend) {
  LinkCost only_messages{0, 0, 0, 0, 1};
  only_messages.message_ns = 1;
  LinkCost only_bytes{0, 0, 1, 0, 1};
  LinkCost only_reduced{0, 0, 0, 1, 1};
  for (uint8_t number = 0; number < kKinds; ++number) {
    const CollectiveKind kind = static_cast<CollectiveKind>(number);
    for (const Algorithm algorithm : AlgorithmsOf(kind)) {
      for (const int n : {2, 4, 8, 16}) {
        SCOPED_TRACE(KindName(kind) + " by " + AlgorithmName(algorithm) + ", n " + std::to_string(n));
        const size_t count = 3 << 10;  // bytes, and elements of one byte
        Load all;
        for (int rank = 0; rank < n; ++rank) {
          Request request;
          request.kind = kind;
          request.algorithm = algorithm;
          request.ranks = n;
          request.rank = rank;
          request.segment_count = 1 << 10;
          const auto blocks = static_cast<size_t>(n);
          const bool whole = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
                             kind == CollectiveKind::kBroadcast;
          if (kind != CollectiveKind::kBarrier)
            request.counts.assign(whole ? 1 : blocks, whole ? count : count / blocks);
          if (kind == CollectiveKind::kAllToAll) request.counts.resize(1);
          if (algorithm == Algorithm::kRing) request.segment_count = count / blocks;
          const Result<Schedule> schedule = Compile(request);
          ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
          const Load load = LoadOf(schedule.value());
          all.messages += load.messages;
          all.sent += load.sent;
          all.reduced += load.reduced;
          // Only here are parts copied on their way.
          if (kind == CollectiveKind::kAllToAll && algorithm == Algorithm::kBruck) all.reduced += load.copied;
        }
        const size_t segment = algorithm == Algorithm::kRing ? count / static_cast<size_t>(n) : 1 << 10;
        const size_t bytes = kind == CollectiveKind::kBarrier ? 0 : count;
        EXPECT_DOUBLE_EQ(EstimateNs(kind, algorithm, n, bytes, only_messages, segment),
                         static_cast<double>(all.messages));
        EXPECT_NEAR(EstimateNs(kind, algorithm, n, bytes, only_bytes, segment), static_cast<double>(all.sent), 0.5);
        EXPECT_NEAR(EstimateNs(kind, algorithm, n, bytes, only_reduced, segment), static_cast<double>(all.reduced),
                    0.5);
      }
    }
  }
}

TEST(Choice, SmallArraysTakeFewMessagesAndLargeOnesMoveFewBytes) {
  const LinkCost cost;
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 4, 64, cost, {}, false).algorithm, Algorithm::kOneShot);
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 64, 64, cost, {}, false).algorithm, Algorithm::kRecursiveDoubling);
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 8, 16 << 20, cost, {}, false).algorithm, Algorithm::kTwoShot);
  LinkCost crowded = cost;
  crowded.cpus = 2;
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 16, 64, crowded, {}, false).algorithm, Algorithm::kBinomial)
      << "with ranks on few processors the fewest messages win";
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 8, 1 << 20, crowded, {}, false).algorithm, Algorithm::kBinomial);
  const Choice large = Choose(CollectiveKind::kAllReduce, 8, 4 << 20, crowded, {}, false);
  EXPECT_EQ(large.algorithm, Algorithm::kRing) << "and where no cache holds all that is under way, little at a time";
  EXPECT_EQ(large.segment_bytes, size_t{1} << 20);
}

TEST(Choice, AReduceScatterHalvesWhereMessagesAreWorkAndTheCacheHoldsWhatIsUnderWay) {
  LinkCost cost = Places::NearCost();
  auto chosen = [&cost](int ranks, size_t bytes, bool reproducible) {
    return Choose(CollectiveKind::kReduceScatter, ranks, bytes, cost, {}, reproducible).algorithm;
  };
  EXPECT_EQ(chosen(8, 1024, false), Algorithm::kDirect) << "each rank has a processor: one latency";
  cost.cpus = 2;
  for (const int ranks : {4, 8}) {
    EXPECT_EQ(chosen(ranks, 1024, false), Algorithm::kHalving);
    EXPECT_EQ(chosen(ranks, 1 << 20, false), Algorithm::kHalving);
    EXPECT_EQ(chosen(ranks, 16 << 20, false), Algorithm::kDirect);
    EXPECT_EQ(chosen(ranks, 1024, true), Algorithm::kDirect);
  }
}

TEST(Choice, RanksThatShareHostsUseTwoLevels) {
  const LinkCost cost;
  Places places;
  for (int rank = 0; rank < 16; ++rank) places.hosts.push_back(rank / 4);
  const Choice large = Choose(CollectiveKind::kAllReduce, 16, 16 << 20, cost, {}, false, places);
  EXPECT_EQ(large.algorithm, Algorithm::kTwoLevel);
  EXPECT_EQ(large.between, Algorithm::kTwoShot);
  EXPECT_EQ(Choose(CollectiveKind::kAllGather, 16, 1 << 20, cost, {}, false, places).algorithm, Algorithm::kTwoLevel);
  EXPECT_EQ(Choose(CollectiveKind::kBroadcast, 16, 64, cost, {}, false, places).algorithm, Algorithm::kTwoLevel);
  EXPECT_NE(Choose(CollectiveKind::kAllReduce, 16, 16 << 20, cost, {}, true, places).algorithm, Algorithm::kTwoLevel)
      << "it folds by hosts, not in the order of ranks";
  EXPECT_NE(Choose(CollectiveKind::kBarrier, 16, 0, cost, {}, false, places).algorithm, Algorithm::kTwoLevel);
  Places apart;
  for (int rank = 0; rank < 16; ++rank) apart.hosts.push_back(rank);
  EXPECT_NE(Choose(CollectiveKind::kAllReduce, 16, 16 << 20, cost, {}, false, apart).algorithm, Algorithm::kTwoLevel);
  const Result<std::vector<TableRow>> table = ParseTable("all-reduce 16 1000000 two-level 65536");
  ASSERT_TRUE(table.ok());
  const Choice measured = Choose(CollectiveKind::kAllReduce, 16, 64, cost, table.value(), false, places);
  EXPECT_EQ(measured.algorithm, Algorithm::kTwoLevel);
  EXPECT_EQ(measured.between, Algorithm::kOneShot);
}

TEST(Choice, SmallPartsOfAnAllToAllTravelTogetherIfAllRanksKnowTheirSize) {
  LinkCost cost = Places::NearCost();
  cost.cpus = 2;
  auto chosen = [&cost](size_t bytes, const std::vector<TableRow>& table = {}) {
    return Choose(CollectiveKind::kAllToAll, 8, bytes, cost, table, false).algorithm;
  };
  EXPECT_EQ(chosen(1 << 10), Algorithm::kBruck);
  EXPECT_EQ(chosen(16 << 10), Algorithm::kBruck);
  EXPECT_NE(chosen(256 << 10), Algorithm::kBruck) << "each part is sent and copied several times";
  EXPECT_NE(chosen(0), Algorithm::kBruck) << "of which each rank knows only its own sizes";
  const Result<std::vector<TableRow>> table =
      ParseTable("all-to-all 8 4096 bruck 65536\nall-to-all 8 8192 pairwise 65536");
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(chosen(4096, table.value()), Algorithm::kBruck);
  EXPECT_EQ(chosen(0, table.value()), Algorithm::kPairwise) << "the next row that can be had";
}

TEST(Choice, ReproducibleChoosesOrderedAlgorithmsOnly) {
  for (const int n : {2, 8, 64}) {
    for (size_t bytes = 4; bytes <= 64 << 20; bytes *= 16) {
      const Choice choice = Choose(CollectiveKind::kAllReduce, n, bytes, {}, {}, true);
      EXPECT_TRUE(IsReproducible(CollectiveKind::kAllReduce, choice.algorithm));
    }
  }
}

TEST(Choice, ATableOverridesTheModelAndRoundTrips) {
  const std::string text =
      "# measured\n\nall-reduce 8 4096 binomial 1024\nall-reduce 8 65536 ring 16384 # for long\r\nbroadcast 2 9 chain "
      "1024";
  const Result<std::vector<TableRow>> table = ParseTable(text);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_EQ(Choose(CollectiveKind::kAllReduce, 8, 4096, {}, table.value(), false).algorithm, Algorithm::kBinomial);
  const Choice ring = Choose(CollectiveKind::kAllReduce, 8, 4097, {}, table.value(), false);
  EXPECT_EQ(ring.algorithm, Algorithm::kRing);
  EXPECT_EQ(ring.segment_bytes, 16384U);
  EXPECT_GT(Choose(CollectiveKind::kAllReduce, 8, 65537, {}, table.value(), false).estimate_ns, 0)
      << "beyond the last row";
  EXPECT_NE(Choose(CollectiveKind::kAllReduce, 8, 5000, {}, table.value(), true).algorithm, Algorithm::kRing);
  const Result<std::vector<TableRow>> again = ParseTable(WriteTable(table.value()));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(WriteTable(again.value()), WriteTable(table.value()));
}

TEST(Choice, ATableIsParsedStrictly) {
  for (const char* text :
       {"all-reduce 8 4096 ring", "all-reduce 8 4096 ring 1 2", "allreduce 8 1 ring 1024",
        "all-reduce 8 4096 chain 1024", "all-reduce 0 4096 ring 1024", "all-reduce -8 4096 ring 1024",
        "all-reduce 8 4k ring 1024", "all-reduce 8 4096 ring 0", "all-reduce 8 4096 ring 1023",
        "all-reduce 8 99999999999999999999 ring 1024", "all-reduce 8 64 ring 1024\nall-reduce 8 64 ring 1024"}) {
    const Result<std::vector<TableRow>> table = ParseTable(text);
    EXPECT_FALSE(table.ok()) << text;
    EXPECT_NE(table.status().cause().find("line "), std::string::npos);
  }
}

TEST(Choice, AnErrorShortensALongTable) {
  const std::string word(100000, '\x1b');
  for (const std::string& text :
       {word + " 8 1 ring 4096", "all-reduce 8 1 " + word + " 4096", "all-reduce " + word + " 1 ring 1"}) {
    const std::string cause = ParseTable(text).status().cause();
    EXPECT_LT(cause.size(), 200U);
    EXPECT_EQ(cause.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace fusewire::collective
