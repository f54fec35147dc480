// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/arena/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/collective/arena/crew_test.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/scalar_test.h"

namespace fusewire::collective {
namespace {

// Rank r's value of element i: sums of it are exact in f32, and differ for every i and r.
float Value(int rank, size_t i) { return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 1001); }

std::vector<float> Values(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Value(rank, i);
  return values;
}

void ExpectSums(const std::vector<float>& got, int ranks) {
  for (size_t i = 0; i < got.size(); ++i) {
    float want = 0;
    for (int rank = 0; rank < ranks; ++rank) want += Value(rank, i);
    ASSERT_EQ(got[i], want) << "element " << i << " of " << got.size();
  }
}

// Through shares alone, and by loans wherever there can be any.
void RunEachWay(int ranks, const std::function<void(Arena&)>& run) {
  for (const LoanRule rule : {LoanRule::kNever, LoanRule::kAlways}) {
    SCOPED_TRACE("rule " + std::to_string(static_cast<int>(rule)));
    ArenaOptions options;
    options.loans = rule;
    Crew::RunThreads(ranks, options, run);
  }
}

TEST(Arena, AllReduceOfEverySizeInAndOutOfPlace) {
  for (const int ranks : {1, 2, 3, 8, 16}) {
    RunEachWay(ranks, [ranks](Arena& arena) {
      for (const size_t count : {0, 1, 7, 10, 11, 1000, 4096, 5000, 65537, 1100003}) {
        for (const bool in_place : {false, true}) {
          std::vector<float> from = Values(arena.rank(), count);
          std::vector<float> to(in_place ? 0 : count);
          std::vector<float>& out = in_place ? from : to;
          const Status status = AllReduce(arena, {}, Whole(from), Whole(out));
          ASSERT_TRUE(status.ok()) << status.ToString();
          ExpectSums(out, ranks);
        }
      }
    });
  }
}

TEST(Arena, EveryTypeAndOpMatchesTheReferenceInRankOrder) {
  RunEachWay(3, [](Arena& arena) {
    Random random(7);
    for (uint8_t type = 0; type < kTypes; ++type) {
      for (uint8_t op = 0; op < kBuiltInOps; ++op) {
        Reduction reduction;
        reduction.op = static_cast<Op>(op);
        reduction.type = static_cast<Type>(type);
        if (!CheckReduction(reduction).ok()) continue;
        for (const size_t count : {3, 3001, 70001}) {
          const size_t bytes = count * SizeOf(reduction.type);
          std::vector<std::vector<uint8_t>> arrays(3, std::vector<uint8_t>(bytes));
          for (auto& array : arrays) {
            for (uint8_t& byte : array) byte = static_cast<uint8_t>(random.Below(60));  // no NaN, whose bits may differ
          }
          std::vector<uint8_t> want(bytes), to(bytes);
          const void* const sources[] = {arrays[0].data(), arrays[1].data(), arrays[2].data()};
          ReduceCall call;
          call.to = want.data();
          call.sources = sources;
          call.sources_count = 3;
          call.count = count;
          call.divisor = reduction.op == Op::kAverage ? 3 : 1;
          scalar::Find(reduction.op, reduction.type)(call);
          const Status status =
              AllReduce(arena, reduction, Whole(arrays[static_cast<size_t>(arena.rank())]), Whole(to));
          ASSERT_TRUE(status.ok()) << status.ToString();
          ASSERT_TRUE(to == want) << OpName(reduction.op) << " of " << TypeName(reduction.type);
        }
      }
    }
  });
}

TEST(Arena, AUsersFunctionInPlaceInRankOrder) {
  RunEachWay(4, [](Arena& arena) {
    Reduction reduction;
    reduction.op = Op::kUser;
    reduction.type = Type::kI64;
    reduction.user.combine = [](void* into, const void* from, size_t count, void*) {
      for (size_t i = 0; i < count; ++i) {
        static_cast<int64_t*>(into)[i] = static_cast<int64_t*>(into)[i] * 10 + static_cast<const int64_t*>(from)[i];
      }
    };
    for (const size_t count : {2, 1000, 100000}) {
      std::vector<int64_t> array(count, arena.rank() + 1);
      ASSERT_TRUE(AllReduce(arena, reduction, Whole(array), Whole(array)).ok());
      for (const int64_t value : array) ASSERT_EQ(value, 1234);
    }
  });
}

TEST(Arena, ListsOfPiecesAreOneArray) {
  RunEachWay(3, [](Arena& arena) {
    const size_t count = 150000;
    std::vector<float> from = Values(arena.rank(), count), to(count);
    Random random(static_cast<uint64_t>(arena.rank()) + 5);  // each rank cuts elsewhere
    auto cut = [&random](std::vector<float>* array) {
      std::vector<Piece> pieces;
      for (size_t at = 0; at < array->size();) {
        const size_t run = std::min<size_t>(random.Below(3000), array->size() - at);
        pieces.push_back({array->data() + at, run * sizeof(float)});
        at += run;
      }
      return pieces;
    };
    const std::vector<Piece> in = cut(&from), out = cut(&to);
    ASSERT_TRUE(AllReduce(arena, {}, Pieces(in.data(), in.size()), Pieces(out.data(), out.size())).ok());
    ExpectSums(to, 3);
  });
}

TEST(Arena, ReduceLeavesTheResultWithTheRoot) {
  RunEachWay(4, [](Arena& arena) {
    for (const size_t count : {1, 5000, 300000}) {
      for (int root = 0; root < 4; ++root) {
        std::vector<float> from = Values(arena.rank(), count), to(count, -1);
        ASSERT_TRUE(Call(CollectiveKind::kReduce, {}, {count}, Whole(from), Whole(to), root).On(arena).ok());
        if (arena.rank() == root) {
          ExpectSums(to, 4);
        } else {
          ASSERT_EQ(to[0], -1);
        }
      }
    }
  });
}

// The counts of a v-variant: some ranks have nothing.
std::vector<size_t> Uneven(int ranks, size_t scale) {
  std::vector<size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(static_cast<size_t>(rank % 3) * scale);
  return counts;
}

TEST(Arena, ReduceScatterOfUnevenParts) {
  for (const int ranks : {1, 2, 5}) {
    RunEachWay(ranks, [ranks](Arena& arena) {
      for (const size_t scale : {1, 777, 60000}) {
        const std::vector<size_t> counts = Uneven(ranks, scale);
        const auto me = static_cast<size_t>(arena.rank());
        const size_t start = std::accumulate(counts.begin(), counts.begin() + arena.rank(), size_t{0});
        std::vector<float> from = Values(arena.rank(), std::accumulate(counts.begin(), counts.end(), size_t{0}));
        std::vector<float> to(counts[me]);
        ASSERT_TRUE(Call(CollectiveKind::kReduceScatter, {}, counts, Whole(from), Whole(to)).On(arena).ok());
        for (size_t i = 0; i < to.size(); ++i) {
          float want = 0;
          for (int rank = 0; rank < ranks; ++rank) want += Value(rank, start + i);
          ASSERT_EQ(to[i], want);
        }
      }
    });
  }
}

std::vector<size_t> Times(std::vector<size_t> counts, size_t by) {
  for (size_t& count : counts) count *= by;
  return counts;
}

TEST(Arena, GatherAllGatherScatterAndBroadcastOfUnevenParts) {
  for (const int ranks : {1, 2, 5}) {
    RunEachWay(ranks, [ranks](Arena& arena) {
      for (const size_t scale : {1, 777, 100000}) {
        const std::vector<size_t> counts = Uneven(ranks, scale);
        const std::vector<size_t> bytes = Times(counts, sizeof(float));
        std::vector<float> all;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<float> part = Values(rank, counts[static_cast<size_t>(rank)]);
          all.insert(all.end(), part.begin(), part.end());
        }
        std::vector<float> mine = Values(arena.rank(), counts[static_cast<size_t>(arena.rank())]);
        std::vector<float> got(all.size());
        ASSERT_TRUE(AllGather(arena, bytes, Whole(mine), Whole(got)).ok());
        ASSERT_TRUE(got == all);
        for (int root = 0; root < ranks; ++root) {
          got.assign(all.size(), -1);
          ASSERT_TRUE(Call(CollectiveKind::kGather, {}, counts, Whole(mine), Whole(got), root).On(arena).ok());
          ASSERT_TRUE(arena.rank() != root || got == all);
          std::vector<float> part(mine.size());
          ASSERT_TRUE(Call(CollectiveKind::kScatter, {}, counts, Whole(all), Whole(part), root).On(arena).ok());
          ASSERT_TRUE(part == mine);
          std::vector<float> said = Values(arena.rank(), scale * 2);
          ASSERT_TRUE(Call(CollectiveKind::kBroadcast, {}, {scale * 2}, {}, Whole(said), root).On(arena).ok());
          ASSERT_TRUE(said == Values(root, scale * 2));
        }
      }
    });
  }
}

