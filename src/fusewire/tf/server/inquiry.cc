// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/inquiry.h"

#include <memory>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"
#include "fusewire/observe/json.h"
#include "fusewire/observe/watch.h"
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {
namespace {

// A step number that no session draws: "fusewhoi" as a number.
constexpr int64_t kInquiryStep = 0x6675736577686f69;
constexpr int kWordsMax = 64;

std::string TextOf(const tensorflow::LoggingRequest& request) {
  std::string text;
  for (int i = 1; i < request.fetch_step_id_size(); ++i) {
    auto word = static_cast<uint64_t>(request.fetch_step_id(i));
    for (int byte = 0; byte < 8 && (word & 0xff) != 0; ++byte, word >>= 8)
      text.push_back(static_cast<char>(word & 0xff));
  }
  return text;
}

std::string ErrorJson(const std::string& error) {
  std::string json;
  observe::JsonWriter writer(&json);
  writer.Open('{');
  writer.Key("error").Text(error);
  writer.Close('}');
  return json;
}

std::string MeasuredJson(const Measured& measured) {
  std::string json;
  observe::JsonWriter writer(&json);
  writer.Open('{');
  writer.Key("wire").Text(measured.wire);
  writer.Key("best_round_trip_ns").Signed(measured.best_round_trip_ns);
  writer.Key("median_round_trip_ns").Signed(measured.median_round_trip_ns);
  writer.Key("bytes_per_s").Number(measured.bytes_per_s);
  writer.Close('}');
  return json;
}

}  // namespace

bool Inquiries::IsAsked(const tensorflow::LoggingRequest& request) {
  return request.fetch_step_id_size() > 1 && request.fetch_step_id_size() <= 1 + kWordsMax &&
         request.fetch_step_id(0) == kInquiryStep;
}

void Inquiries::Answer(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response,
                       tensorflow::StatusCallback done) {
  FUSEWIRE_DCHECK(IsAsked(request));
  auto answer = [response, done = std::move(done)](const std::string& json) {
    tensorflow::LabeledStepStats* step = response->add_step();
    step->set_step_id(kInquiryStep);
    step->mutable_step_stats()->add_dev_stats()->set_device(json);
    done(TfStatus());
  };
  const std::string text = TextOf(request);
  absl::string_view task = text;
  if (text == "about") {
    answer(About());
  } else if (absl::ConsumePrefix(&task, "measure ")) {
    MeasureWayTo(std::string(task), std::move(answer));
  } else {
    answer(ErrorJson(absl::StrCat("an inquiry that Fusewire ", observe::Version(),
                                  " does not know: its doctor is of another version")));
  }
}

std::string Inquiries::About() {
  const ClusterPtr cluster = options_.cluster();
  std::string json;
  observe::JsonWriter writer(&json);
  writer.Open('{');
  writer.Key("fusewire").Text(observe::Version());
  writer.Key("tensorflow").Text(FUSEWIRE_TF_VERSION);
  writer.Key("task").Text(ShortTask(cluster->own_target));
  writer.Key("protocol").Text(options_.protocol);
  writer.Key("data_port").Number(options_.data_port);
  writer.Key("wall_ns").Number(tensorflow::Env::Default()->NowNanos());
  writer.Key("members").Open('{');
  for (const auto& [task, address] : cluster->addresses) writer.Key(ShortTask(task)).Text(address);
  writer.Close('}');
  writer.Close('}');
  return json;
}

void Inquiries::MeasureWayTo(const std::string& task, std::function<void(std::string)> answer) {
  const ClusterPtr cluster = options_.cluster();
  std::string target;
  for (const auto& [name, address] : cluster->addresses) {
    if (ShortTask(name) == task) target = name;
  }
  Ways ways;
  TfStatus found = target.empty() ? absl::NotFoundError(absl::StrCat("its cluster has no task ", task))
                                  : options_.find(target, &ways);
  if (!found.ok()) {
    answer(ErrorJson(std::string(found.message())));
    return;
  }
  ways.peer->Route(ways.side, [this, answer = std::move(answer)](const TfStatus& status, ChannelPtr channel) {
    if (channel == nullptr) {
      answer(ErrorJson(status.ok() ? "no data port: between the two tasks everything goes over gRPC"
                                   : std::string(status.message())));
      return;
    }
    if (is_measuring_.exchange(true)) {
      answer(ErrorJson("busy: it is measuring its way to another task"));
      return;
    }
    Measure(std::move(channel), [this, answer](const Status& ended, const Measured& measured) {
      is_measuring_ = false;
      answer(ended.ok() ? MeasuredJson(measured) : ErrorJson(ended.ToString()));
    });
  });
}

}  // namespace fusewire::tf
