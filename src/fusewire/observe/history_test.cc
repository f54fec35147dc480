// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace fusewire::observe {
namespace {

using testing::HasSubstr;

void Record(Recorder& recorder, Kind kind, uint64_t bytes, uint64_t given = 0) {
  Op op = recorder.Begin(recorder.tags().Find(kind, "worker:0", "ps:0", "x"), 1, 0, 100);
  recorder.EndOp(&op, End::kOk, bytes, 200, given);
}

TEST(History, HasTotalsOfStepsAndBytes) {
  Recorder recorder;
  History history;
  history.Add(recorder, {}, 7);
  for (int i = 0; i < 3; ++i) Record(recorder, Kind::kStep, 0);
  Record(recorder, Kind::kReceive, 10);
  Record(recorder, Kind::kRunOut, 7, 2);  // a part was given 2 bytes and has returned 5
  Record(recorder, Kind::kProvide, 4);
  Record(recorder, Kind::kRunIn, 300, 200);  // at the other end
  history.Add(recorder, {}, 8);
  Record(recorder, Kind::kSession, 0);  // the program's own steps count before its parts of steps
  history.Add(recorder, {}, 9);
  EXPECT_THAT(history.Json(), HasSubstr(R"("history":[[7,0,0,0],[8,3,215,106],[9,1,215,106]])"));
}

TEST(History, OfARankHasItsCollectives) {
  Recorder recorder;
  History history;
  history.Add(recorder, {{"collectives", "Count.", false, 6}, {"collective_bytes", "Bytes.", false, 64}}, 7);
  EXPECT_THAT(history.Json(), HasSubstr("[[7,6,64,64]]"));
}

TEST(History, KeepsTheLast) {
  Recorder recorder;
  History history;
  for (size_t i = 0; i <= History::kSamplesMax; ++i) history.Add(recorder, {}, static_cast<int64_t>(i));
  const std::string text = history.Json();
  EXPECT_THAT(text, HasSubstr("[[1,0,0,0],"));
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '[')), History::kSamplesMax + 2);
}

}  // namespace
}  // namespace fusewire::observe
