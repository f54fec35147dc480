// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The settings of one server, read from the environment when it is made. docs/settings.md has the table.
// Home: any thread. Owns: plain values. Fails: never; an invalid value is logged, and the default is used, except for a
// secret that can't be read: `secret` says why.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/observe/watch.h"
#include "fusewire/pipe/options.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/transport_choice.h"
#include "fusewire/tf/server/network.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/star/cut/star_pass.h"
#include "fusewire/tf/star/home/step_list.h"
#include "fusewire/transport/protection.h"

namespace fusewire::tf {

struct ServerSettings {
  bool disabled = false;               // FUSEWIRE_DISABLE: everything over gRPC
  ListUse lists = ListUse::kMeasured;  // FUSEWIRE_WORKER_LIST
  bool merge_parts = true;             // TF_ENABLE_PS_GRAPH_FUSION: star_server_lite makes as few calls as possible
  pipe::Options pipe;
  Status secret;  // of FUSEWIRE_SECRET and FUSEWIRE_SECRET_FILE
  reactor::PoolOptions pool;
  task::TransportChoice wire = task::TransportChoice::kAuto;  // FUSEWIRE_TRANSPORT
  transport::Protection protection;                           // FUSEWIRE_TLS_CERT, _KEY, _CA, _NAME; FUSEWIRE_CHECKSUM
  int64_t patience_ns = 0;
  int64_t recovery_ns = 0;  // FUSEWIRE_RECOVERY
  // FUSEWIRE_SNAPSHOTS, FUSEWIRE_SNAPSHOT_EVERY. No folder: none, and always for jobs that hold no variables.
  Snapshots::Options snapshots;
  bool is_elastic = false;  // FUSEWIRE_SNAPSHOTS is set, for whatever job: other processes may take tasks over
  NetworkWords network;
  std::string tasks;  // FUSEWIRE_TASKS: see ReadTasks
  // FUSEWIRE_ON_SERVED=move: a task that another process serves moves here.
  bool moves_here = false;
  int64_t pause_ns_max = kSecondNs;  // of steps, meanwhile
  int64_t drain_ns = 0;  // FUSEWIRE_DRAIN: before it ends, the process gives its tasks away; 0: it just ends

  bool must_encrypt() const { return !protection.tls.certificate.empty(); }
  // gRPC address -> data address, of .endpoint_map; empty without one.
  std::map<std::string, std::string> endpoints;
  observe::Place status;       // FUSEWIRE_STATUS: where this process answers about itself
  std::string runtime_folder;  // XDG_RUNTIME_DIR
};

// The protocols that this plug-in serves.
bool IsOurs(const std::string& protocol);
StarMode StarModeOf(const std::string& protocol);

// `job` chooses between the settings for parameter servers and those for workers. `workers`: how many the cluster has.
ServerSettings ReadSettings(const std::string& job, int workers = 1);
// The tasks of the jobs that have a worker's settings.
int CountWorkers(const tensorflow::ClusterDef& cluster);
// During its life, TensorFlow starts few threads for a server's gRPC client: 2 instead of 72, unless the environment
// sets a number. Four hundred workers of one process would need more than the kernel allows, and our steps don't use
// them.
class FewGrpcThreads {
 public:
  FewGrpcThreads();
  ~FewGrpcThreads();
  // Until the process ends. For one that makes servers while other threads may read the environment.
  static void Keep();
  FewGrpcThreads(const FewGrpcThreads&) = delete;

 private:
  bool set_queues_ = false;
  bool set_threads_ = false;
};
// Makes TensorFlow's eager contexts of this process copy tensors over the data port. Each reads this anew when it is
// connected to a cluster, which is after the cluster's server was made.
void CopyEagerTensorsOverTheDataPort();
// The settings of the whole process: FUSEWIRE_LOG, FUSEWIRE_TENSOR_FUSE, FUSEWIRE_STAR_RECORD.
void ReadProcessSettings();

// The secret that all tasks of the cluster share, from a variable or from a file (docs/trust.md#the-secret).
// Home: any thread. Fails: with the reason, and how to fix it; the secret is in no message.

// `word`: FUSEWIRE_SECRET, `file`: FUSEWIRE_SECRET_FILE. Empty if both are. As `of_environment` of
// python/fusewire/secret.py.
Result<std::string> ReadSecret(const std::string& word, const std::string& file);

}  // namespace fusewire::tf
