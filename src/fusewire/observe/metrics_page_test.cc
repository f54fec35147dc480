// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fusewire::observe {
namespace {

using testing::HasSubstr;

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
