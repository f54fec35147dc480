// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

namespace fusewire {
namespace {

// Counts how many of its like live; a copy or a move makes one more.
struct Tracker {
  explicit Tracker(int* count) : alive(count) { ++*alive; }
  Tracker(Tracker&& other) noexcept : alive(other.alive) { ++*alive; }
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  ~Tracker() { --*alive; }
  int* alive;
};

// Moving this one may throw, so it must not live inside.
struct ThrowingMove {
  ThrowingMove() = default;
  ThrowingMove(ThrowingMove&&) noexcept(false) {}
  int operator()() const { return 3; }
};

TEST(UniqueFunction, IsEmptyUntilGivenSomething) {
  UniqueFunction<int()> function;
  EXPECT_FALSE(function);
  function = UniqueFunction<int()>(nullptr);
  EXPECT_FALSE(function);
  function = [] { return 5; };
  ASSERT_TRUE(function);
  EXPECT_EQ(function(), 5);
  function = nullptr;
  EXPECT_FALSE(function);
}

TEST(UniqueFunction, PassesArgumentsAndResults) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>, int&)> function = [](std::unique_ptr<int> in, int& out) {
    out = *in;
    return in;
  };
  int out = 0;
  const std::unique_ptr<int> back = function(std::make_unique<int>(4), out);
  EXPECT_EQ(*back, 4);
  EXPECT_EQ(out, 4);
}

template <class Padding>
void KeepsMovesAndDestroysExactlyOnce() {
  int alive = 0;
  int calls = 0;
  {
    UniqueFunction<void()> function = [tracker = Tracker(&alive), padding = Padding(), &calls] {
      (void)padding;
      ++calls;
    };
    EXPECT_EQ(alive, 1);
    UniqueFunction<void()> moved = std::move(function);
    EXPECT_EQ(alive, 1);
    EXPECT_FALSE(function);  // NOLINT(bugprone-use-after-move): what a move leaves behind is empty
    moved();
    moved();
    EXPECT_EQ(calls, 2);

    int others = 0;
    function = [tracker = Tracker(&others), padding = Padding()] { (void)padding; };
    EXPECT_EQ(others, 1);
    function = std::move(moved);
    EXPECT_EQ(others, 0);
    EXPECT_EQ(alive, 1);
    UniqueFunction<void()>* self = &function;
    function = std::move(*self);
    EXPECT_EQ(alive, 1);
    function();
    EXPECT_EQ(calls, 3);
  }
  EXPECT_EQ(alive, 0);
}

TEST(UniqueFunction, KeepsSmallCapturesInside) { KeepsMovesAndDestroysExactlyOnce<char>(); }

TEST(UniqueFunction, KeepsLargeCapturesOutside) { KeepsMovesAndDestroysExactlyOnce<std::array<char, 200>>(); }

TEST(UniqueFunction, KeepsOverAlignedCaptures) {
  struct alignas(128) Wide {
    char bytes[128] = {};
  };
  UniqueFunction<bool()> function = [wide = Wide()] { return reinterpret_cast<uintptr_t>(&wide) % 128 == 0; };
  UniqueFunction<bool()> moved = std::move(function);
  EXPECT_TRUE(moved());
}

TEST(UniqueFunction, KeepsWhatMayThrowOnMoving) {
  UniqueFunction<int()> function = ThrowingMove();
  UniqueFunction<int()> moved = std::move(function);
  EXPECT_EQ(moved(), 3);
}

TEST(UniqueFunction, MayReplaceItselfOnceItHasReturned) {
  int alive = 0;
  UniqueFunction<void()> function = [tracker = Tracker(&alive)] {};
  for (int i = 0; i < 3; ++i) {
    function();
    function = [tracker = Tracker(&alive)] {};
    EXPECT_EQ(alive, 1);
  }
}

TEST(UniqueFunction, HoldsAPlainFunctionPointer) {
  UniqueFunction<int(int)> function = +[](int number) { return number + 1; };
  EXPECT_EQ(function(1), 2);
}

TEST(UniqueFunctionDeathTest, CallingAnEmptyOneIsOurBug) {
  UniqueFunction<void()> function;
  EXPECT_DEATH(function(), "table_ != nullptr");
}

}  // namespace
}  // namespace fusewire
