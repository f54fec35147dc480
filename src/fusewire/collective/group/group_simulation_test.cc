// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Groups in a simulation: the test advances the time, cuts messages into pieces, and kills hosts.
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/group.h"
#include "fusewire/p2p/world_test.h"

namespace fusewire::collective {
namespace {

class Simulated {
 public:
  Simulated(int ranks, uint64_t seed, const transport::LoopbackFaults& faults = p2p::Splitting())
      : world(seed, faults) {
    GroupOptions options;
    options.name = "simulated";
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = "w" + std::to_string(rank);
      world.Add(name);
      options.members.push_back({name, {name, 5555}});
    }
    for (int rank = 0; rank < ranks; ++rank) {
      options.rank = rank;
      auto made = Group::Make(world.at("w" + std::to_string(rank)), options);
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      groups.push_back(std::move(made).value());
      outcomes.emplace_back();
      ended.push_back(false);
    }
  }
  void Start(int rank, CollectiveSpec spec) {
    const auto at = static_cast<size_t>(rank);
    ended[at] = false;
    groups[at]->Start(std::move(spec), [this, at](const Status& status) {
      EXPECT_FALSE(ended[at]);
      ended[at] = true;
      outcomes[at] = status;
    });
  }
  bool Finish(const std::vector<int>& ranks, int64_t limit_ns = 200 * kSecondNs) {
    return world.RunUntil(
        [this, &ranks] {
          for (const int rank : ranks) {
            if (!ended[static_cast<size_t>(rank)]) return false;
          }
          return true;
        },
        limit_ns);
  }

  p2p::P2pWorld world;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Status> outcomes;
  std::vector<bool> ended;
};

CollectiveSpec SumOfWords(std::vector<int64_t>* array) {
  CollectiveSpec spec;
  spec.kind = CollectiveKind::kAllReduce;
  spec.reduction.type = Type::kI64;
  spec.counts = {array->size()};
  spec.to = Pieces(array->data(), array->size() * sizeof(int64_t));
  return spec;
}

// Each rank gives as many words of its number plus one.
bool SumEverywhere(Simulated* sim, size_t count, std::vector<std::vector<int64_t>>* arrays) {
  std::vector<int> all(sim->groups.size());
  std::iota(all.begin(), all.end(), 0);
  arrays->clear();
  for (const int rank : all) arrays->emplace_back(count, rank + 1);
  for (const int rank : all) sim->Start(rank, SumOfWords(&(*arrays)[static_cast<size_t>(rank)]));
  return sim->Finish(all);
}

TEST(GroupSimulation, SumsAreRightWhateverTheOrderOfEvents) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    Simulated sim(ranks, seed);
    for (const size_t count : {3, 5000, 60000}) {
      std::vector<std::vector<int64_t>> arrays;
      ASSERT_TRUE(SumEverywhere(&sim, count, &arrays)) << "seed " << seed;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto at = static_cast<size_t>(rank);
        EXPECT_TRUE(sim.outcomes[at].ok()) << sim.outcomes[at].ToString();
        EXPECT_EQ(arrays[at], std::vector<int64_t>(count, ranks * (ranks + 1) / 2)) << "seed " << seed;
      }
    }
  }
}

constexpr int64_t kWayNs = 5 * kMillisecondNs;

// How many network latencies a sum takes until it has ended everywhere, with unlimited bandwidth.
int WaysOfSum(Simulated* sim, size_t bytes) {
  std::vector<std::vector<int64_t>> arrays;
  const int64_t began_ns = sim->world.world.clock()->NowNs();
  EXPECT_TRUE(SumEverywhere(sim, bytes / sizeof(int64_t), &arrays));
  return static_cast<int>((sim->world.world.clock()->NowNs() - began_ns + kMillisecondNs / 2) / kWayNs);
}

