// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/group/groups_test.h"
#include "fusewire/collective/group/party_test.h"

namespace fusewire::collective {
namespace {

class Groups : public GroupsOverWires {};

// Waits for so many events.
class Countdown {
 public:
  explicit Countdown(uint64_t left) : left_(left) {}
  void Count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) none_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(none_.wait_for(lock, std::chrono::seconds(30), [this] { return left_ == 0; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  uint64_t left_;
};

TEST_P(Groups, AllReducesInOrderOfCallsForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    Party party(ranks, wire(), Options(ranks));
    party.Run([ranks](int rank, Group& group) {
      for (const size_t count : {1, 5, 1000, 1500, 70000}) {
        Array from = Brought(rank, count), to(count);
        const Status status = group.Run(Want(CollectiveKind::kAllReduce, {count}, Of(from), Of(to)));
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(to == SumOfAll(ranks, count)) << ranks << " ranks, " << count;
      }
    });
  }
}

TEST_P(Groups, KeysMeetWhateverTheOrder) {
  constexpr int kMembers = 3;
  constexpr uint64_t kKeys = 40;
  Party party(kMembers, wire(), Options(kMembers));
  party.Run([](int rank, Group& group) {
    std::vector<Array> arrays;
    for (uint64_t key = 0; key < kKeys; ++key) arrays.push_back(Brought(rank, 100 * key + 1));
    std::vector<uint64_t> order;
    for (uint64_t key = 1; key <= kKeys; ++key) order.push_back(key);
    Random random(static_cast<uint64_t>(rank) + 1);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    Countdown left(kKeys);
    for (const uint64_t key : order) {
      Array& array = arrays[key - 1];
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array));
      spec.key = key;
      group.Start(std::move(spec), [&left](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        left.Count();
      });
    }
    left.Wait();
    for (uint64_t key = 0; key < kKeys; ++key) EXPECT_TRUE(arrays[key] == SumOfAll(kMembers, 100 * key + 1)) << key;
  });
}

// Every kind against a reference of a few loops, with random counts, roots and pieces, in place or not.
void AgreeWithTheReference(int ranks, task::TransportChoice wire, const GroupOptions& options) {
  Party party(ranks, wire, options);
  party.Run([ranks](int rank, Group& group) {
    const auto n = static_cast<size_t>(ranks), me = static_cast<size_t>(rank);
    Random random(static_cast<uint64_t>(ranks) * 77);  // the same at all ranks
    for (int round = 0; round < 60; ++round) {
      const auto kind = static_cast<CollectiveKind>(random.Below(kKinds));
      const int root = static_cast<int>(random.Below(n));
      const uint64_t most = random.Chance(0.2) ? 20000 : 30;
      std::vector<std::vector<size_t>> table(n, std::vector<size_t>(n));  // of an all-to-all: from, to
      for (auto& row : table) {
        for (size_t& count : row) count = random.Below(most);
      }
      const bool is_even = kind == CollectiveKind::kAllToAll && random.Chance(0.5);
      if (is_even) table.assign(n, std::vector<size_t>(n, table[0][0]));
      const bool keyed = random.Chance(0.3), in_place = random.Chance(0.3);
      std::vector<size_t> counts = table[0], starts(n + 1);
      for (size_t i = 0; i < n; ++i) starts[i + 1] = starts[i] + counts[i];
      Array from, to, expected;
      bool checks = true;
      const size_t sum = starts[n], mine = counts[me];
      const bool is_root = rank == root;
      auto stretch = [&](size_t sender, size_t at, size_t count) {
        for (size_t i = 0; i < count; ++i) expected.push_back(Value(static_cast<int>(sender), at + i));
      };
      CollectiveSpec spec = Want(kind, counts, Pieces(), Pieces());
      spec.root = root;
      switch (kind) {
        case CollectiveKind::kBarrier: spec.counts.clear(); break;
        case CollectiveKind::kAllReduce:
        case CollectiveKind::kReduce:
          spec.counts = {sum};
          from = Brought(rank, sum);
          to.resize(sum);
          expected = SumOfAll(ranks, sum);
          checks = kind == CollectiveKind::kAllReduce || is_root;
          break;
        case CollectiveKind::kBroadcast:
          spec.counts = {sum};
          if (is_root) from = Brought(rank, sum);
          to.resize(sum);
          stretch(static_cast<size_t>(root), 0, sum);
          break;
        case CollectiveKind::kReduceScatter: {
          from = Brought(rank, sum);
          to.resize(mine);
          const Array all = SumOfAll(ranks, sum);
          expected.assign(all.begin() + static_cast<int64_t>(starts[me]),
                          all.begin() + static_cast<int64_t>(starts[me + 1]));
          break;
        }
        case CollectiveKind::kAllGather:
        case CollectiveKind::kGather:
          from = Brought(rank, mine);
          to.resize(sum);
          for (size_t r = 0; r < n; ++r) stretch(r, 0, counts[r]);
          checks = kind == CollectiveKind::kAllGather || is_root;
          break;
        case CollectiveKind::kScatter:
          if (is_root) from = Brought(rank, sum);
          to.resize(mine);
          stretch(static_cast<size_t>(root), starts[me], mine);
          break;
        case CollectiveKind::kAllToAll:
          spec.counts = is_even ? std::vector<size_t>{table[0][0]} : table[me];
          for (size_t r = 0; r < n; ++r) {
            if (!is_even) spec.receives.push_back(table[r][me]);
            size_t at = 0;
            for (size_t t = 0; t < me; ++t) at += table[r][t];
            stretch(r, at, table[r][me]);
          }
          size_t sends = 0;
          for (const size_t count : table[me]) sends += count;
          from = Brought(rank, sends);
          to.resize(expected.size());
      }
      const bool one_array = in_place && from.size() == to.size() && kind != CollectiveKind::kAllToAll;
      if (one_array) to = from;
      // Two pieces, cut somewhere.
      const size_t cut = to.size() / 3;
      const Piece pieces[2] = {{to.data(), cut * 8}, {to.data() + cut, (to.size() - cut) * 8}};
      spec.from = one_array ? Pieces() : Of(from);
      spec.to = Pieces(pieces, 2);
      spec.key = keyed ? 1 + random.Below(3) : 0;
      // The op has no effect where nothing is reduced: these two do not go together.
      if (!Reduces(kind)) spec.reduction = {Op::kAnd, Type::kF64, {}};
      const Status status = group.Run(spec);
      EXPECT_TRUE(status.ok()) << KindName(kind) << " round " << round << ": " << status.ToString();
      if (checks) {
        EXPECT_TRUE(to == expected) << KindName(kind) << " of " << ranks << ", round " << round << " at " << rank;
      }
    }
  });
}

TEST_P(Groups, AllKindsAgreeWithTheReference) {
  for (const int ranks : {1, 2, 3, 5, 8}) AgreeWithTheReference(ranks, wire(), Options(ranks));
}

TEST(Group, AllKindsAgreeWithTheReferenceInTwoLevels) {
  for (const std::vector<int>& hosts : {std::vector<int>{5, 5, 5}, {0, 1, 0, 1}, {0, 0, 0, 1, 2, 2, 1}}) {
    GroupOptions options;
    options.places.hosts = hosts;
    options.arena = false;
    const std::string ranks = std::to_string(hosts.size());
    std::string rows;
    for (const CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kBroadcast, CollectiveKind::kReduce})
      rows += KindName(kind) + " " + ranks + " 1000000000 two-level 4096\n";
    Result<std::vector<TableRow>> table = ParseTable(rows);
    ASSERT_TRUE(table.ok()) << table.status().ToString();
    options.table = std::move(table).value();
    AgreeWithTheReference(static_cast<int>(hosts.size()), task::TransportChoice::kAuto, options);
  }
}

