// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/inquiry.h"

#include <algorithm>
#include <memory>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"
#include "fusewire/observe/json.h"
#include "fusewire/observe/watch.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"
#include "fusewire/tf/server/moving.h"

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

// {"error": "..."}
std::string TextJson(const char* key, const std::string& text) {
  std::string json;
  observe::JsonWriter writer(&json);
  writer.Open('{');
  writer.Key(key).Text(text);
  writer.Close('}');
  return json;
}

std::string ErrorJson(const std::string& error) { return TextJson("error", error); }

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

Inquiries::Inquiries(Options options)
    : options_(std::move(options)),
      access_(options_.secret, static_cast<int64_t>(tensorflow::Env::Default()->NowMicros() / 1000)) {}

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
  if (text == "about") return answer(About());
  if (absl::ConsumePrefix(&task, "measure ")) return MeasureWayTo(std::string(task), std::move(answer));
  if (absl::ConsumePrefix(&task, "order ")) return CarryOut(task, std::move(answer));
  answer(ErrorJson(absl::StrCat("an inquiry that Fusewire ", observe::Version(),
                                " does not know: its doctor is of another version")));
}

void Inquiries::CarryOut(absl::string_view text, std::function<void(std::string)> answer) {
  if (options_.order == nullptr) {
    return answer(ErrorJson(
        "it takes no orders, as it keeps no snapshots; next: start it with FUSEWIRE_SNAPSHOTS, or by `fusewire run "
        "--snapshots`; see: fusewire explain elastic#orders"));
  }
  if (options_.secret.empty()) {
    return answer(ErrorJson(
        "it takes no orders, as its cluster has no secret; next: set FUSEWIRE_SECRET for all tasks, as `fusewire run` "
        "does; see: fusewire explain elastic#orders"));
  }
  const ClusterPtr cluster = options_.cluster();
  const size_t end = std::min(text.find(' '), text.size());
  observe::Request request;
  request.host = cluster->addresses.at(cluster->own_target);
  request.target = std::string(absl::StripLeadingAsciiWhitespace(text.substr(end)));
  request.authorization = absl::StrCat("Fusewire ", text.substr(0, end));
  observe::Refusal refusal;
  {
    MutexLock lock(mutex_);
    refusal = access_.Check(request, {observe::PlaceOf(request.host), {}},
                            static_cast<int64_t>(tensorflow::Env::Default()->NowMicros() / 1000));
  }
  if (refusal.status != 0) return answer(ErrorJson(absl::StrCat("it refuses this order: ", refusal.reason)));
  tensorflow::Env::Default()->SchedClosure([this, words = request.target, answer = std::move(answer)] {
    std::string done;
    const TfStatus status = options_.order(words, &done);
    answer(status.ok() ? TextJson("done", done) : ErrorJson(std::string(status.message())));
  });
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
  if (options_.serves != nullptr) {
    writer.Key("process").Text(absl::StrCat(absl::Hex(ProcessId(), absl::kZeroPad16)));
    writer.Key("serves").Open('[');
    for (const Served& served : options_.serves()) {
      writer.Open('{');
      writer.Key("task").Text(served.task);
      writer.Key("epoch").Number(served.epoch);
      writer.Key("bytes").Number(served.bytes);
      writer.Key("busy_ms").Number(served.busy_ns / kMillisecondNs);
      writer.Close('}');
    }
    writer.Close(']');
  }
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
  if (!found.ok()) return answer(ErrorJson(std::string(found.message())));
  ways.peer->Route(ways.side, [this, answer = std::move(answer)](const TfStatus& status, ChannelPtr channel) {
    if (channel == nullptr)
      return answer(ErrorJson(status.ok() ? "no data port: between the two tasks everything goes over gRPC"
                                          : std::string(status.message())));
    if (is_measuring_.exchange(true)) return answer(ErrorJson("busy: it is measuring its connection to another task"));
    Measure(std::move(channel), [this, answer](const Status& ended, const Measured& measured) {
      is_measuring_ = false;
      answer(ended.ok() ? MeasuredJson(measured) : ErrorJson(ended.ToString()));
    });
  });
}

namespace {

constexpr int kRoundTrips = 33;  // the first also connects, and does not count
constexpr uint64_t kBulkBytes = 8 << 20;
constexpr int kBulkCallsMax = 9;  // the first touches the memory, and does not count
constexpr int64_t kBulkNs = 300 * kMillisecondNs;

class Measurement final : public rpc::Call {
 public:
  Measurement(ChannelPtr channel, std::function<void(const Status&, const Measured&)> done)
      : Call(kEcho), channel_(std::move(channel)), done_(std::move(done)) {}

