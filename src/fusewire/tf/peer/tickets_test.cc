// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/tickets.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace fusewire::tf {
namespace {

TEST(TicketBook, TheOldestThatIsOutIsOpen) {
  TicketBook book;
  const Ticket one = book.Take(), two = book.Take(), three = book.Take();
  EXPECT_EQ(one.number, 1u);
  EXPECT_EQ(three.number, 3u);
  EXPECT_EQ(three.open, 1u);
  book.GiveBack(two);
  EXPECT_EQ(book.Take().open, 1u);
  book.GiveBack(one);
  const Ticket five = book.Take();
  EXPECT_EQ(five.number, 5u);
  EXPECT_EQ(five.open, 3u);
  EXPECT_EQ(five.client, one.client);
}

TEST(TicketBook, OthersAreOtherClients) {
  TicketBook one, other;
  EXPECT_NE(one.Take().client, other.Take().client);
}

TEST(TicketBook, ServesManyThreads) {
  TicketBook book;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&book] {
      for (int turn = 0; turn < 2000; ++turn) {
        const Ticket ticket = book.Take();
        EXPECT_LE(ticket.open, ticket.number);
        book.GiveBack(ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Ticket last = book.Take();
  EXPECT_EQ(last.number, 8001u);
  EXPECT_EQ(last.open, 8001u);
}

}  // namespace
}  // namespace fusewire::tf