// The last step of each schedule divides, and no other.
TEST(Group, EveryAlgorithmOfAnAllReduceAverages) {
  for (const Algorithm algorithm : AlgorithmsOf(CollectiveKind::kAllReduce)) {
    for (const int ranks : {1, 2, 5, 8}) {
      SCOPED_TRACE(AlgorithmName(algorithm) + " of " + std::to_string(ranks));
      GroupOptions options;
      options.arena = false;
      for (int rank = 0; rank < ranks; ++rank) options.places.hosts.push_back(rank % 2);
      options.table = {TableRow{CollectiveKind::kAllReduce, ranks, 1 << 30, algorithm, 4096}};
      Party party(ranks, task::TransportChoice::kAuto, options);
      party.Run([ranks](int rank, Group& group) {
        const size_t count = 5003;
        Array array = Brought(rank, count), average = SumOfAll(ranks, count);
        for (int64_t& sum : average) sum /= ranks;
        CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {count}, Pieces(), Of(array));
        spec.reduction.op = Op::kAverage;
        const Status status = group.Run(spec);
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(array == average) << "at rank " << rank;
      });
    }
  }
}

// A guess about hosts that is not the same everywhere is an error, not a hang.
TEST(Group, RanksWithDifferentPlacesGetAnError) {
  GroupOptions options;
  options.places.hosts = {0, 0, 1, 1};
  options.table = ParseTable("all-reduce 4 1000 two-level 4096").value();
  Party party(4, task::TransportChoice::kAuto, options);
  GroupOptions other = options;
  other.name = "party";
  other.rank = 3;
  for (int rank = 0; rank < 4; ++rank) {
    const auto& endpoint = party.endpoints[static_cast<size_t>(rank)];
    other.members.push_back({endpoint->name(), endpoint->address()});
  }
  other.places.hosts = {0, 1, 0, 1};
  party.groups[3].reset();
  auto made = Group::Make(*party.endpoints[3], other);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  party.groups[3] = std::move(made).value();
  party.Run([](int rank, Group& group) {
    Array array = Brought(rank, 100);
    const Status status = group.Run(Want(CollectiveKind::kAllReduce, {100}, Pieces(), Of(array)));
    EXPECT_FALSE(status.ok()) << rank;
  });
  other.places.hosts = {0};
  EXPECT_EQ(Group::Make(*party.endpoints[3], other).status().code(), Code::kInvalid);
}

