// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/sanitizers.h"

namespace fusewire::tf {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::Tensor;

TEST(TensorPool, MemoryIsAlignedAndAsLargeAsAskedFor) {
  TensorPool pool;
  std::mt19937 random(1);
  std::vector<std::pair<char*, size_t>> taken;
  for (size_t bytes : {0, 1, 63, 64, 65, 1023, 1024, 1025, 1280, 1281, 262143, 262144, 262145, 5'000'000}) {
    for (size_t alignment : {8, 64, 256, 4096}) {
      for (int again = 0; again < 3; ++again) {
        auto* at = static_cast<char*>(pool.AllocateRaw(alignment, bytes));
        ASSERT_NE(at, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % std::max<size_t>(alignment, 64), 0u) << bytes;
        std::memset(at, static_cast<int>(taken.size()), bytes);
        taken.emplace_back(at, bytes);
        if (random() % 3 == 0) continue;
        const size_t one = random() % taken.size();
        const auto is_own = [&, value = taken[one].first](size_t i) { return value[i] == value[0]; };
        for (size_t i = 0; i < taken[one].second; ++i) ASSERT_TRUE(is_own(i)) << "another tensor was written";
        pool.DeallocateRaw(taken[one].first);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(one));
      }
    }
  }
  for (const auto& one : taken) pool.DeallocateRaw(one.first);
  EXPECT_EQ(pool.AllocateRaw(64, SIZE_MAX - 10), nullptr);
}

TEST(TensorPool, WhatComesBackIsTakenAgain) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has to see each tensor's end";
  TensorPool pool;
  void* first = pool.AllocateRaw(64, 4000);
  pool.DeallocateRaw(first);
  EXPECT_GE(pool.kept(), 4000u);
  void* other = pool.AllocateRaw(64, 400);
  EXPECT_NE(other, first);
  EXPECT_EQ(pool.AllocateRaw(64, 4090), first);  // of the same size when rounded up
  EXPECT_EQ(pool.kept(), 0u);
  pool.DeallocateRaw(first);
  pool.DeallocateRaw(other);
}

TEST(TensorPool, KeepsNoMoreThanItsBound) {
  TensorPool pool;
  std::vector<void*> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(pool.AllocateRaw(64, 200'000));
  taken.push_back(pool.AllocateRaw(64, 1 << 20));
  for (void* at : taken) pool.DeallocateRaw(at);
  EXPECT_LE(pool.kept(), TensorPool::kKeptMax);
  EXPECT_EQ(pool.kept() > TensorPool::kKeptMax / 2, !kSanitized);
}

TEST(TensorPool, AWavesMemoryGoesBackWhileOthersComeAndGo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has to see each tensor's end";
  TensorPool pool;
  std::vector<void*> wave(10'000);
  for (void*& at : wave) at = pool.AllocateRaw(64, 4000);
  const size_t most = pool.slab_bytes();
  EXPECT_GE(most, wave.size() * 4000);
  for (void* at : wave) pool.DeallocateRaw(at);
  const int64_t end_ns = Clock::Real()->NowNs() + 20 * kSecondNs;
  while (pool.slab_bytes() > 2 * TensorPool::kKeptMax && Clock::Real()->NowNs() < end_ns)
    pool.DeallocateRaw(pool.AllocateRaw(64, 4000));
  EXPECT_LE(pool.slab_bytes(), 2 * TensorPool::kKeptMax);
}

TEST(TensorPool, WithoutRoomInItsSlabsItAsksMalloc) {
  TensorPool pool(1);
  std::vector<void*> taken;
  for (int i = 0; i < 300; ++i) {
    taken.push_back(pool.AllocateRaw(64, 4000));
    std::memset(taken.back(), i % 251, 4000);
  }
  for (int i = 0; i < 300; ++i) {
    const auto* at = static_cast<const unsigned char*>(taken[static_cast<size_t>(i)]);
    EXPECT_TRUE(std::all_of(at, at + 4000, [i](unsigned char byte) { return byte == i % 251; }));
  }
  for (int round = 0; round < 3; ++round) {
    for (void* at : taken) pool.DeallocateRaw(at);
    for (void*& at : taken) at = pool.AllocateRaw(64, 4000);
  }
  for (void* at : taken) pool.DeallocateRaw(at);
}

TEST(TensorPool, TensorsMayEndOnOtherThreads) {
  TensorPool pool;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool] {
      for (int round = 0; round < 200; ++round) {
        std::vector<Tensor> tensors;
        for (int size = 1; size < 50; ++size) {
          tensors.emplace_back(&pool, DT_FLOAT, tensorflow::TensorShape({size * 10}));
          tensors.back().flat<float>().setConstant(static_cast<float>(size));
        }
        std::thread([tensors = std::move(tensors)]() mutable { tensors.clear(); }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PooledDevice, IsTheProcessorWithOtherMemory) {
  std::unique_ptr<tensorflow::Device> device =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:0");
  auto pooled = PooledDevice::Of(device.get());
  ASSERT_NE(pooled, nullptr);
  EXPECT_EQ(pooled->name(), device->name());
  EXPECT_EQ(pooled->resource_manager(), device->resource_manager());
  EXPECT_EQ(pooled->eigen_cpu_device(), device->eigen_cpu_device());
  EXPECT_EQ(pooled->tensorflow_cpu_worker_threads(), device->tensorflow_cpu_worker_threads());
  tensorflow::AllocatorAttributes plain, accelerated;
  accelerated.set_gpu_compatible(true);
  EXPECT_EQ(pooled->GetAllocator(plain), TensorPool::Global());
  EXPECT_EQ(pooled->GetAllocator(accelerated), device->GetAllocator(accelerated));
}

}  // namespace
}  // namespace fusewire::tf
