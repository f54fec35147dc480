// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The settings of one server, read from the environment when it is made. docs/settings.md has the table.
// Home: any thread. Owns: plain values. Fails: never; an invalid value is logged, and the default is used.
#ifndef FUSEWIRE_TF_SERVER_OPTIONS_H_
#define FUSEWIRE_TF_SERVER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/transport_choice.h"
#include "fusewire/reactor/pool.h"
#include "fusewire/tf/star/cut/homes.h"
#include "fusewire/transport/listening.h"

namespace fusewire {
namespace tf {

struct ServerSettings {
  bool disabled = false;    // FUSEWIRE_DISABLE: everything over gRPC
  bool merge_parts = true;  // TF_ENABLE_PS_GRAPH_FUSION: star_server_lite makes as few calls as possible
  pipe::Options pipe;
  reactor::PoolOptions pool;
  pipe::TransportChoice wire = pipe::TransportChoice::kAuto;  // FUSEWIRE_TRANSPORT
  int64_t patience_ns = 0;
  std::string bind;  // FUSEWIRE_BIND: the address of data ports; empty: that of the task in the cluster
  // FUSEWIRE_PORTS: the range from which a free port is taken; 0: any.
  uint16_t port_min = 0, port_max = 0;
  // gRPC address -> data address, of .endpoint_map; empty without one.
  std::map<std::string, std::string> endpoints;
};

// The protocols that this plug-in serves.
bool IsOurs(const std::string& protocol);
StarMode StarModeOf(const std::string& protocol);

// `job` chooses between the settings for parameter servers and those for workers.
ServerSettings ReadSettings(const std::string& job);
// During its life, TensorFlow starts few threads for a server's gRPC client: 2 instead of 72, unless the environment
// sets a number. Four hundred workers of one process would need more than the kernel allows, and our steps don't use
// them.
class FewGrpcThreads {
 public:
  FewGrpcThreads();
  ~FewGrpcThreads();
  FewGrpcThreads(const FewGrpcThreads&) = delete;

 private:
  bool set_queues_ = false;
  bool set_threads_ = false;
};
// One "host:port=host:port" a line; blank lines and lines that begin with # are ignored. *bad names malformed lines.
std::map<std::string, std::string> ParseEndpointMap(const std::string& text, std::string* bad);
// The address on which the data port of the task at `own` ("host:port") is opened: `bind` if it is set, loopback if all
// tasks are there, otherwise the task's own address; or every interface, with the reason.
transport::ListeningPlace WhereDataPortsAre(const std::string& bind, const std::string& own,
                                            const std::map<std::string, std::string>& tasks);
// "40000-40100" or "40000"; false if it is neither.
bool ParsePorts(const std::string& text, uint16_t* port_min, uint16_t* port_max);
// The settings of the whole process: FUSEWIRE_LOG, FUSEWIRE_TENSOR_FUSE, FUSEWIRE_STAR_RECORD.
void ReadProcessSettings();

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_SERVER_OPTIONS_H_