// Both ranks hear what each of them wants, and the group goes on.
TEST_P(Groups, DifferentRequestsAreAnErrorThatNamesBoth) {
  Party party(3, wire(), Options(3));
  party.Run([](int rank, Group& group) {
    for (const uint64_t key : {0, 7}) {
      Array array = Brought(rank, 50);
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {rank == 1 ? size_t{20} : size_t{50}}, Pieces(),
                                 Pieces(array.data(), rank == 1 ? 160 : 400));
      spec.key = key;
      Status status = group.Run(spec);
      EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
      EXPECT_NE(status.cause().find("rank 1 (w1)"), std::string::npos) << status.ToString();
      EXPECT_NE(status.cause().find("of 20 i64"), std::string::npos) << status.ToString();
      EXPECT_NE(status.cause().find("of 50 i64"), std::string::npos) << status.ToString();
      array = Brought(rank, 50);
      spec = Want(CollectiveKind::kAllReduce, {50}, Pieces(), Of(array));
      spec.key = key;
      if (rank == 2) spec.reduction.op = Op::kMax;
      status = group.Run(spec);
      EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
      EXPECT_NE(status.cause().find("all-reduce max"), std::string::npos) << status.ToString();
      array = Brought(rank, 50);
      spec = Want(CollectiveKind::kAllReduce, {50}, Pieces(), Of(array));
      spec.key = key;
      status = group.Run(spec);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(array == SumOfAll(3, 50));
    }
  });
}

TEST_P(Groups, AnAllToAllOfOneCountIsNotOneOfSeveral) {
  Party party(2, wire(), Options(2));
  party.Run([](int rank, Group& group) {
    Array from = Brought(rank, 10), to(10);
    CollectiveSpec spec = Want(CollectiveKind::kAllToAll, {5}, Of(from), Of(to));
    if (rank == 1) spec.counts = spec.receives = {5, 5};
    const Status status = group.Run(spec);
    EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
    const char* const words[] = {"all-to-all of 5 i64", "all-to-all of i64, 40 bytes for each"};
    EXPECT_NE(status.cause().find(words[group.in_arena() ? 1 : 0]), std::string::npos) << status.ToString();
    EXPECT_NE(status.cause().find("rank 1 (w1)"), std::string::npos) << status.ToString();
  });
}

TEST_P(Groups, AnEmptyFirstPieceDoesNotMakeTwoListsOneArray) {
  Party party(2, wire(), Options(2));
  party.Run([](int rank, Group& group) {
    Array from = Brought(rank, 10), to(10, -7);
    const Piece sources[] = {{nullptr, 0}, {from.data(), 80}}, results[] = {{nullptr, 0}, {to.data(), 80}};
    const Status status = group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(sources, 2), Pieces(results, 2)));
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(to == SumOfAll(2, 10));
  });
}

