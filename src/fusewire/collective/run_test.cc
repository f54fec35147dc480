// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/collective/local_courier_test.h"

namespace fusewire {
namespace collective {
namespace {

Request AllReduceOf(Algorithm algorithm, int ranks, int rank, size_t count) {
  Request request;
  request.kind = Kind::kAllReduce;
  request.algorithm = algorithm;
  request.ranks = ranks;
  request.rank = rank;
  request.counts = {count};
  request.in_place = true;
  request.segment_count = 300;
  return request;
}

TEST(RunSchedule, EveryAllReduceAveragesOverThreads) {
  for (const Algorithm algorithm : AlgorithmsOf(Kind::kAllReduce)) {
    for (const int ranks : {1, 2, 5, 8}) {
      SCOPED_TRACE(AlgorithmName(algorithm) + " of " + std::to_string(ranks));
      const size_t count = 5003;
      PostOffice office;
      std::vector<std::vector<float>> arrays;
      std::vector<Status> statuses(static_cast<size_t>(ranks));
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) arrays.emplace_back(count, static_cast<float>(rank));
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          auto& array = arrays[static_cast<size_t>(rank)];
          for (size_t i = 0; i < count; ++i) array[i] += static_cast<float>(i);
          Reduction reduction;
          reduction.op = Op::kAverage;
          const Reducer reducer(reduction);
          LocalCourier courier(&office, rank);
          const Result<Schedule> schedule = Compile(AllReduceOf(algorithm, ranks, rank, count));
          const Bytes whole(array.data(), count * sizeof(float));
          statuses[static_cast<size_t>(rank)] =
              RunSchedule(schedule.value(), &reducer, sizeof(float), ranks, {whole, whole}, &courier,
                          Clock::Real()->NowNs() + 20 * kSecondNs);
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
      for (const auto& array : arrays) {
        for (size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(array[i], static_cast<float>(i) + static_cast<float>(ranks - 1) / 2, 1e-2F);
        }
      }
    }
  }
}

TEST(RunSchedule, APeerThatDoesNotComeEndsTheRunAtItsDeadline) {
  PostOffice office;
  LocalCourier courier(&office, 0);
  std::vector<float> array(10);
  const Reducer reducer({});
  const Bytes whole(array.data(), 40);
  const Result<Schedule> schedule = Compile(AllReduceOf(Algorithm::kTwoShot, 2, 0, 10));
  const Status status = RunSchedule(schedule.value(), &reducer, sizeof(float), 2, {whole, whole}, &courier,
                                    Clock::Real()->NowNs() + 30 * kMillisecondNs);
  EXPECT_EQ(status.code(), Code::kTimeout);
}

TEST(RunSchedule, ArraysThatAreTooSmallAreRefused) {
  PostOffice office;
  LocalCourier courier(&office, 0);
  std::vector<float> array(9);
  const Reducer reducer({});
  const Bytes whole(array.data(), 36);
  const Result<Schedule> schedule = Compile(AllReduceOf(Algorithm::kTwoShot, 2, 0, 10));
  EXPECT_EQ(RunSchedule(schedule.value(), &reducer, sizeof(float), 2, {whole, whole}, &courier, Clock::Real()->NowNs())
                .code(),
            Code::kInvalid);
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
