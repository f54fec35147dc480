// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What `fusewire doctor --cluster` asks a task: who it is, and how fast its way to another task is; and what an
// operator orders, with a proof of the cluster's secret (observe/access.h). An inquiry travels as the request for a
// data port does, see peer/peer.h: a Logging call for a reserved step, which a task without the plug-in answers with
// nothing.
//   request := fetch_step_id[kInquiryStep word...]; a word is 8 bytes of the text, the first one lowest, filled with 0
//   text    := "about" | "measure" task | "order" TIME:NONCE:PROOF words, with one space between; task: as "ps:0".
//              HOST of the proof: the task's address in the cluster; TARGET: the words
//   answer  := one step, whose one device is JSON: of the task, of the measurement, {"done": text}, or {"error": text}
// Home: any thread. Fails: in the answer; a call for another step is not taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>
#include <tensorflow/core/distributed_runtime/worker_interface.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/base/mutex.h"
#include "fusewire/observe/access.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/channel.h"
#include "fusewire/tf/receive/step_context.h"
#include "fusewire/tf/server/worker_cache.h"

namespace fusewire::tf {

// Measures a channel: round trips of empty calls, then the bandwidth of bulk that the peer sends.
// Home: the channel's. Owns: its call, until the end. Fails: as the calls do, or with kTimeout after kMeasureNs.
constexpr int64_t kMeasureNs = 5 * kSecondNs;

struct Measured {
  std::string wire;  // "tcp", "shm" ...
  int64_t best_round_trip_ns = 0, median_round_trip_ns = 0;
  uint64_t bytes_per_s = 0;  // from the peer to here
};

// Any thread. `done` comes once, at home.
void Measure(ChannelPtr channel, std::function<void(const Status&, const Measured&)> done);

// The peer's end, method kEcho: answers with as many bytes as the request names, and with the wire's name as the head.
rpc::Method EchoMethod();

class Inquiries {
 public:
  // A task that this process serves.
  struct Served {
    std::string task;
    uint64_t epoch = 0, bytes = 0, busy_ns = 0;
  };
  struct Options {
    std::string protocol;
    uint16_t data_port = 0;  // 0: none
    // All on any thread.
    std::function<std::vector<Served>()> serves;
    std::function<ClusterPtr()> cluster;
    std::function<TfStatus(const std::string& task, Ways* ways)> find;
    std::string secret;  // empty: it takes no orders
    // On any thread that may wait. What was done, in words, or why it was not. Null: it takes no orders.
    std::function<TfStatus(const std::string& words, std::string* done)> order;
  };
  explicit Inquiries(Options options);

  static bool IsAsked(const tensorflow::LoggingRequest& request);
  // `response` lives until `done`. It answers with JSON whatever happens, so `done` gets no error.
  void Answer(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response,
              tensorflow::StatusCallback done);

 private:
  std::string About();
  void MeasureWayTo(const std::string& task, std::function<void(std::string json)> answer);
  void CarryOut(absl::string_view text, std::function<void(std::string json)> answer);

  const Options options_;
  std::atomic<bool> is_measuring_{false};  // one at a time, so that they don't measure each other
  Mutex mutex_;
  observe::Access access_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
