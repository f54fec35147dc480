// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/flow.h"

#include <gtest/gtest.h>

namespace fusewire::p2p {
namespace {

TEST(Pushes, BeginWhenAReceiveHasWaited) {
  Pushes pushes;
  EXPECT_FALSE(pushes.Worth(1));
  pushes.Waited(false);
  EXPECT_TRUE(pushes.Worth(1));
}

TEST(Pushes, HaveABoundOnWhatIsUnanswered) {
  Pushes pushes;
  pushes.Waited(false);
  pushes.Pushed(Pushes::kUnansweredBytesMax);
  EXPECT_FALSE(pushes.Worth(1));
  pushes.Ended(Pushes::kUnansweredBytesMax);
  EXPECT_TRUE(pushes.Worth(Pushes::kUnansweredBytesMax));
  EXPECT_FALSE(pushes.Worth(Pushes::kUnansweredBytesMax + 1));
}

TEST(Pushes, NoMoreIsAnsweredThanWasPushed) {
  Pushes pushes;
  pushes.Pushed(10);
  EXPECT_DEATH(pushes.Ended(11), "bytes <= unanswered_");
}

// How many offers have to be awaited before the next guess.
int Distrust(Pushes* pushes) {
  int offers = 0;
  for (; !pushes->Worth(1); ++offers) pushes->Waited(false);
  return offers;
}

TEST(Pushes, GrowRareWhereTheyAreWrong) {
  Pushes pushes;
  EXPECT_EQ(Distrust(&pushes), 1);
  for (int wanted : {2, 4, 8, 16, 32, 64, 128, 256, 256}) {
    pushes.Late(true);
    EXPECT_EQ(Distrust(&pushes), wanted);
  }
  for (int i = 0; i < 8; ++i) pushes.Waited(true);
  pushes.Late(true);
  EXPECT_EQ(Distrust(&pushes), 2);
}

TEST(Pushes, EndWhereAnOfferHadToWait) {
  Pushes pushes;
  pushes.Waited(false);
  pushes.Late(false);
  EXPECT_FALSE(pushes.Worth(1));
  EXPECT_EQ(Distrust(&pushes), 1);
}

}  // namespace
}  // namespace fusewire::p2p