  void Begin() {
    end_ns_ = AddNs(Clock::Real()->NowNs(), kMeasureNs);
    AskFor(0);
  }

 private:
  void AskFor(uint64_t bytes) {
    bytes_ = bytes;
    text_.clear();
    AppendFixed64(&text_, bytes_);
    head = ConstBytes(text_);
    landed_ = Bytes();
    began_ns_ = Clock::Real()->NowNs();
    timeout_ns = std::max<int64_t>(1, end_ns_ - began_ns_);
    channel_->client().Start(this);
  }

  // Always into the same memory: new memory from the kernel would take longer than the way.
  Result<pipe::Landing> Land(ConstBytes, const rpc::SegmentSizes& sizes) override {
    if (sizes.count() != 1 || sizes.total() != bytes_) return OtherSize();
    if (memory_.empty()) memory_ = Buffer::TryAllocate(kBulkBytes);
    if (memory_.empty()) return Status(Code::kOverloaded, "no memory for 8 MiB");
    landed_ = Bytes(memory_.bytes().data, bytes_);
    return pipe::Landing::Into(&landed_, 1);
  }

  static Status OtherSize() {
    return {Code::kCorrupt, "its answer does not have the number of bytes that it was asked for"};
  }

  void OnDone(Status status) override {
    const int64_t now_ns = Clock::Real()->NowNs();
    if (!status.ok()) {
      End(std::move(status));
    } else if (landed_.size != bytes_) {
      End(OtherSize());
    } else if (bytes_ == 0) {
      round_trips_ns_.push_back(now_ns - began_ns_);
      AskFor(round_trips_ns_.size() < kRoundTrips ? 0 : kBulkBytes);
    } else {
      if (++bulk_calls_ > 1) bulk_ns_ += now_ns - began_ns_;
      if (bulk_calls_ < 2 || (bulk_calls_ < kBulkCallsMax && bulk_ns_ < kBulkNs)) {
        AskFor(kBulkBytes);
      } else {
        End(Status::Ok());
      }
    }
  }

  void End(Status status) {
    const std::unique_ptr<Measurement> self(this);
    Measured measured;
    if (status.ok()) {
      round_trips_ns_.erase(round_trips_ns_.begin());
      std::sort(round_trips_ns_.begin(), round_trips_ns_.end());
      measured.wire = reply_head;
      measured.best_round_trip_ns = round_trips_ns_.front();
      measured.median_round_trip_ns = round_trips_ns_[round_trips_ns_.size() / 2];
      const double bytes = static_cast<double>(kBulkBytes) * (bulk_calls_ - 1);
      measured.bytes_per_s = static_cast<uint64_t>(bytes * 1e9 / static_cast<double>(std::max<int64_t>(1, bulk_ns_)));
    }
    channel_->ReportStatus(status);
    done_(status, measured);
  }

  const ChannelPtr channel_;
  const std::function<void(const Status&, const Measured&)> done_;
  uint64_t bytes_ = 0;
  std::string text_;
  int64_t began_ns_ = 0, end_ns_ = 0;
  Buffer memory_;
  Bytes landed_;
  std::vector<int64_t> round_trips_ns_;
  int bulk_calls_ = 0;
  int64_t bulk_ns_ = 0;
};

// Never written, never released. Not the kernel's page of zeros, which would stay in the processor's cache.
ConstBytes Block() {
  static const std::vector<uint8_t>* const block = new std::vector<uint8_t>(kBulkBytes, 0x5a);
  return {block->data(), block->size()};
}

}  // namespace

void Measure(ChannelPtr channel, std::function<void(const Status&, const Measured&)> done) {
  FUSEWIRE_CHECK(channel != nullptr);
  (new Measurement(std::move(channel), std::move(done)))->Begin();
}

rpc::Method EchoMethod() {
  return {kEcho, "Echo",
          [](const rpc::Request& request, rpc::Reply reply) {
            uint64_t bytes = 0;
            Status read = DecodeEcho(request.head, !request.body.empty(), &bytes);
            if (!read.ok()) return reply.Send(std::move(read));
            if (bytes > kBulkBytes) return reply.Send(Status(Code::kInvalid, "an echo of more than 8 MiB"));
            Buffers body;
            if (bytes > 0) body.push_back(Buffer::WrapReadOnly(ConstBytes(Block().data, bytes), nullptr, nullptr));
            const std::string wire = request.peer->wire;
            reply.Send(Status::Ok(), ConstBytes(wire), std::move(body));
          },
          nullptr};
}

}  // namespace fusewire::tf