TEST(GroupSimulation, SumsCrossTheNetworkAFewTimes) {
  transport::LoopbackFaults path;
  path.latency_ns_min = path.latency_ns_max = kWayNs;
  path.send_buffer_bytes = path.receive_buffer_bytes = 64 << 20;
  struct Case {
    size_t bytes;
    int ways_max;
  };
  for (int ranks : {2, 4, 8}) {
    Simulated sim(ranks, 1, path);
    for (const Case& one :
         {Case{64, 1}, Case{4096, ranks < 8 ? 1 : 3}, Case{256 << 10, 3}, Case{1 << 20, 5}, Case{4 << 20, 6}}) {
      (void)WaysOfSum(&sim, one.bytes);  // the pipes learn and get their credit
      for (int again = 0; again < 3; ++again) {
        EXPECT_LE(WaysOfSum(&sim, one.bytes), one.ways_max) << ranks << " ranks, " << one.bytes << " bytes";
      }
    }
  }
}

TEST(GroupSimulation, ADeadHostIsNamedWhenItsPipeEnds) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    Simulated sim(3, seed);
    std::vector<std::vector<int64_t>> arrays(3, std::vector<int64_t>(40000, 1));
    for (int rank = 0; rank < 3; ++rank) sim.Start(rank, SumOfWords(&arrays[static_cast<size_t>(rank)]));
    ASSERT_TRUE(sim.Finish({0, 1, 2}));
    // In the middle of the next.
    for (int rank = 0; rank < 3; ++rank) sim.Start(rank, SumOfWords(&arrays[static_cast<size_t>(rank)]));
    sim.world.world.RunFor(static_cast<int64_t>(seed) * 20 * kMicrosecondNs);
    sim.world.world.KillHost("w1", transport::LoopbackDeath::kReset);
    ASSERT_TRUE(sim.Finish({0, 2}, kSecondNs)) << "seed " << seed;
    for (const size_t rank : {0, 2}) {
      // It may have had all that it needed.
      if (sim.outcomes[rank].ok()) continue;
      EXPECT_EQ(sim.outcomes[rank].code(), Code::kUnavailable) << sim.outcomes[rank].ToString();
      EXPECT_NE(sim.outcomes[rank].ToString().find("rank 1 (w1)"), std::string::npos);
    }
    for (const int rank : {0, 2}) sim.Start(rank, SumOfWords(&arrays[static_cast<size_t>(rank)]));
    ASSERT_TRUE(sim.Finish({0, 2}, kSecondNs));
    EXPECT_EQ(sim.outcomes[0].code(), Code::kUnavailable);
    sim.world.tasks["w1"].endpoint->Close();
    sim.groups[1].reset();
    sim.world.tasks["w1"].endpoint.reset();
  }
}

// In a chain, a rank can name only the one that it waits for; and that one may be notified before its own deadline.
TEST(GroupSimulation, ARankInTheMiddleOfAChainNamesTheRankItWaitsFor) {
  Simulated sim(3, 1);
  std::vector<std::vector<int64_t>> arrays(2, std::vector<int64_t>(5000));
  for (const int rank : {1, 0}) {
    CollectiveSpec spec = SumOfWords(&arrays[static_cast<size_t>(rank)]);
    spec.kind = CollectiveKind::kBroadcast;
    spec.root = 2;  // which never begins
    spec.timeout_ns = 2 * kSecondNs;
    sim.Start(rank, std::move(spec));
    sim.world.world.RunFor(kSecondNs / 2);
  }
  ASSERT_TRUE(sim.Finish({0, 1}));
  for (const size_t rank : {0, 1}) EXPECT_EQ(sim.outcomes[rank].code(), Code::kTimeout);
  EXPECT_NE(sim.outcomes[1].ToString().find("rank 0 (w0) had not done its part"), std::string::npos)
      << sim.outcomes[1].ToString();
  EXPECT_NE(sim.outcomes[0].ToString().find("rank 2 (w2) had not done its part"), std::string::npos)
      << sim.outcomes[0].ToString();
}

TEST(GroupSimulation, AnOperationQueuedByKeyNamesTheRankItsPredecessorWaitsFor) {
  Simulated sim(2, 1);
  std::vector<std::vector<int64_t>> arrays(2, std::vector<int64_t>(10));
  std::vector<Status> ended;
  for (std::vector<int64_t>& array : arrays) {
    CollectiveSpec spec = SumOfWords(&array);
    spec.key = 5;
    spec.timeout_ns = 2 * kSecondNs;
    sim.groups[0]->Start(std::move(spec), [&ended](const Status& status) { ended.push_back(status); });
  }
  ASSERT_TRUE(sim.world.RunUntil([&ended] { return ended.size() == 2; }));
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_NE(status.ToString().find("rank 1 (w1) had not done its part"), std::string::npos) << status.ToString();
  }
}

