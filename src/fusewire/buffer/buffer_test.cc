// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A sanitizer ends the process when memory is short; what is tested here is that we do not. Unused in other builds.
#define FUSEWIRE_EXPORTED extern "C" __attribute__((visibility("default")))
FUSEWIRE_EXPORTED const char* __asan_default_options() { return "allocator_may_return_null=1"; }
FUSEWIRE_EXPORTED const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace fusewire {
namespace {

// Lends memory, and records what is returned.
struct Lender {
  static void TakeBack(void* owner, Bytes bytes) { static_cast<Lender*>(owner)->returned.push_back(bytes); }
  Buffer Lend() { return Buffer::Wrap(Bytes(memory, sizeof(memory)), this, TakeBack); }
  uint8_t memory[16] = {};
  std::vector<Bytes> returned;
};

TEST(Buffer, GivesItsMemoryBackOnceWhenItDies) {
  Lender lender;
  {
    const Buffer buffer = lender.Lend();
    EXPECT_EQ(buffer.bytes().data, lender.memory);
    EXPECT_EQ(buffer.size(), sizeof(lender.memory));
    EXPECT_FALSE(buffer.empty());
    EXPECT_TRUE(lender.returned.empty());
  }
  ASSERT_EQ(lender.returned.size(), 1u);
  EXPECT_EQ(lender.returned[0].data, lender.memory);
  EXPECT_EQ(lender.returned[0].size, sizeof(lender.memory));
}

TEST(Buffer, AMovedOneGivesBackOnceAndLeavesNothingBehind) {
  Lender lender;
  {
    Buffer first = lender.Lend();
    Buffer second = std::move(first);
    EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): what a move leaves behind is empty
    Buffer third;
    third = std::move(second);
    EXPECT_EQ(third.size(), sizeof(lender.memory));
    EXPECT_TRUE(lender.returned.empty());
  }
  EXPECT_EQ(lender.returned.size(), 1u);
}

TEST(Buffer, SurvivesBeingMovedToItself) {
  Lender lender;
  {
    Buffer buffer = lender.Lend();
    Buffer* self = &buffer;
    buffer = std::move(*self);
    EXPECT_EQ(buffer.size(), sizeof(lender.memory));
    EXPECT_TRUE(lender.returned.empty());
  }
  EXPECT_EQ(lender.returned.size(), 1u);
}

TEST(Buffer, GivesBackBeforeItTakesAnother) {
  Lender lender;
  Lender other;
  Buffer buffer = lender.Lend();
  buffer = other.Lend();
  EXPECT_EQ(lender.returned.size(), 1u);
  EXPECT_TRUE(other.returned.empty());
  buffer.Drop();
  EXPECT_EQ(other.returned.size(), 1u);
  EXPECT_TRUE(buffer.empty());
  buffer.Drop();
  EXPECT_EQ(other.returned.size(), 1u);
}

TEST(Buffer, AnEmptyLoanComesBackToo) {
  Lender lender;
  Buffer::Wrap(Bytes(lender.memory, 0), &lender, Lender::TakeBack).Drop();
  EXPECT_EQ(lender.returned.size(), 1u);
}

TEST(Buffer, WithoutAReleaseItOnlyShows) {
  uint8_t byte = 1;
  Buffer buffer = Buffer::Wrap(Bytes(&byte, 1), nullptr, nullptr);
  EXPECT_EQ(buffer.bytes().data, &byte);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.size(), 1u);
  moved.Drop();
  EXPECT_TRUE(moved.empty());
}

TEST(Buffer, MayBeDroppedOnAnotherThread) {
  Lender lender;
  std::thread([buffer = lender.Lend()]() mutable { buffer.Drop(); }).join();
  EXPECT_EQ(lender.returned.size(), 1u);
}

// A release function may lend the memory again at once, through the same Buffer.
struct Repeater {
  static void TakeBack(void* owner, Bytes bytes) {
    auto* self = static_cast<Repeater*>(owner);
    if (++self->times < 3) *self->holder = Buffer::Wrap(bytes, owner, TakeBack);
  }
  Buffer* holder;
  int times = 0;
};

TEST(Buffer, AReleaseMayFillItAgain) {
  uint8_t byte = 0;
  Buffer buffer;
  Repeater repeater{&buffer};
  buffer = Buffer::Wrap(Bytes(&byte, 1), &repeater, Repeater::TakeBack);
  buffer.Drop();
  EXPECT_EQ(repeater.times, 1);
  EXPECT_EQ(buffer.size(), 1u);
  buffer.Drop();
  buffer.Drop();
  EXPECT_EQ(repeater.times, 3);
  EXPECT_TRUE(buffer.empty());
}

TEST(Buffer, AllocatesAlignedMemoryOfEverySize) {
  for (size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, size_t{1} << 20}) {
    const Buffer buffer = Buffer::TryAllocate(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data) % 64, 0u);
    buffer.bytes().data[0] = 1;
    buffer.bytes().data[size - 1] = 2;
  }
  EXPECT_TRUE(Buffer::TryAllocate(0).empty());
}

TEST(Buffer, IsEmptyWhenThereIsNoMemory) {
  EXPECT_TRUE(Buffer::TryAllocate(SIZE_MAX).empty());
  EXPECT_TRUE(Buffer::TryAllocate(SIZE_MAX - 63).empty());
  EXPECT_TRUE(Buffer::TryAllocate(SIZE_MAX / 2).empty());
}

TEST(Buffer, AllocatesAllSegmentsOfABody) {
  const std::vector<size_t> sizes = {1, 0, 256, 257, 100'000, 64, 65};
  std::vector<Buffer> buffers;
  ASSERT_TRUE(Buffer::TryAllocateAll(sizes, &buffers));
  ASSERT_EQ(buffers.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(buffers[i].size(), sizes[i]);
    EXPECT_EQ(buffers[i].is_own(), sizes[i] > 0);
    if (sizes[i] == 0) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers[i].bytes().data) % 64, 0u);
    std::fill_n(buffers[i].bytes().data, sizes[i], static_cast<uint8_t>(i));
  }
  // Each lives by itself: the last of those that share an allocation frees it, on any thread.
  const Buffer last = std::move(buffers[6]);
  std::thread([&] { buffers.clear(); }).join();
  EXPECT_EQ(last.bytes().data[64], 6);
  EXPECT_FALSE(Buffer::TryAllocateAll({5, 6, SIZE_MAX / 2}, &buffers));
  EXPECT_TRUE(buffers.empty());
  EXPECT_TRUE(Buffer::TryAllocateAll({}, &buffers));
}

TEST(Buffer, CopiesASmallPiece) {
  std::string text = "hello";
  const Buffer copy = Buffer::CopyOf(text);
  text[0] = 'j';
  EXPECT_EQ(ConstBytes(copy.bytes()).ToString(), "hello");
  EXPECT_TRUE(Buffer::CopyOf(ConstBytes()).empty());
}

TEST(Buffers, AddUp) {
  Buffers buffers;
  EXPECT_EQ(TotalBytes(buffers), 0u);
  buffers.push_back(Buffer::TryAllocate(5));
  buffers.emplace_back();
  buffers.push_back(Buffer::TryAllocate(7));
  EXPECT_EQ(TotalBytes(buffers), 12u);
}

}  // namespace
}  // namespace fusewire