TEST(Arena, AllToAllOfUnevenParts) {
  for (const int ranks : {1, 2, 5}) {
    RunEachWay(ranks, [ranks](Arena& arena) {
      for (const size_t scale : {1, 500, 40000}) {
        const int me = arena.rank();
        auto size = [scale](int from, int to) { return static_cast<size_t>((from * 2 + to) % 3) * scale; };
        std::vector<size_t> send, receive;
        std::vector<float> from, want;
        for (int rank = 0; rank < ranks; ++rank) {
          send.push_back(size(me, rank) * sizeof(float));
          receive.push_back(size(rank, me) * sizeof(float));
          for (size_t i = 0; i < size(me, rank); ++i) from.push_back(Value(me * 10 + rank, i));
          for (size_t i = 0; i < size(rank, me); ++i) want.push_back(Value(rank * 10 + me, i));
        }
        std::vector<float> to(want.size());
        const Status status = AllToAll(arena, send, receive, Whole(from), Whole(to));
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(to == want);
      }
    });
  }
}

TEST(Arena, AllToAllOfOneCountForAll) {
  for (const int ranks : {1, 2, 5}) {
    RunEachWay(ranks, [ranks](Arena& arena) {
      for (const size_t part : {0, 1, 500, 40000}) {
        std::vector<float> from, want;
        for (int rank = 0; rank < ranks; ++rank) {
          for (size_t i = 0; i < part; ++i) from.push_back(Value(arena.rank() * 10 + rank, i));
          for (size_t i = 0; i < part; ++i) want.push_back(Value(rank * 10 + arena.rank(), i));
        }
        std::vector<float> to(want.size());
        const Status status = AllToAll(arena, {part * sizeof(float)}, {}, Whole(from), Whole(to));
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(to == want) << part << " of " << ranks;
      }
    });
  }
}