// A rank that fails notifies all, unless it lies.
TEST(GroupSimulation, AFailureSentToOneRankReachesTheOthersWithItsReason) {
  uint64_t control_tag = 0;
  Simulated sim(3, 1);
  std::vector<std::vector<int64_t>> arrays(3, std::vector<int64_t>(60000));
  sim.world.at("w2").HandleOffers(0, UINT64_MAX, [&control_tag](const p2p::Offer& offer) {
    control_tag = offer.tag | ((uint64_t{1} << 40) - 1);
    return p2p::OfferAnswer::Defer();
  });
  for (const int rank : {0, 1}) sim.Start(rank, SumOfWords(&arrays[static_cast<size_t>(rank)]));
  ASSERT_TRUE(sim.world.RunUntil([&control_tag] { return control_tag != 0; }));
  sim.Start(2, SumOfWords(&arrays[2]));
  ASSERT_TRUE(sim.Finish({0, 1, 2}));
  ControlMessage note;
  note.verb = ControlVerb::kFailed;
  note.print.turn = 1;
  note.status = Status::Unavailable("not for all ears");
  const std::string text = EncodeControl(note);
  p2p::SendOp lie(sim.world.at("w2"), sim.world.Connect("w2", "w1"), control_tag, ConstBytes(text));
  lie.Post();
  ASSERT_TRUE(sim.world.Ends(lie));
  for (const int rank : {1, 0}) {
    sim.Start(rank, SumOfWords(&arrays[static_cast<size_t>(rank)]));
    ASSERT_TRUE(sim.Finish({rank}));
    const std::string words = sim.outcomes[static_cast<size_t>(rank)].ToString();
    EXPECT_NE(words.find("not for all ears, peer rank 2 (w2)"), std::string::npos) << words;
  }
}

TEST(GroupSimulation, ARefusedSenderWaitsForTheReasonUntilItsDeadline) {
  Simulated sim(2, 1);
  sim.world.at("w1").HandleOffers(
      0, UINT64_MAX, [](const p2p::Offer&) { return p2p::OfferAnswer::Refuse(Status::Overloaded("not now")); });
  std::vector<int64_t> array(60000, 1);
  sim.world.world.RunFor(kSecondNs);
  sim.world.world.PauseHost("w1");
  const int64_t began_ns = sim.world.world.clock()->NowNs();
  CollectiveSpec spec = SumOfWords(&array);
  spec.timeout_ns = 2 * kSecondNs;
  sim.Start(0, std::move(spec));
  sim.world.world.RunFor(2 * kSecondNs - 100 * kMillisecondNs);
  sim.world.world.ResumeHost("w1");
  ASSERT_TRUE(sim.Finish({0}));
  EXPECT_LE(sim.world.world.clock()->NowNs() - began_ns, 2 * kSecondNs + 50 * kMillisecondNs);
  EXPECT_NE(sim.outcomes[0].ToString().find("w1"), std::string::npos) << sim.outcomes[0].ToString();
}

// No rank is given up because it is late, however late.
TEST(GroupSimulation, AMemberMayComeHoursLater) {
  Simulated sim(2, 3);
  std::vector<std::vector<int64_t>> arrays(2, std::vector<int64_t>(9000, 1));
  CollectiveSpec patient = SumOfWords(&arrays[0]);
  patient.timeout_ns = kForeverNs;
  sim.Start(0, std::move(patient));
  sim.world.world.RunFor(3 * 3600 * kSecondNs);
  EXPECT_FALSE(sim.ended[0]);
  sim.Start(1, SumOfWords(&arrays[1]));
  ASSERT_TRUE(sim.Finish({0, 1}));
  EXPECT_TRUE(sim.outcomes[0].ok()) << sim.outcomes[0].ToString();
  EXPECT_EQ(arrays[0], std::vector<int64_t>(9000, 2));
}

}  // namespace
}  // namespace fusewire::collective
