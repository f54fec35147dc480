// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/plans.h"

#include <gtest/gtest.h>

namespace fusewire {
namespace tf {
namespace {

Plan::Receive ReceiveOf(const std::string& key) {
  Plan::Receive receive;
  receive.key = key;
  receive.task = "/job:ps/replica:0/task:0";
  return receive;
}

TEST(Plans, AGraphIsUnknownUntilAStepHasRun) {
  PlanBook book;
  EXPECT_EQ(book.Find("a 1"), nullptr);
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  PlanPtr plan = book.Find("a 1");
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->Find("x"), 0);
  EXPECT_EQ(plan->Find("y"), 1);
  EXPECT_EQ(plan->Find("z"), -1);
  EXPECT_EQ(book.Find("a 2"), nullptr);
}

TEST(Plans, WhatSeveralStepsMeetIsPlannedOnce) {
  PlanBook book;
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  PlanPtr early = book.Find("a 1");
  book.Learn("a 1", {ReceiveOf("y"), ReceiveOf("z")});
  PlanPtr late = book.Find("a 1");
  ASSERT_EQ(late->receives().size(), 3U);
  EXPECT_EQ(late->Find("z"), 2);
  // A step that runs keeps what it began with.
  EXPECT_EQ(early->receives().size(), 2U);
}

TEST(Plans, AGraphThatIsGoneIsForgotten) {
  PlanBook book;
  book.Learn(PlanBook::NameOf("session", "1"), {ReceiveOf("x")});
  book.Forget(PlanBook::NameOf("session", "2"));
  EXPECT_NE(book.Find(PlanBook::NameOf("session", "1")), nullptr);
  book.Forget(PlanBook::NameOf("session", "1"));
  EXPECT_EQ(book.Find(PlanBook::NameOf("session", "1")), nullptr);
}

TEST(Plans, ABookHasAnEnd) {
  PlanBook book;
  for (int graph = 0; graph < 20000; ++graph) book.Learn(std::to_string(graph), {ReceiveOf("x")});
  EXPECT_NE(book.Find("0"), nullptr);
  EXPECT_EQ(book.Find("19999"), nullptr);
}

}  // namespace
}  // namespace tf
}  // namespace fusewire
