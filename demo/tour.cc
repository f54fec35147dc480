// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "tour.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::demo {
namespace {

constexpr size_t kPushBytes = 4 << 20;
constexpr int64_t kTimeoutNs = 30 * kSecondNs;
constexpr int kTurns = 4;

double Now() { return static_cast<double>(Clock::Real()->NowNs()) / 1e9; }

// One call after another by a thread that waits.
class WaitedCall final : public rpc::Call {
 public:
  explicit WaitedCall(uint16_t number) : Call(number) { timeout_ns = kTimeoutNs; }
  Status Run(rpc::Client& client) {
    ended_.Reset();
    client.StartAndWait(this, &ended_);
    return ended_.status();
  }

 private:
  void OnDone(Status status) override { ended_.Done(std::move(status)); }
  reactor::Completion ended_;
};

// Many calls at a time; each starts itself again until the time is up. All at home.
struct Flight {
  rpc::Client* client;
  double end;
  int in_flight = 0;
  Count count;
  reactor::Completion landed;
};

class FlyingCall final : public rpc::Call {
 public:
  FlyingCall(uint16_t number, Flight* flight, ConstBytes head_in, Bytes body_in)
      : Call(number), flight_(flight), body_(body_in) {
    head = head_in;
    timeout_ns = kTimeoutNs;
  }
  void Go() {
    if (!body_.empty()) body.push_back(Buffer::Wrap(body_, nullptr, nullptr));
    flight_->client->Start(this);
  }

 private:
  void OnDone(Status status) override {
    if (status.ok()) {
      ++flight_->count.times;
    } else {
      flight_->count.status = std::move(status);
    }
    if (flight_->count.status.ok() && Now() < flight_->end) {
      Go();
    } else if (--flight_->in_flight == 0) {
      flight_->landed.Done();
    }
  }
  Flight* const flight_;
  const Bytes body_;
};

Count Fly(rpc::Client& client, uint16_t method, int calls, ConstBytes head, Bytes body, double seconds) {
  Flight flight;
  flight.client = &client;
  double began = Now();
  flight.end = began + seconds;
  flight.in_flight = calls;
  std::vector<std::unique_ptr<FlyingCall>> all;
  for (int i = 0; i < calls; ++i) all.push_back(std::make_unique<FlyingCall>(method, &flight, head, body));
  client.home().Run([&all] {
    for (auto& call : all) call->Go();
  });
  (void)flight.landed.Wait(client.home());
  flight.count.seconds = Now() - began;
  return flight.count;
}

// A step's worth of parameters, landed in memory that the model keeps.
class PullCall final : public rpc::Call {
 public:
  PullCall() : Call(kParameters), memory_(AllTensorBytes()) { timeout_ns = kTimeoutNs; }

  Status Run(rpc::Client& client) {
    ended_.Reset();
    client.StartAndWait(this, &ended_);
    return ended_.status();
  }
  Status Check() const {
    size_t at = 0;
    for (int i = 0; i < kTensors; ++i) {
      for (size_t byte = 0; byte < TensorBytes(i); ++byte) {
        if (memory_[at++] != TensorByte(i, byte))
          return Status::Corrupt("a byte of tensor " + std::to_string(i) + " is wrong");
      }
    }
    return Status::Ok();
  }

 private:
  Result<pipe::Landing> Land(ConstBytes, const rpc::SegmentSizes& sizes) override {
    if (sizes.count() != kTensors) return Status::Corrupt("not as many tensors as were asked for");
    if (sizes.total() != memory_.size()) return Status::Corrupt("not the parameters that were asked for");
    parts_.clear();
    size_t at = 0;
    for (size_t i = 0; i < sizes.count(); ++i) {
      if (sizes.at(i) != TensorBytes(static_cast<int>(i))) return Status::Corrupt("a tensor of another size");
      parts_.push_back(Bytes(memory_.data() + at, sizes.at(i)));
      at += sizes.at(i);
    }
    return pipe::Landing::Into(parts_.data(), parts_.size());
  }
  void OnDone(Status status) override { ended_.Done(std::move(status)); }
  std::vector<uint8_t> memory_;
  std::vector<Bytes> parts_;
  reactor::Completion ended_;
};

// ---- the screen ----

constexpr int64_t kDrawEveryNs = 100 * kMillisecondNs;
constexpr int kBarWidth = 24;

std::string Format(const char* format, double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value, unit);
  return text;
}

// One line per part; on a terminal it is redrawn with the progress.
class Progress {
 public:
  explicit Progress(std::string title);
  // Cheap; draws at most ten times a second. `fraction` of the part that is done.
  void Show(double fraction, const std::string& what);
  void Finish(const std::string& what);

