// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Sets of numbers that are compared often, each known by a number; 0 is the empty one.
// Home: one thread. Owns: the sets.
#pragma once

#include <map>
#include <set>
#include <vector>

namespace fusewire::tf {

class Sets {
 public:
  using Set = std::set<int>;
  Sets() { Number({}); }
  int Number(const Set& set) {
    auto added = numbers_.emplace(set, static_cast<int>(sets_.size()));
    if (added.second) sets_.push_back(set);
    return added.first->second;
  }
  const Set& at(int number) const { return sets_[static_cast<size_t>(number)]; }
  int Union(int left, int right) {
    if (left == right || right == 0) return left;
    if (left == 0) return right;
    Set both = at(left);
    both.insert(at(right).begin(), at(right).end());
    return Number(both);
  }

 private:
  std::map<Set, int> numbers_;
  std::vector<Set> sets_;
};

}  // namespace fusewire::tf
