// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace fusewire {
namespace {

struct Note final : Mail {
  Note(int sender_number, int note_number, std::vector<std::vector<int>>* inbox)
      : sender(sender_number), number(note_number), by_sender(inbox) {}
  void Deliver() override {
    (*by_sender)[static_cast<size_t>(sender)].push_back(number);
    delete this;
  }
  int sender;
  int number;
  std::vector<std::vector<int>>* by_sender;
};

TEST(Mailbox, DeliversTheOldestFirst) {
  std::vector<std::vector<int>> inbox(1);
  Mailbox box;
  EXPECT_TRUE(box.empty());
  EXPECT_EQ(box.DeliverAll(), 0);
  for (int i = 0; i < 5; ++i) box.Push(new Note(0, i, &inbox));
  EXPECT_FALSE(box.empty());
  EXPECT_EQ(box.DeliverAll(), 5);
  EXPECT_EQ(inbox[0], (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(box.empty());
}

TEST(Mailbox, OnlyTheFirstIntoAnEmptyBoxWakesTheOwner) {
  std::vector<std::vector<int>> inbox(1);
  Mailbox box;
  EXPECT_TRUE(box.Push(new Note(0, 0, &inbox)));
  EXPECT_FALSE(box.Push(new Note(0, 1, &inbox)));
  box.DeliverAll();
  EXPECT_TRUE(box.Push(new Note(0, 2, &inbox)));
  box.DeliverAll();
}

// A mail inside a longer-lived object: it may be pushed again once it has been delivered.
struct Again final : Mail {
  explicit Again(Mailbox* mailbox) : box(mailbox) {}
  void Deliver() override {
    if (++times < 3) box->Push(this);
  }
  Mailbox* box;
  int times = 0;
};

TEST(Mailbox, WhatIsPushedDuringADeliveryWaitsForTheNext) {
  Mailbox box;
  Again again(&box);
  box.Push(&again);
  EXPECT_EQ(box.DeliverAll(), 1);
  EXPECT_EQ(again.times, 1);
  EXPECT_EQ(box.DeliverAll(), 1);
  EXPECT_EQ(box.DeliverAll(), 1);
  EXPECT_EQ(again.times, 3);
  EXPECT_EQ(box.DeliverAll(), 0);
}

TEST(Mailbox, ManySendersLoseNothingAndEachKeepsItsOrder) {
  constexpr int kSenders = 4;
  constexpr int kEach = 20000;
  std::vector<std::vector<int>> inbox(kSenders);
  Mailbox box;
  std::atomic<int> wakes{0};
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([sender, &box, &wakes, &inbox] {
      for (int i = 0; i < kEach; ++i) {
        if (box.Push(new Note(sender, i, &inbox))) ++wakes;
      }
    });
  }
  int delivered = 0;
  int rounds = 0;
  while (delivered < kSenders * kEach) {
    const int some = box.DeliverAll();
    delivered += some;
    if (some > 0) ++rounds;
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(wakes, rounds) << "each round of mail begins with exactly one wake-up";
  for (const std::vector<int>& numbers : inbox) {
    ASSERT_EQ(numbers.size(), static_cast<size_t>(kEach));
    for (int i = 0; i < kEach; ++i) ASSERT_EQ(numbers[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace fusewire
