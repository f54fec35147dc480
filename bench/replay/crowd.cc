// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/replay/crowd.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace fusewire::bench {
namespace {

constexpr size_t kOpeningMax = 64;                // workers that connect side by side
constexpr int64_t kCallLimitNs = 60 * kSecondNs;  // thousands may stand before a call
constexpr int64_t kOpenLimitNs = 90 * kSecondNs;

void AppendFixed64(uint64_t value, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

transport::Address AddressOf(const std::string& text) {
  Result<transport::Address> address = transport::Address::Parse(text);
  if (!address.ok()) Die("the record's server: " + address.status().ToString());
  return std::move(address).value();
}

}  // namespace

class Crowd::Worker final : public rpc::Call {
 public:
  Worker(Crowd* crowd, const transport::Address& address, size_t index)
      : crowd_(crowd),
        record_(crowd->record_),
        client_(crowd->task_, address),
        random_(crowd->options_.seed + static_cast<uint32_t>(index)),
        step_(index % record_.steps.size()),
        number_(static_cast<uint64_t>(index) << 32),
        thought_([this] { RunNext(); }) {
    timeout_ns = kCallLimitNs;
  }

  void Open() { PlaceNext(); }
  uint64_t Stalls() { return client_.Snapshot().credit_stalls; }
  void Go() {
    const int64_t think_ns = crowd_->options_.think_ns;
    if (think_ns == 0) {
      RunNext();
    } else {
      Think(std::uniform_int_distribution<int64_t>(0, think_ns)(random_));
    }
  }

 private:
  std::string call_name() const { return is_placing() ? "PlacePart" : "RunPart"; }
  bool is_placing() const { return numbers_.size() < record_.parts.size(); }
  const RecordedStep& step() const { return record_.steps[step_]; }

  void PlaceNext() {
    method = kPlacePart;
    head = record_.parts[numbers_.size()].place_head;
    client_.Start(this);
  }

  void Think(int64_t delay_ns) { crowd_->home_.Arm(&thought_, delay_ns); }

  void RunNext() {
    const RecordedRun& run = step()[next_];
    text_.clear();
    AppendFixed64(numbers_[run.part], &text_);
    AppendFixed64(number_ + 1, &text_);
    text_ += run.rest;
    method = kRunPart;
    head = text_;
    for (const std::string& segment : run.segments)
      body.push_back(Buffer::WrapReadOnly(ConstBytes(segment), nullptr, nullptr));
    request_bytes_ += text_.size() + TotalBytes(body);
    began_ns_ = Clock()->NowNs();
    client_.Start(this);
  }

  // The bytes come in, and nobody looks at them.
  Result<pipe::Landing> Land(ConstBytes, const rpc::SegmentSizes& sizes) override {
    reply_bytes_ += sizes.total();
    return pipe::Landing::Discard();
  }

  void OnDone(Status status) override {
    if (!status.ok()) Die(call_name() + ": " + status.ToString());
    if (reply_head.empty() || reply_head[0] != 0) Die(call_name() + ": the server says " + reply_head);
    if (is_placing()) {
      OnPlaced();
    } else {
      OnRun();
    }
  }

  void OnPlaced() {
    uint64_t number = 0;
    for (size_t i = 8; i > 0; --i)
      number = number << 8 | static_cast<uint8_t>(reply_head.size() > i ? reply_head[i] : 0);
    if (number == 0) Die("PlacePart: the recorded worker's part is not there any more");
    numbers_.push_back(number);
    if (is_placing()) {
      PlaceNext();
    } else {
      crowd_->OnOpened();
    }
  }

  void OnRun() {
    waited_ns_ += Clock()->NowNs() - began_ns_;
    reply_bytes_ += reply_head.size();
    if (++next_ == step().size()) {
      crowd_->OnStep(waited_ns_, request_bytes_, reply_bytes_);
      next_ = 0;
      waited_ns_ = 0;
      request_bytes_ = reply_bytes_ = 0;
      step_ = (step_ + 1) % record_.steps.size();
      ++number_;
    }
    // A worker computes before the last call of a step: that is the one that brings what it has computed.
    const int64_t think_ns = crowd_->options_.think_ns;
    if (think_ns > 0 && next_ + 1 == step().size()) {
      Think(std::uniform_int_distribution<int64_t>(think_ns / 2, think_ns + think_ns / 2)(random_));
    } else {
      RunNext();
    }
  }

  fusewire::Clock* Clock() const { return crowd_->home_.clock(); }

  Crowd* const crowd_;
  const Record& record_;
  rpc::Client client_;
  std::minstd_rand random_;
  std::vector<uint64_t> numbers_;  // of the parts, as this worker was told
  size_t step_;                    // of the record
  size_t next_ = 0;                // of the step's calls
  uint64_t number_;                // of the step, as the server sees it
  std::string text_;
  int64_t began_ns_ = 0, waited_ns_ = 0;
  uint64_t request_bytes_ = 0, reply_bytes_ = 0;
  reactor::Timer thought_;
};

Crowd::Crowd(task::Task* task, const Record& record, const CrowdOptions& options)
    : task_(*task), home_(task->pool().at(0)), record_(record), options_(options) {
  const transport::Address address = AddressOf(record.address);
  for (size_t i = 0; i < options.workers; ++i) workers_.push_back(std::make_unique<Worker>(this, address, i));
}

Crowd::~Crowd() = default;

void Crowd::Open() {
  home_.Run([this] {
    while (opening_ < std::min(kOpeningMax, workers_.size())) OpenNext();
  });
  if (!all_open_.Wait(home_, home_.clock()->NowNs() + kOpenLimitNs))
    Die("open the connections: only " + std::to_string(opened_) + " of " + std::to_string(workers_.size()) +
        " were there in time");
}

void Crowd::OpenNext() { workers_[opening_++]->Open(); }

void Crowd::OnOpened() {
  if (++opened_ == workers_.size()) {
    all_open_.Done();
  } else if (opening_ < workers_.size()) {
    OpenNext();
  }
}

void Crowd::Go() {
  home_.Run([this] {
    for (const std::unique_ptr<Worker>& worker : workers_) worker->Go();
  });
}

void Crowd::OnStep(int64_t waited_ns, uint64_t request_bytes, uint64_t reply_bytes) {
  count_.waits.Add(static_cast<uint64_t>(waited_ns));
  count_.request_bytes += request_bytes;
  count_.reply_bytes += reply_bytes;
}

Crowd::Count Crowd::Take() {
  Count taken;
  home_.Run([&] { std::swap(taken, count_); });
  return taken;
}

uint64_t Crowd::Stalls() {
  uint64_t stalls = 0;
  for (const std::unique_ptr<Worker>& worker : workers_) stalls += worker->Stalls();
  return stalls;
}

}  // namespace fusewire::bench
