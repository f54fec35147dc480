// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/window.h"

#include <gtest/gtest.h>

namespace fusewire::pipe {
namespace {

TEST(Pieces, OfTheUsualMessageCostNothing) {
  Budget budget(1 << 20);
  Pieces pieces(&budget);
  ASSERT_TRUE(pieces.OnReceived(2000).ok());
  for (int i = 0; i < 1'000'000; ++i) ASSERT_TRUE(pieces.OnReceived(1).ok());
  EXPECT_EQ(budget.used_bytes(), 0u);
  pieces.Consume(2000);
  pieces.Consume(1);
}

TEST(Pieces, ManyAreCountedUntilTheyAreConsumed) {
  Budget budget(100 << 20);
  Pieces pieces(&budget);
  ASSERT_TRUE(pieces.OnReceived(65535).ok());
  EXPECT_GE(budget.used_bytes(), 65535u * 112);
  ASSERT_TRUE(pieces.OnReceived(10).ok());
  pieces.Consume(65535);
  EXPECT_LE(budget.used_bytes(), 10u * 128);
  pieces.Consume(10);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(Pieces, APipeThatGoesGivesUpItsShare) {
  Budget budget(100 << 20);
  {
    Pieces pieces(&budget);
    ASSERT_TRUE(pieces.OnReceived(65535).ok());
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

// One message of them passes, whatever the budget: both ends know only of its bytes.
TEST(Pieces, MoreThanThereIsMemoryForEndsThePipe) {
  Budget budget(1 << 20);
  Pieces pieces(&budget), other(&budget);
  ASSERT_TRUE(pieces.OnReceived(65535).ok());
  ASSERT_TRUE(pieces.OnReceived(65535).ok());
  EXPECT_EQ(pieces.OnReceived(65535).code(), Code::kOverloaded);
  EXPECT_TRUE(other.OnReceived(60000).ok());  // is not to blame
}

// Otherwise a call that is held, and waits for a large message, would wait for ever.
TEST(Pieces, AreNotInTheWayOfALargeMessage) {
  Budget budget(1 << 20);
  Pieces pieces(&budget);
  ASSERT_TRUE(pieces.OnReceived(65535).ok());
  Budget::Share small(&budget), large(&budget);
  ASSERT_TRUE(large.TryReserve(2 << 20));
  EXPECT_FALSE(small.TryReserve(1));
}

}  // namespace
}  // namespace fusewire::pipe