 private:
  void Draw(double fraction, const std::string& what, bool last);
  const std::string title_;
  const bool terminal_;
  int64_t next_ns_ = 0;
};

Progress::Progress(std::string title) : title_(std::move(title)), terminal_(isatty(STDOUT_FILENO) != 0) {}

void Progress::Show(double fraction, const std::string& what) {
  if (!terminal_) return;
  int64_t now_ns = Clock::Real()->NowNs();
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kDrawEveryNs;
  Draw(fraction, what, false);
}

void Progress::Finish(const std::string& what) { Draw(1.0, what, true); }

void Progress::Draw(double fraction, const std::string& what, bool last) {
  int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kBarWidth);
  std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kBarWidth - filled), '.');
  std::printf("%s  %-34s [%s] %-40s%s", terminal_ ? "\r" : "", title_.c_str(), bar.c_str(), what.c_str(),
              last ? "\n" : "");
  std::fflush(stdout);
}

}  // namespace

Pair Alternate(const std::string& title, double seconds, const std::function<std::string(const Count&)>& words,
               const Turn& ours, const Turn& raw) {
  Progress progress(title);
  Pair sum;
  auto add = [](Count* to, const Count& turn) {
    to->times += turn.times;
    to->seconds += turn.seconds;
    if (to->status.ok()) to->status = turn.status;
  };
  for (int i = 0; i < kTurns && sum.ours.status.ok() && sum.raw.status.ok(); ++i) {
    // Short looks at ours, so that the line moves.
    constexpr int kLooks = 4;
    for (int look = 0; look < kLooks && sum.ours.status.ok(); ++look) {
      add(&sum.ours, ours(seconds / kTurns / kLooks));
      progress.Show((i + static_cast<double>(look + 1) / kLooks / 2) / kTurns, words(sum.ours));
    }
    add(&sum.raw, raw(seconds / kTurns));
    progress.Show((i + 1.0) / kTurns, words(sum.ours));
  }
  progress.Finish(sum.ours.status.ok() ? words(sum.ours) : sum.ours.status.ToString());
  return sum;
}

Count RoundTrips(rpc::Client& client, double seconds) {
  const std::string message(64, 'm');
  WaitedCall call(kEcho);
  call.head = message;
  Count count;
  double began = Now(), end = began + seconds;
  while (count.status.ok() && Now() < end) {
    count.status = call.Run(client);
    if (count.status.ok()) ++count.times;
  }
  count.seconds = Now() - began;
  return count;
}

Count CallsInFlight(rpc::Client& client, double seconds) {
  static const std::string message(100, 'm');
  return Fly(client, kEcho, 64, message, Bytes(), seconds);
}

Count PushTensors(rpc::Client& client, double seconds) {
  static std::vector<uint8_t> tensor(kPushBytes, 1);
  return Fly(client, kTake, 4, ConstBytes(), Bytes(tensor.data(), tensor.size()), seconds);
}

Count PullParameters(rpc::Client& client, double seconds) {
  static PullCall call;
  Count count;
  double began = Now(), end = began + seconds;
  while (count.status.ok() && (count.times == 0 || Now() < end)) {
    count.status = call.Run(client);
    if (count.status.ok()) ++count.times;
  }
  count.seconds = Now() - began;
  if (count.status.ok()) count.status = call.Check();  // outside of what is timed
  return count;
}

Count RawExchanges(RawClient& raw, size_t out_bytes, size_t in_bytes, double seconds) {
  Count count;
  double began = Now(), end = began + seconds;
  while (Now() < end) {
    if (!raw.Exchange(out_bytes, in_bytes)) {
      count.status = Status::Unavailable("the raw connection broke");
      break;
    }
    ++count.times;
  }
  count.seconds = Now() - began;
  return count;
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("\n  %-44s %14s %14s %12s\n", "", "fusewire", "raw socket", "ratio");
  for (const Row& row : rows) {
    std::printf("  %-44s %14s %14s %12s\n", row.what.c_str(), row.ours.c_str(), row.raw.c_str(), row.ratio.c_str());
  }
  std::printf("\n");
}

std::string Micros(double seconds) { return Format("%.1f %s", seconds * 1e6, "us"); }

std::string Rate(double per_second, const char* unit) {
  const char* scale = "";
  for (const char* larger : {"k", "M", "G"}) {
    if (per_second < 1000) break;
    per_second /= 1000;
    scale = larger;
  }
  return Format("%.2f %s", per_second, (std::string(scale) + unit).c_str());
}

std::string Times(double ratio) { return Format("%.2f %s", ratio, "x"); }

}  // namespace fusewire::demo