TEST(Arena, AllToAllOfOneCountIsNotThatOfAnotherNorOfSeveral) {
  Crew::RunThreads(2, {}, [](Arena& arena) {
    std::vector<uint8_t> from(16), to(16);
    const bool is_other = arena.rank() == 1;
    Status status = AllToAll(arena, {is_other ? size_t{4} : size_t{8}}, {}, Pieces(from.data(), is_other ? 8 : 16),
                             Pieces(to.data(), is_other ? 8 : 16));
    EXPECT_EQ(status.cause(),
              "rank 0 wants all-to-all of u8, 8 bytes for each, rank 1 wants all-to-all of u8, 4 bytes for each");
    const std::vector<size_t> known = is_other ? std::vector<size_t>{8, 8} : std::vector<size_t>{8};
    status = AllToAll(arena, known, is_other ? known : std::vector<size_t>(), Whole(from), Whole(to));
    EXPECT_EQ(status.cause(), "rank 0 wants all-to-all of u8, 8 bytes for each, rank 1 wants all-to-all of u8");
    EXPECT_TRUE(Barrier(arena).ok());
  });
}

TEST(Arena, AMismatchNamesBothRanksAndTheArenaStaysUsable) {
  Crew::RunThreads(4, {}, [](Arena& arena) {
    std::vector<float> array(100, 1);
    const Status status = arena.rank() == 2 ? Barrier(arena) : AllReduce(arena, {}, Whole(array), Whole(array));
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_EQ(status.cause(), "rank 0 wants all-reduce sum of 100 f32, rank 2 wants barrier");
    EXPECT_EQ(array[0], 1);
    ASSERT_TRUE(AllReduce(arena, {}, Whole(array), Whole(array)).ok());
    EXPECT_EQ(array[99], 4);
  });
}