TEST_P(Groups, CancelEndsTheOperationAtAllRanksAndTheGroupContinues) {
  Party party(3, wire(), Options(3));
  std::atomic<bool> cancelled{false};
  party.Run([&cancelled](int rank, Group& group) {
    Array array = Brought(rank, 100000);
    Countdown left(1);
    // Without it the operation cannot end before it is cancelled.
    while (rank == 2 && !cancelled) std::this_thread::yield();
    if (rank == 0) {
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array));
      spec.key = 5;
      spec.timeout_ns = kForeverNs;
      const uint64_t number = group.Start(std::move(spec), [&left](const Status& status) {
        EXPECT_EQ(status.code(), Code::kApplication) << status.ToString();
        left.Count();
      });
      group.Cancel(number, Status::Application(3, "the step was given up"));
      left.Wait();
      cancelled = true;
    } else {
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array));
      spec.key = 5;
      const Status status = group.Run(spec);
      EXPECT_EQ(status.code(), Code::kApplication) << status.ToString();
      EXPECT_NE(status.ToString().find("rank 0 (w0)"), std::string::npos) << status.ToString();
    }
    array = Brought(rank, 100000);
    CollectiveSpec again = Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array));
    again.key = 5;
    const Status status = group.Run(again);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(array == SumOfAll(3, 100000));
  });
}

TEST_P(Groups, ADeadlineNamesTheLateRank) {
  Party party(2, wire(), Options(2));
  Array array(10);
  CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array));
  spec.timeout_ns = 50 * kMillisecondNs;
  const Status status = party.at(0).Run(spec);
  EXPECT_EQ(status.code(), Code::kTimeout) << status.ToString();
  EXPECT_NE(status.cause().find("rank 1 (w1)"), std::string::npos) << status.ToString();
  // The other rank fails, too, unless it had received all that it needs before.
  spec.timeout_ns = 10 * kSecondNs;
  const Status later = party.at(1).Run(spec);
  EXPECT_TRUE(later.ok() || later.code() == Code::kTimeout) << later.ToString();
  party.Run([](int rank, Group& group) {
    Array both = Brought(rank, 10);
    EXPECT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(both))).ok());
    EXPECT_TRUE(both == SumOfAll(2, 10));
  });
}

TEST_P(Groups, SurvivorsNameTheDeadRankShrinkAndContinue) {
  constexpr int kMembers = 4;
  Party party(kMembers, wire(), Options(kMembers));
  party.Run([](int rank, Group& group) {
    Array array = Brought(rank, 10);
    EXPECT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array))).ok());
  });
  // Its endpoint goes without its group's goodbye.
  std::thread killer([&party] { party.endpoints[1]->Close(); });
  party.Run([](int rank, Group& group) {
    if (rank == 1) return;
    Array array(10);
    Status status;
    while (status.ok()) status = group.Run(Want(CollectiveKind::kBarrier, {}, Pieces(), Pieces()));
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
    EXPECT_NE(status.ToString().find("rank 1 (w1)"), std::string::npos) << status.ToString();
    const Status shrunk = group.Shrink(10 * kSecondNs);
    EXPECT_TRUE(shrunk.ok()) << shrunk.ToString();
    EXPECT_EQ(group.ranks(), kMembers - 1);
    EXPECT_EQ(group.rank(), rank == 0 ? 0 : rank - 1);
    array = Brought(group.rank(), 1000);
    status = group.Run(Want(CollectiveKind::kAllReduce, {1000}, Pieces(), Of(array)));
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(array == SumOfAll(kMembers - 1, 1000));
  });
  killer.join();
}

TEST_P(Groups, AbortFailsAllRanksAndShrinkContinues) {
  Party party(3, wire(), Options(3));
  party.Run([](int rank, Group& group) {
    Array array(10);
    if (rank == 2) {
      group.Abort(Status::Application(9, "the user pressed a key"));
    } else {
      const Status status = group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array)));
      EXPECT_EQ(status.code(), Code::kApplication) << status.ToString();
    }
    EXPECT_TRUE(group.Shrink(10 * kSecondNs).ok());
    EXPECT_EQ(group.ranks(), 3);
    EXPECT_EQ(group.epoch(), 1U);
    array = Brought(rank, 10);
    EXPECT_TRUE(group.Run(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array))).ok());
    EXPECT_TRUE(array == SumOfAll(3, 10));
  });
}

