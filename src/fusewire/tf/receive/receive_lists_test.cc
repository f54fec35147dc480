// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/receive/receive_lists.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

ReceiveList::Receive ReceiveOf(const std::string& key) {
  ReceiveList::Receive receive;
  receive.key = key;
  receive.task = "/job:ps/replica:0/task:0";
  return receive;
}

TEST(ReceiveLists, AGraphIsUnknownUntilAStepHasRun) {
  ReceiveBook book;
  EXPECT_EQ(book.Find("a 1"), nullptr);
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  ReceiveListPtr list = book.Find("a 1");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->Find("x"), 0);
  EXPECT_EQ(list->Find("y"), 1);
  EXPECT_EQ(list->Find("z"), -1);
  EXPECT_EQ(book.Find("a 2"), nullptr);
}

TEST(ReceiveLists, WhatSeveralStepsMeetIsListedOnce) {
  ReceiveBook book;
  book.Learn("a 1", {ReceiveOf("x"), ReceiveOf("y")});
  ReceiveListPtr early = book.Find("a 1");
  book.Learn("a 1", {ReceiveOf("y"), ReceiveOf("z")});
  ReceiveListPtr late = book.Find("a 1");
  ASSERT_EQ(late->receives().size(), 3U);
  EXPECT_EQ(late->Find("z"), 2);
  // A step that runs keeps what it began with.
  EXPECT_EQ(early->receives().size(), 2U);
}

TEST(ReceiveLists, AGraphThatIsGoneIsForgotten) {
  ReceiveBook book;
  book.Learn(ReceiveBook::NameOf("session", "1"), {ReceiveOf("x")});
  book.Forget(ReceiveBook::NameOf("session", "2"));
  EXPECT_NE(book.Find(ReceiveBook::NameOf("session", "1")), nullptr);
  book.Forget(ReceiveBook::NameOf("session", "1"));
  EXPECT_EQ(book.Find(ReceiveBook::NameOf("session", "1")), nullptr);
}

TEST(ReceiveLists, ABookHasAnEnd) {
  ReceiveBook book;
  for (int graph = 0; graph < 20000; ++graph) book.Learn(std::to_string(graph), {ReceiveOf("x")});
  EXPECT_NE(book.Find("0"), nullptr);
  EXPECT_EQ(book.Find("19999"), nullptr);
}

}  // namespace
}  // namespace fusewire::tf