TEST(Arena, AllToAllSizesThatContradictAreNamedOnAllRanks) {
  Crew::RunThreads(3, {}, [](Arena& arena) {
    std::vector<size_t> send(3, 8), receive(3, 8);
    if (arena.rank() == 1) send = {8, 8, 16};
    std::vector<uint8_t> from(arena.rank() == 1 ? 32 : 24), to(24);
    const Status status = AllToAll(arena, send, receive, Whole(from), Whole(to));
    EXPECT_EQ(status.cause(), "rank 1 sends 16 bytes to rank 2, which wants 8");
    EXPECT_TRUE(Barrier(arena).ok());
  });
}

TEST(Arena, TheDeadlineNamesTheMissingRank) {
  std::atomic<int> done{0};
  Crew::RunThreads(3, {}, [&done](Arena& arena) {
    EXPECT_TRUE(Barrier(arena).ok());
    if (arena.rank() != 1) {
      const Status late = Barrier(arena, Clock::Real()->NowNs() + 100 * kMillisecondNs);
      EXPECT_EQ(late.code(), Code::kTimeout);
      EXPECT_EQ(late.peer(), "rank 1");
      EXPECT_EQ(Barrier(arena).code(), Code::kTimeout) << "a broken arena says so at once";
    }
    // A rank that went now would be dead, not late.
    ++done;
    while (done < 3) std::this_thread::yield();
  });
}

TEST(Arena, WrongArraysAreRefusedBeforeTheMeeting) {
  Crew::RunThreads(1, {}, [](Arena& arena) {
    std::vector<float> four(4), other(4), five(5);
    EXPECT_EQ(AllReduce(arena, {}, Whole(four), Whole(five)).code(), Code::kInvalid);
    Reduction bits;
    bits.op = Op::kXor;
    EXPECT_EQ(AllReduce(arena, bits, Whole(four), Whole(four)).code(), Code::kInvalid);
    Reduction unknown;
    unknown.type = static_cast<Type>(kTypes);
    EXPECT_EQ(AllReduce(arena, unknown, Whole(four), Whole(four)).code(), Code::kInvalid);
    EXPECT_EQ(Call(CollectiveKind::kReduce, unknown, {4}, Whole(four), Whole(four)).On(arena).code(), Code::kInvalid);
    EXPECT_EQ(Call(CollectiveKind::kBroadcast, {}, {4}, {}, Whole(four), 1).On(arena).code(), Code::kInvalid);
    EXPECT_EQ(AllReduce(arena, {}, Pieces(four.data(), 7), Pieces(four.data(), 7)).code(), Code::kInvalid);
    EXPECT_EQ(AllToAll(arena, {16}, {}, Whole(four), {}).code(), Code::kInvalid);
    EXPECT_EQ(AllToAll(arena, {16}, {8, 8}, Whole(four), Whole(other)).code(), Code::kInvalid);
  });
}

TEST(Arena, DifferentOptionsAreRefused) {
  Crew crew(2, {});
  ArenaOptions other;
  other.one_shot_bytes = 4096;
  EXPECT_EQ(Arena::Join(crew.SeatOf(0), other).status().code(), Code::kRefused);
}

TEST(Arena, MemoryThatIsTooSmallIsRefused) {
  Crew crew(2, {});
  ArenaSeat seat = crew.SeatOf(0);
  Result<int> small = CreateArenaMemory(1, {});
  ASSERT_TRUE(small.ok());
  seat.memory = small.value();
  const Result<std::unique_ptr<Arena>> joined = Arena::Join(std::move(seat), {});
  EXPECT_EQ(joined.status().code(), Code::kRefused);
  close(small.value());
}

}  // namespace
}  // namespace fusewire::collective
