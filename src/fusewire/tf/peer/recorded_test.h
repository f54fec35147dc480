// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a recorder of the process while a test lasts.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/observe/recorder.h"

namespace fusewire::tf {

class Recorded {
 public:
  Recorded() : recorder_(*Make()), before_(observe::the_recorder.exchange(&recorder_)) {}
  ~Recorded() { observe::the_recorder.store(before_); }
  Recorded(const Recorded&) = delete;

  struct One {
    std::string words;  // "receive worker:0 ps:0 weights"
    observe::Seen seen;
  };
  // By the time of their beginning. Without what servers of other tests do, which live as long as the process: they ask
  // where tasks are.
  std::vector<One> Read() {
    std::vector<One> all;
    for (const observe::Seen& seen : recorder_.Read()) {
      const observe::Tag& tag = recorder_.tags().at(seen.tag);
      if (tag.name == "where tasks are") continue;
      all.push_back(
          {std::string(observe::KindName(tag.kind)) + " " + tag.task + " " + tag.peer + " " + tag.name, seen});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const One& a, const One& b) { return a.seen.begun_ns < b.seen.begun_ns; });
    return all;
  }
  // What a failed expectation shows.
  std::string Words() {
    std::string words;
    for (const One& one : Read()) words += one.words + (one.seen.is_open ? " (open)\n" : "\n");
    return words;
  }
  size_t open() {
    size_t count = 0;
    for (const One& one : Read()) count += one.seen.is_open ? 1 : 0;
    return count;
  }

 private:
  // It stays: servers of other tests, which live as long as the process, may end then what they have begun in it.
  static observe::Recorder* Make() {
    static auto* all = new std::vector<std::unique_ptr<observe::Recorder>>;
    return all->emplace_back(std::make_unique<observe::Recorder>()).get();
  }

  observe::Recorder& recorder_;
  observe::Recorder* const before_;
};

}  // namespace fusewire::tf
