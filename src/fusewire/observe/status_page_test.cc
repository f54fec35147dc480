// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/status_page.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

Facts FactsAt(int64_t now_ns) {
  Facts facts;
  facts.version = "1.2";
  facts.pid = 42;
  facts.now_ns = now_ns;
  TaskFacts task;
  task.task = "worker:0";
  task.protocol = "grpc++";
  task.members = std::make_shared<Members>(Members{{"ps:0", "host:2222"}});
  facts.tasks.push_back(task);
  facts.numbers.push_back({"calls_out", "Calls.", false, 9});
  return facts;
}

TEST(StatusPage, ShowsWhatIsOpenWhatHasBeenAndTheTask) {
  Recorder recorder;
  const uint32_t weights = recorder.tags().Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  const uint32_t bias = recorder.tags().Find(Kind::kReceive, "worker:0", "ps:0", "bias");
  Op ended = recorder.Begin(weights, 3, 5, 1000);
  recorder.EndOp(&ended, End::kOk, 4096, 3'001'000);
  Op open = recorder.Begin(bias, 4, 6, 4'000'000);
  const std::string text = StatusJson(recorder, FactsAt(9'000'000));
  EXPECT_THAT(text, HasSubstr(R"("fusewire":"1.2","pid":42)"));
  EXPECT_THAT(text, HasSubstr(R"("members":{"ps:0":"host:2222"})"));
  EXPECT_THAT(text, HasSubstr(R"("kind":"receive","task":"worker:0","peer":"ps:0","count":1,"failed":0,"bytes":4096)"));
  EXPECT_THAT(text, HasSubstr(R"("open":1,"oldest_ns":5000000)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"bias","step":4,"age_ns":5000000,"landed":false,"flow":"6")"));
  EXPECT_THAT(text, HasSubstr(R"("name":"weights","count":1,"bytes":4096,"time_ns":3000000)"));
  EXPECT_THAT(text, HasSubstr(R"("last":[{"kind":"receive","task":"worker:0","peer":"ps:0","age_ns":5999000}])"));
  EXPECT_THAT(text, HasSubstr(R"("numbers":{"calls_out":9})"));
  recorder.EndOp(&open, End::kOk, 0, 9'000'000);
}

TEST(StatusPage, ListsAreBoundedAndTheOldestAreShown) {
  Recorder recorder;
  std::vector<Op> ops;
  for (size_t i = 0; i < 2 * kOpenShown; ++i)
    ops.push_back(recorder.Begin(0, static_cast<int64_t>(i), 0, 1000 + static_cast<int64_t>(i)));
  const std::string text = StatusJson(recorder, FactsAt(1'000'000));
  EXPECT_THAT(text, HasSubstr("\"open_total\":" + std::to_string(2 * kOpenShown)));
  EXPECT_THAT(text, HasSubstr("\"step\":0,"));
  EXPECT_THAT(text, Not(HasSubstr("\"step\":" + std::to_string(kOpenShown) + ",")));
  for (Op& op : ops) recorder.EndOp(&op, End::kOk, 0, 2'000'000);
}

TEST(StatusPage, TheRingHasWhatEndedAfterATimeAndWhatIsOpen) {
  Recorder recorder;
  const uint32_t tag = recorder.tags().Find(Kind::kProvide, "ps:0", "worker:0", "weights");
  Op early = recorder.Begin(tag, 1, 0, 100);
  recorder.EndOp(&early, End::kOk, 0, 200);
  Op late = recorder.Begin(tag, 2, 18'000'000'000'000'000'000u, 300);
  recorder.EndOp(&late, End::kFailed, 7, 400);
  Op open = recorder.Begin(tag, 3, 0, 50);
  const std::string text = RingJson(recorder, FactsAt(500), 200);
  EXPECT_THAT(text, HasSubstr(R"("name":"weights"})"));
  EXPECT_THAT(text, Not(HasSubstr(",1,0,100,")));
  EXPECT_THAT(text, HasSubstr(",0,1,2,7,300,0,400,\"18000000000000000000\"]"));
  EXPECT_THAT(text, HasSubstr(",1,0,3,0,50,0,0,\"0\"]"));
  recorder.EndOp(&open, End::kOk, 0, 500);
}

TEST(MetricsPage, CountsOperationsByKindAndPeer) {
  Recorder recorder;
  const uint32_t tag = recorder.tags().Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  for (int64_t took_ns : {10'000, 50'000, 200'000'000}) {
    Op op = recorder.Begin(tag, 1, 0, 1000);
    recorder.EndOp(&op, End::kOk, 100, 1000 + took_ns);
  }
  Op open = recorder.Begin(tag, 2, 0, 1'000'000'000);
  Facts facts;
  facts.version = "1.2";
  facts.now_ns = 3'500'000'000;
  facts.numbers.push_back({"calls_out", "Calls.", false, 9});
  facts.numbers.push_back({"star_parts", "Parts.", true, 2});
  const std::string text = MetricsText(recorder, facts);
  const std::string labels = R"({kind="receive",task="worker:0",peer="ps:0")";
  EXPECT_THAT(text, HasSubstr("fusewire_info{version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_seconds_bucket" + labels + ",le=\"1.6384e-05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_seconds_bucket" + labels + ",le=\"6.5536e-05\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_seconds_bucket" + labels + ",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_seconds_sum" + labels + "} 0.20006\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_bytes_total" + labels + "} 300\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operations_open" + labels + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("fusewire_operation_oldest_seconds" + labels + "} 2.5\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE fusewire_calls_out_total counter\nfusewire_calls_out_total 9\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE fusewire_star_parts gauge\nfusewire_star_parts 2\n"));
  recorder.EndOp(&open, End::kOk, 0, 4'000'000'000);
}

TEST(MetricsPage, LabelsAreQuoted) {
  Recorder recorder;
  Op op = recorder.Begin(recorder.tags().Find(Kind::kCall, "a\"b", "c\\d\ne\xff", "x"), 0, 0, 1);
  const std::string text = MetricsText(recorder, Facts());
  EXPECT_THAT(text, HasSubstr(R"(task="a\"b",peer="c\\d\ne?"} 1)"));
  recorder.EndOp(&op, End::kOk, 0, 2);
}

}  // namespace
}  // namespace fusewire::observe
