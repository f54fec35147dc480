// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Registers protocols and session targets when the library is loaded; and the functions for Python.
#include <memory>
#include <string>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/session_factory.h>
#include <tensorflow/core/public/session.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/log.h"
#include "fusewire/observe/watch.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/collective/groups.h"
#include "fusewire/tf/compress/compress_pass.h"
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"
#include "fusewire/tf/server/options.h"
#include "fusewire/tf/server/server.h"
#include "fusewire/tf/server/session.h"
#include "fusewire/tf/star/cut/star_pass.h"
#include "fusewire/transport/transports.h"

namespace fusewire::tf {
namespace {

constexpr const char* kLocalMark = "fusewire+";

// "grpc" too, always: a session decides whether its graphs are fused when the server exists already. Such a server is
// TensorFlow's own with our rendezvous, which behaves the same, and sends no request until a fused receive runs.
class Factory final : public tensorflow::ServerFactory {
 public:
  bool AcceptsOptions(const tensorflow::ServerDef& def) override {
    return IsOurs(def.protocol()) || def.protocol() == kStockProtocol;
  }
  TfStatus NewServer(const tensorflow::ServerDef& def, const Options& options,
                     std::unique_ptr<tensorflow::ServerInterface>* out) override {
    return Server::Make(def, options, out);
  }
};

// A session's target may name the protocol; and Python names sessions with a master of this process by kLocalMark. The
// rest are gRPC's.
class Sessions final : public tensorflow::SessionFactory {
 public:
  bool AcceptsOptions(const tensorflow::SessionOptions& options) override {
    size_t end = options.target.find("://");
    if (end == std::string::npos) return false;
    return absl::StartsWith(options.target, kLocalMark) || IsOurs(options.target.substr(0, end));
  }
  TfStatus NewSession(const tensorflow::SessionOptions& options, tensorflow::Session** out) override {
    tensorflow::SessionOptions over_grpc = OverGrpc(options);
    if (HasSessionsFor(over_grpc.target)) return Session::Make(std::move(over_grpc), out);
    return tensorflow::NewSession(over_grpc, out);
  }
  TfStatus Reset(const tensorflow::SessionOptions& options, const std::vector<std::string>& containers) override {
    return tensorflow::Reset(OverGrpc(options), containers);
  }

 private:
  static tensorflow::SessionOptions OverGrpc(tensorflow::SessionOptions options) {
    options.target = absl::StrCat("grpc", options.target.substr(options.target.find("://")));
    return options;
  }
};

// TensorFlow asks its factories in the order of a hash table, in which the last one registered is first, unless the
// table has grown meanwhile. So this registers under further names until TensorFlow chooses our factory for "grpc".
void RegisterFactory() {
  constexpr int kNamesMax = 8;
  auto* factory = new Factory;
  tensorflow::ServerDef def;
  def.set_protocol(kStockProtocol);
  for (int i = 0; i < kNamesMax; ++i) {
    tensorflow::ServerFactory::Register(absl::StrCat("FUSEWIRE_GRPCPP", i == 0 ? "" : absl::StrCat("_", i)), factory);
    tensorflow::ServerFactory* first = nullptr;
    if (tensorflow::ServerFactory::GetFactory(def, &first).ok() && first == factory) return;
  }
  FUSEWIRE_LOG(kWarn, "protocol \"grpc\" is served by another factory: its fused receives are a call for each tensor");
}

// TensorFlow keeps both until the process ends.
const bool kRegistered = [] {
  ReadProcessSettings();
  RegisterFactory();
  tensorflow::SessionFactory::Register("FUSEWIRE_GRPCPP", new Sessions);
  RegisterWireProfiler();
  return true;
}();

// After TensorFlow's own passes over the whole graph, and before those over partitions.
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 999, CompressPass);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 1000, StarPass);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 1001, MarkPass);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 0, FusePass);

}  // namespace
}  // namespace fusewire::tf

#define FUSEWIRE_EXPORT extern "C" __attribute__((visibility("default")))

FUSEWIRE_EXPORT const char* fusewire_version() { return fusewire::observe::Version(); }
FUSEWIRE_EXPORT const char* fusewire_tensorflow_version() { return FUSEWIRE_TF_VERSION; }

// Whether a session with this target would have its master in this process, and its steps on its own threads.
FUSEWIRE_EXPORT int fusewire_is_local(const char* target) { return fusewire::tf::HasSessionsFor(target) ? 1 : 0; }

// This process is about to exit: its servers leave their groups of collectives, and the file that names its status port
// is removed.
FUSEWIRE_EXPORT void fusewire_leave() {
  fusewire::tf::CollectiveHome::LeaveAll();
  if (fusewire::observe::Watch* watch = fusewire::observe::Watch::Get()) watch->Leave();
}

// +1 before a partial run is set up, -1 after it: fused receives would wait for each other's feeds.
FUSEWIRE_EXPORT void fusewire_hold_fusion(int change) { fusewire::tf::HoldFusion(change); }

// Writes JSON text, cut to `size`; returns the size of the whole text.
FUSEWIRE_EXPORT size_t fusewire_stats(char* out, size_t size) {
  std::string text = absl::StrCat("{\"shared_bytes_out\": ", fusewire::transport::SharedBytesWritten());
  for (const fusewire::tf::CounterAbout& about : fusewire::tf::AllCounters())
    absl::StrAppend(&text, ", \"", about.name, "\": ", about.counter->load());
  text += "}";
  if (size > 0) {
    out[text.copy(out, size - 1)] = '\0';
  }
  return text.size() + 1;
}
