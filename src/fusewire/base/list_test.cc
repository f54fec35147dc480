// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/list.h"

#include <gtest/gtest.h>

#include <vector>

namespace fusewire {
namespace {

struct Item : ListNode {
  explicit Item(int n) : number(n) {}
  int number;
};

std::vector<int> Drain(List<Item>* list) {
  std::vector<int> numbers;
  while (Item* item = list->PopFront()) numbers.push_back(item->number);
  return numbers;
}

TEST(List, KeepsTheOrderInWhichItemsCame) {
  Item a(1), b(2), c(3);
  List<Item> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.PopFront(), nullptr);
  for (Item* item : {&a, &b, &c}) list.PushBack(item);
  EXPECT_EQ(list.front(), &a);
  EXPECT_EQ(Drain(&list), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(a.linked());
}

TEST(List, AMemberLeavesFromAnywhere) {
  Item a(1), b(2), c(3);
  List<Item> list;
  for (Item* item : {&a, &b, &c}) list.PushBack(item);
  b.Unlink();
  b.Unlink();  // harmless
  EXPECT_FALSE(b.linked());
  list.PushBack(&b);
  EXPECT_EQ(Drain(&list), (std::vector<int>{1, 3, 2}));
}

TEST(List, AMemberThatDiesLeaves) {
  Item a(1), c(3);
  List<Item> list;
  list.PushBack(&a);
  {
    Item b(2);
    list.PushBack(&b);
    list.PushBack(&c);
  }
  EXPECT_EQ(Drain(&list), (std::vector<int>{1, 3}));
}

TEST(List, MembersOutliveTheList) {
  Item a(1), b(2);
  {
    List<Item> list;
    list.PushBack(&a);
    list.PushBack(&b);
  }
  a.Unlink();
  EXPECT_FALSE(b.linked());
}

TEST(List, TakesAllOfAnother) {
  Item a(1), b(2), c(3);
  List<Item> list;
  List<Item> other;
  list.PushBack(&a);
  other.PushBack(&b);
  other.PushBack(&c);
  list.TakeAll(&other);
  EXPECT_TRUE(other.empty());
  list.TakeAll(&other);
  EXPECT_EQ(Drain(&list), (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace fusewire
