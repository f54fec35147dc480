// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/party_test.h"

namespace fusewire {
namespace collective {
namespace {

using Array = std::vector<int64_t>;

Pieces Of(Array& array) { return Pieces(array.data(), array.size() * sizeof(int64_t)); }

Wanted Want(Kind kind, std::vector<size_t> counts, Pieces from, Pieces to) {
  Wanted wanted;
  wanted.kind = kind;
  wanted.reduction.type = Type::kI64;
  wanted.counts = std::move(counts);
  wanted.from = from;
  wanted.to = to;
  wanted.timeout_ns = 20 * kSecondNs;
  return wanted;
}

// What rank r brings at element i.
int64_t Value(int rank, size_t i) { return static_cast<int64_t>(i * 7 % 1000) + 1000 * rank; }

Array Brought(int rank, size_t count) {
  Array array(count);
  for (size_t i = 0; i < count; ++i) array[i] = Value(rank, i);
  return array;
}

Array SumOfAll(int ranks, size_t count) {
  Array sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i) sum[i] += Value(rank, i);
  }
  return sum;
}

TEST(Group, AllReducesInOrderOfCallsForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    Party party(ranks);
    party.Run([ranks](int rank, Group& group) {
      for (const size_t count : {1, 5, 1000, 70000}) {
        Array from = Brought(rank, count), to(count);
        const Status status = group.Run(Want(Kind::kAllReduce, {count}, Of(from), Of(to)));
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(to == SumOfAll(ranks, count)) << ranks << " ranks, " << count;
      }
    });
  }
}

TEST(Group, KeysMeetWhateverTheOrder) {
  constexpr int kRanks = 3;
  constexpr uint64_t kKeys = 40;
  Party party(kRanks);
  party.Run([](int rank, Group& group) {
    std::vector<Array> arrays;
    for (uint64_t key = 0; key < kKeys; ++key) arrays.push_back(Brought(rank, 100 * key + 1));
    std::vector<uint64_t> order;
    for (uint64_t key = 1; key <= kKeys; ++key) order.push_back(key);
    Random random(static_cast<uint64_t>(rank) + 1);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    std::atomic<uint64_t> left{kKeys};
    reactor::Waiter all;
    for (const uint64_t key : order) {
      Array& array = arrays[key - 1];
      Wanted wanted = Want(Kind::kAllReduce, {array.size()}, Pieces(), Of(array));
      wanted.key = key;
      group.Start(std::move(wanted), [&left, &all](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        if (left.fetch_sub(1) == 1) all.Signal();
      });
    }
    while (left.load() > 0) std::this_thread::yield();
    for (uint64_t key = 0; key < kKeys; ++key) EXPECT_TRUE(arrays[key] == SumOfAll(kRanks, 100 * key + 1)) << key;
  });
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
