// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an operator decides about a server's data port: where it listens, at which ports, and the address that the other
// tasks are told. docs/network.md has the words.
// Home: any thread that may wait: names are asked of the system's resolver. Owns: plain values.
// Fails: with the variable, its value and what to write instead. A server does not start with a wrong one: a port that
// an operator did not choose must not open.
#pragma once

#include <map>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/pipe/options.h"
#include "fusewire/transport/address.h"
#include "fusewire/transport/listening.h"

namespace fusewire::tf {

// As the environment has them; empty: not set.
struct NetworkWords {
  std::string bind;       // FUSEWIRE_BIND
  std::string ports;      // FUSEWIRE_PORTS
  std::string advertise;  // FUSEWIRE_ADVERTISE
};

struct NetworkSettings {
  std::string bind;       // as it is written; empty: not set
  pipe::PortRange ports;  // 0: any
  // What the other tasks are told: no host, the task's own in the cluster; port 0, the data port's own.
  transport::Address advertise;
  std::string listen_host;  // of the data port, as decided; empty: every interface
};

// "40000-40100" or "40000"; false if it is neither.
bool ParsePorts(const std::string& text, pipe::PortRange* ports);
// "host", "host:port", "[::1]:port" or "::1", of one machine.
Status ParseAdvertise(const std::string& text, transport::Address* advertise);
Result<NetworkSettings> ReadNetwork(const NetworkWords& words);

// The address on which the data port of the task at `own` ("host:port") is opened: where `bind` says if it is set,
// loopback if all tasks are there, otherwise the task's own address; or every interface, with the reason.
Result<transport::ListeningPlace> WhereDataPortsAre(const std::string& bind, const std::string& own,
                                                    const std::map<std::string, std::string>& tasks);

// .endpoint_map: an optional file that sets data ports by hand. Anyone who can write it decides where data goes, so it
// is read only if only this process' user and root can.
// Home: any thread. Fails: never; a file that is left out is logged, with the reason.

// gRPC address -> data address, of the file in `folder` ("": the working directory); empty without one.
std::map<std::string, std::string> ReadEndpointMap(const std::string& folder);

// One "host:port=host:port" a line; blank lines and lines that begin with # are ignored. *bad names malformed lines.
std::map<std::string, std::string> ParseEndpointMap(const std::string& text, std::string* bad);

}  // namespace fusewire::tf
