// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/measure.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {
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
    return {Code::kCorrupt, "it answers with another number of bytes than it was asked for"};
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
            if (!read.ok()) {
              reply.Send(std::move(read));
              return;
            }
            if (bytes > kBulkBytes) {
              reply.Send(Status(Code::kInvalid, "an echo of more than 8 MiB"));
              return;
            }
            Buffers body;
            if (bytes > 0) body.push_back(Buffer::WrapReadOnly(ConstBytes(Block().data, bytes), nullptr, nullptr));
            const std::string wire = request.peer->wire;
            reply.Send(Status::Ok(), ConstBytes(wire), std::move(body));
          },
          nullptr};
}

}  // namespace fusewire::tf