TEST_P(Groups, APlanRunsAgainAndAgainAlsoAfterAFailure) {
  Party party(3, wire(), Options(3));
  party.Run([](int rank, Group& group) {
    Array array(5000);
    auto fill = [&array, rank] {  // it stays where it is
      const Array brought = Brought(rank, array.size());
      std::copy(brought.begin(), brought.end(), array.begin());
    };
    const std::unique_ptr<Plan> plan = group.MakePlan(Want(CollectiveKind::kAllReduce, {5000}, Pieces(), Of(array)));
    for (int run = 0; run < 20; ++run) {
      fill();
      const Status status = plan->Run();
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(array == SumOfAll(3, 5000));
    }
    Status status = group.Run(Want(CollectiveKind::kBarrier, {}, Pieces(), Pieces()));
    if (rank == 0) group.Abort(Status::Cancelled("once"));
    while (status.ok()) status = plan->Run();
    EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
    ASSERT_TRUE(group.Shrink().ok());
    fill();
    Countdown left(1);
    plan->Start([&left](const Status& outcome) {
      EXPECT_TRUE(outcome.ok()) << outcome.ToString();
      left.Count();
    });
    left.Wait();
    EXPECT_TRUE(array == SumOfAll(3, 5000));
  });
}

TEST_P(Groups, APlanThatIsUnderWayIsRefused) {
  Party party(2, wire(), OneHost(2));
  party.Run([](int rank, Group& group) {
    Array array = Brought(rank, 10);
    const std::unique_ptr<Plan> plan = group.MakePlan(Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(array)));
    CollectiveSpec go = Want(CollectiveKind::kBarrier, {}, Pieces(), Pieces());
    go.key = 1;
    std::unique_ptr<Ticket> ticket = rank == 0 ? plan->StartTicket() : nullptr;
    if (rank == 0) {
      EXPECT_EQ(plan->Run().code(), Code::kInvalid);
      const std::unique_ptr<Ticket> again = plan->StartTicket();
      EXPECT_TRUE(again->Wait());
      EXPECT_EQ(again->status().code(), Code::kInvalid) << again->status().ToString();
    }
    EXPECT_TRUE(group.Run(go).ok());
    if (rank == 1) ticket = plan->StartTicket();
    EXPECT_TRUE(ticket->Wait());
    EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
    EXPECT_TRUE(array == SumOfAll(2, 10));
    EXPECT_TRUE(plan->Run().ok());
  });
}

// Callers that wait use one operation's memory in turn: nothing of one call stays for the next.
TEST_P(Groups, CallsWithAndWithoutAKeyTakeTurns) {
  Party party(2, wire(), OneHost(2));
  party.Run([](int rank, Group& group) {
    for (uint64_t turn = 0; turn < 20; ++turn) {
      const size_t count = 10 * (turn % 3 + 1);
      Array array = Brought(rank, count);
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {count}, Pieces(), Of(array));
      if (turn % 4 == 3) spec.to = Pieces(array.data(), 1);
      spec.key = turn % 2;
      const Status status = group.Run(spec);
      EXPECT_EQ(status.code(), turn % 4 == 3 ? Code::kInvalid : Code::kOk) << status.ToString();
      EXPECT_TRUE(!status.ok() || array == SumOfAll(2, count));
    }
  });
}

// 64 MB are under way, cut into pieces, while small ones come and go.
TEST_P(Groups, SmallOperationsPassLargeOnes) {
  Party party(2, wire(), Options(2));
  party.Run([](int rank, Group& group) {
    Array large = Brought(rank, 4u << 20), small(10);
    auto ticket = group.StartTicket([&large] {
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {large.size()}, Pieces(), Of(large));
      spec.key = 1;
      spec.timeout_ns = 60 * kSecondNs;
      return spec;
    }());
    int passed = 0;
    for (int i = 0; i < 20; ++i) {
      small = Brought(rank, 10);
      CollectiveSpec spec = Want(CollectiveKind::kAllReduce, {10}, Pieces(), Of(small));
      spec.key = 2;
      const Status status = group.Run(spec);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(small == SumOfAll(2, 10));
      passed += ticket->Test() ? 0 : 1;
    }
    EXPECT_GT(passed, 0);
    EXPECT_TRUE(ticket->Wait());
    EXPECT_TRUE(ticket->status().ok()) << ticket->status().ToString();
    EXPECT_TRUE(large == SumOfAll(2, large.size()));
  });
}

FUSEWIRE_GROUPS_OVER_WIRES(Groups);

}  // namespace
}  // namespace fusewire::collective
